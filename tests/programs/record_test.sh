#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that +schedule replay repeats the results of wildcards, tests, MPI_Waitany and MPI_Waitsome that were recorded, with more
# PEs and several processes; that a run which departs from the record says so; and that damaged records are refused.
# Usage: record_test.sh BUILD WORK
set -u
build=$1 work=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
here=$(cd "$(dirname "$0")" && pwd)
mpirun=$build/bin/mpirun
mkdir -p "$work" && cd "$work" || exit 1
rm -f ./record.*
"$build/bin/mpicc" -g -O1 -Wall "$here/orders.c" -o orders || exit 1

same_results() {
    cp "$expect_dir/out" second
    expect "the replay has the same results" 0 '' '' cmp first second
}

# With one PE the ranks send in the order of the word: the record has an order that another run would not have by itself.
for order in 321 213; do
    expect "a record of $order" 0 "^${order:0:1} ${order:1:1} ${order:2:1} " '' \
        "$mpirun" -n 4 +p 1 +schedule record:record.$order ./orders record $order
    cp "$expect_dir/out" first
    for n_pes in 1 2 4; do
        expect "a replay of $order with $n_pes PEs" 0 '*' '*' \
            "$mpirun" -n 4 +p $n_pes +schedule replay:record.$order ./orders record 123
        same_results
    done
done
expect "a record with 4 PEs" 0 '*' '*' "$mpirun" -n 4 +p 4 +schedule record:record.pes ./orders record 123
cp "$expect_dir/out" first
expect "its replay" 0 '*' '*' "$mpirun" -n 4 +p 4 +schedule replay:record.pes ./orders record 312
same_results
if [ -x "$build/libexec/heddle/mpirun-procs" ]; then
    expect "a record of 2 processes" 0 '*' '*' "$mpirun" -n 4 --procs 2 +schedule record:record.procs ./orders record 321
    cp "$expect_dir/out" first
    expect "its replay" 0 '*' '*' "$mpirun" -n 4 --procs 2 +schedule replay:record.procs ./orders record 123
    same_results
fi

# A run that does not end is recorded, too.
expect "a record of a deadlock" 1 '' 'deadlock' "$mpirun" -n 4 +p 1 +schedule record:record.stuck ./orders stuck
expect "its replay" 1 '' 'deadlock.*this run had .schedule replay:record.stuck' \
    "$mpirun" -n 4 +p 2 +schedule replay:record.stuck ./orders stuck

"$build/bin/mpicc" -g -O1 -Wall "$here/schedules.c" -o schedules || exit 1
expect "a record with one-sided operations" 0 '*' '' "$mpirun" -n 3 +schedule record:record.put ./schedules put_right
expect "its replay says that it may differ" 0 '*' 'the program calls MPI_Win_allocate, whose results are not in a record' \
    "$mpirun" -n 3 +schedule replay:record.put ./schedules put_right

# Departures and damage.
expect "another program departs" 1 '*' 'rank 0 .*MPI_Test: .*the run departs from the record record.321: the record has a probe that found' \
    "$mpirun" -n 4 +p 1 +schedule replay:record.321 ./orders test right
expect "another number of ranks" 2 '' 'of a run of 4 ranks in 1 processes' \
    "$mpirun" -n 3 +schedule replay:record.321 ./orders record 123
expect "no file" 2 '' 'cannot read nofile: No such file' "$mpirun" -n 4 +schedule replay:nofile ./orders record 123
expect "a file that cannot be written" 1 '' 'cannot write no/file: No such file' \
    "$mpirun" -n 4 +schedule record:no/file ./orders record 123
size=$(stat -c %s record.321)
for bytes in 0 1 100 4095 4096 5000 $((size - 1)); do
    head -c $bytes record.321 >record.cut
    expect "a record cut at $bytes" 2 '' 'record.cut is (truncated|not a record)' \
        "$mpirun" -n 4 +schedule replay:record.cut ./orders record 123
done
# Any other damage is refused, or the run departs or waits for what never comes; it never crashes.
for seed in $(seq 1 40); do
    python3 - "$seed" <<'P'
import random, sys
random.seed(int(sys.argv[1]))
data = bytearray(open("record.321", "rb").read())
page = 4096
for _ in range(random.randint(1, 4)):
    at = random.choice([random.randrange(0, 48), page + random.randrange(0, 160)])
    data[at] = random.randrange(256)
open("record.damaged", "wb").write(data)
P
    code=0
    timeout 180 "$mpirun" -n 4 +p 1 +schedule replay:record.damaged ./orders record 123 >damaged.out 2>&1 || code=$?
    expect "damage $seed: exit code $code" 0 '' '' test $code -le 2
done
finish
