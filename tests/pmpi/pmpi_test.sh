#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a profiling library in front of MPI sees the calls of each rank: in the program's own objects, as a shared
# library that the program was linked with, and preloaded. usage: pmpi_test.sh MPICC MPIRUN FOLDER
set -euo pipefail

mpicc=$1
mpirun=$2
folder=$3
here=$(cd "$(dirname "$0")" && pwd)
n_failed=0

# What must be printed with N ranks.
expected() {
    local n=$1 rank
    for ((rank = 0; rank < n; rank++)); do
        echo "rank $rank: $rank sends, $((rank ? 0 : n * (n - 1) / 2)) receives, 2 barriers"
    done | sort
}

# check WHAT RANKS COMMAND...
check() {
    local what=$1 n=$2 got
    shift 2
    got=$("$@" | sort) || true
    if [ "$got" != "$(expected "$n")" ]; then
        printf 'FAILED %s, %s ranks:\n%s\n' "$what" "$n" "$got"
        n_failed=$((n_failed + 1))
    fi
}

mkdir -p "$folder"
cd "$folder"
"$mpicc" -fPIC -shared "$here/count.c" -o libcount.so
"$mpicc" -fPIC -shared "$here/events.c" -o libevents.so
"$mpicc" "$here/app.c" -o plain
"$mpicc" "$here/app.c" "$here/count.c" -o inside
"$mpicc" "$here/app.c" -L. -lcount "-Wl,-rpath,$PWD" -o linked

for n in 1 2 7; do
    for pes in 1 2; do
        check "inside the program" $n "$mpirun" -n $n ./inside +p $pes
        check "linked" $n "$mpirun" -n $n ./linked +p $pes
        check "preloaded" $n env LD_PRELOAD="$PWD/libcount.so" "$mpirun" -n $n ./plain +p $pes
        check "by events" $n env LD_PRELOAD="$PWD/libevents.so" "$mpirun" -n $n ./plain +p $pes
        check "preloaded, without mpirun" $n env LD_PRELOAD="$PWD/libcount.so" ./plain +vp $n +p $pes
    done
done
check "by events, 2 processes" 7 env LD_PRELOAD="$PWD/libevents.so" "$mpirun" -n 7 --procs 2 ./plain
echo "$n_failed failed"
exit $((n_failed > 0))
