#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a debugger which knows the interface for message queues finds the communicators, groups, pending sends and receives, and
# unexpected messages of all ranks of a process, and of several processes, also very many; and that damaged memory does not harm it.
# Usage: queues_test.sh BUILD DEBUGGER WORK
set -u
build=$1
debugger=$2
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
mkdir -p "$3" && cd "$3" || exit 1
unset HEDDLE_OPTIONS
"$build/bin/mpicc" "$here/queues/queued.c" -o queued || exit 1
"$build/bin/mpicc" "$here/queues/receives.c" -o receives || exit 1
run=$build/bin/mpirun

# shows NAME PREFIX WORLD HALVES OPTIONS: of 4 ranks. PREFIX: of names, with % for the rank; then the processes of both groups.
shows() {
    local name=$1 prefix=$2 world="of 4, processes $3 with an id" halves="of 2, processes $4 with an id" text
    expect "$name" 0 '[^0-9]0 blocks left $' '' "$debugger" 4 "$run" -n 4 "${@:5}" ./queued
    cp "$expect_dir/out" out
    # [^:]* stays in the communicator
    for text in \
        "${prefix/\%/0}MPI_COMM_WORLD: rank 0 $world receive from 1/[01] tag 5 bytes 16 status 0 [^:]*receive from 1/[01] tag 4 bytes 4 status 0 " \
        "${prefix/\%/0}MPI_COMM_WORLD: rank 0 $world [^:]*message from 1/[01] tag 42 bytes 8 copied (1042|-1) status 1 " \
        "${prefix/\%/0}MPI_COMM_WORLD: rank 0 $world [^:]*message from 1/[01] tag 43 bytes 12 (at 1043|copied -1) status 1 " \
        "${prefix/\%/0}\(no name\): rank 0 $world receive from -1/-1 any tag bytes 8 status 0 \(\)" \
        "${prefix/\%/0}halves: rank 1 $halves message from 0/[0-2] tag 45 bytes 4 (at 1045|copied -1) status 1 " \
        "${prefix/\%/1}MPI_COMM_WORLD: rank 1 $world [^:]*send to 0/0 tag 43 bytes 12 at 1043 status 0 " \
        "${prefix/\%/1}MPI_COMM_WORLD: rank 1 $world [^:]*send to 2/[0-2] tag 44 bytes 1048576 at 1044 status 0 " \
        "${prefix/\%/0}MPI_COMM_WORLD: rank 0 $world [^:]*receive from 1/[01] tag 48 bytes 24 status 0 " \
        "${prefix/\%/1}MPI_COMM_WORLD: rank 1 $world [^:]*send to 0/0 tag 47 bytes 24 at 1047 status 0 " \
        "${prefix/\%/2}halves: rank 0 $halves send to 1/0 tag 45 bytes 4 at 1045 status 0 " \
        "${prefix/\%/2}\(freed\): rank 2 $world receive from 3/[0-3] tag 46 bytes 4 status 0 " \
        "${prefix/\%/3}MPI_COMM_WORLD: rank 3 $world receive from 2/[0-2] tag 6 bytes 4 status 0 " \
        "${prefix/\%/3}\(no name\): rank 3 $world (rank 3: )?halves: "; do
        expect "$name: $text" 0 "$text" '' cat out
    done
}

expect "may processes be read here?" 0 '*' '*' "$debugger" 4 "$run" -n 4 +p 1 ./queued
grep -q 'cannot be read' "$expect_dir/out" && exit 77
for pes in 1 2; do
    shows "one process, $pes PEs" 'rank %: ' '0 0 0 0' '0 0' +p $pes
done
shows "two processes" 'rank %: ' '0 0 1 1' '1 0' --procs 2
shows "a rank in each process" '' '0 1 2 3' '2 0' --procs 4
for options in "+p 1" "+p 2" "--procs 2"; do
    # shellcheck disable=SC2086
    expect "damaged memory, $options" 0 '^0 blocks left $' '' "$debugger" -damaged 4 "$run" -n 4 $options ./queued
done
expect "three million receives" 0 '^3000000 receives 0 blocks left $' '' "$debugger" -many 1 "$run" -n 1 ./receives
finish
