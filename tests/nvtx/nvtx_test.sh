#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that with mpirun --nvtx, and only then, a profiler sees each MPI call of each rank as a range with the call's name and the
# rank, and that the range of a rank that waits stays open while other ranks run. Usage: nvtx_test.sh BUILD WORK PROFILER
set -u
build=$1 work=$2 profiler=$3
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
mpirun=$build/bin/mpirun
rm -rf "$work"
mkdir -p "$work" && cd "$work" || exit 1
unset HEDDLE_OPTIONS LD_PRELOAD
export RANGES=$work/ranges NVTX_INJECTION64_PATH=$profiler

# ranges_of CALL: the category and payload of each of its ranges, sorted by rank, on one line.
ranges_of() {
    awk -v call="$1" '$1 == "begin" && $5 == call { print $3, $4 }' "$RANGES" | sort -n | xargs
}

# The calls whose ranges were open when rank $1 began and ended its range of $2.
open_during() {
    awk -v rank="$1" -v call="$2" '
        $1 == "begin" && $4 == rank && $5 == call { mine = $2 }
        $1 == "begin" { name[$2] = $5 " of " $4 }
        $1 == "begin" && mine { for (range in name) print name[range] }
        $1 == "end" && $2 == mine { exit }
        $1 == "end" { delete name[$2] }' "$RANGES" | sort -u | xargs
}

# The calls whose ranges have no end.
open_at_end() {
    awk '$1 == "begin" { name[$2] = $5 " of " $4 } $1 == "end" { delete name[$2] }
        END { for (range in name) print name[range] }' "$RANGES"
}

# look WHAT: the ranges of app with 4 ranks.
look() {
    for call in MPI_Comm_rank MPI_Send MPI_Send_c MPI_Finalize; do
        expect "$1: a range of each rank for $call" 0 '^1 0 2 1 3 2 4 3 $' '' echo "$(ranges_of $call)"
    done
    expect "$1: two for each MPI_Recv_c" 0 '^1 0 1 0 2 1 2 1 3 2 3 2 4 3 4 3 $' '' echo "$(ranges_of MPI_Recv_c)"
    expect "$1: those of ranks that make a call" 0 '^1 0 3 2 $' '' echo "$(ranges_of MPI_Recv)"
    expect "$1: names of the categories" 0 '^1 rank 0 2 rank 1 3 rank 2 4 rank 3 $' '' \
        echo "$(sed -n 's/^category //p' "$RANGES" | sort | xargs)"
    expect "$1: a range that waits is open while another rank runs" 0 'MPI_Ssend of 1' '' echo "$(open_during 0 MPI_Recv)"
    expect "$1: all ranges end" 0 '^ $' '' echo "$(open_at_end)"
}

# run WHAT PROCESSES ARGUMENT...: one profiler in each process sees the ranges.
run() {
    local what=$1 processes=$2
    shift 2
    rm -f "$RANGES"
    expect "$what" 0 '' '' "$mpirun" --nvtx -n 4 "$@"
    expect "$what: profilers" 0 "^$processes $" '' grep -c '^profiler' "$RANGES"
    look "$what"
}

"$build/bin/mpicc" "$here/app.c" -o app || exit 1
inits='^1 0 2 1 3 2 4 3 $'
for pes in 1 2; do
    run "$pes PEs" 1 ./app +p $pes
    expect "$pes PEs: MPI_Init_thread" 0 "$inits" '' echo "$(ranges_of MPI_Init_thread)"
done
run "from a shell" 1 sh -c './app && true'
if [ -x "$build/libexec/heddle/mpirun-procs" ] && [ -f "$build/lib/heddle/machine_ucx.so" ]; then
    run "two processes" 2 --procs 2 ./app
    run "four processes" 4 --procs 4 ./app
    # nvtx.so has MPI_Comm_spawn, so that the process could get more ranks, and has its first from the start.
    expect "a process with one rank: MPI_Init_thread" 0 "$inits" '' echo "$(ranges_of MPI_Init_thread)"
fi
if [ -d "$build/lib/heddle/fortran" ] && command -v gfortran >/dev/null; then
    "$build/bin/mpifort" "$here/app.f" -o app_f || exit 1
    rm -f "$RANGES"
    expect "Fortran" 0 '' '' "$mpirun" --nvtx -n 4 ./app_f
    expect "Fortran: a range of each rank for MPI_SEND" 0 '^1 0 2 1 3 2 4 3 $' '' echo "$(ranges_of MPI_Send)"
fi

rm -f "$RANGES"
expect "without the option" 0 '' '' "$mpirun" -n 4 ./app
expect "without the option: no profiler" 1 '' '' test -e "$RANGES"
# shellcheck disable=SC2016 # the shell that mpirun starts expands it
expect "what is preloaded" 0 "^[^ ]*/lib/heddle/nvtx.so:$profiler $" '' env "LD_PRELOAD=$profiler" "$mpirun" --nvtx -n 1 \
    sh -c 'echo "$LD_PRELOAD"'
expect "a program without MPI" 0 '^hello hello $' '' "$mpirun" --nvtx -n 2 echo hello
expect "no profiler" 0 '' '' env -u NVTX_INJECTION64_PATH "$mpirun" --nvtx -n 4 ./app
mkdir -p elsewhere/bin
cp "$mpirun" elsewhere/bin/
expect "no nvtx.so" 126 '' '--nvtx: lib/heddle/nvtx.so is missing' elsewhere/bin/mpirun --nvtx -n 4 ./app
finish
