#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that MPI_Comm_spawn starts new processes for what cannot run in the process of the root: a program that is not
# position-independent, another folder; how they end, and that a parent survives the death of a child.
# Usage: spawn_test.sh MPICC MPIRUN
set -u
mpicc=$1
mpirun=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS
here=$(cd "$(dirname "$0")" && pwd)
work=$(cd "$expect_dir" && pwd -P)
"$mpicc" -O1 -o "$work/spawn" "$here/spawn.c" && "$mpicc" -O1 -fno-pie -no-pie -o "$work/fixed" "$here/spawn.c" || exit 1
cp "$work/spawn" "$work/other"
mkdir "$work/folder" "$work/tmp"
printf 'no program' >"$work/text"
chmod +x "$work/text"
cd "$work" || exit 1
export TMPDIR=$work/tmp
run=("$mpirun" --procs 2 -n 4 +p 1 ./spawn)
child="child: 3 ranks, 7 in all, program 0, well, two words in $work"

expect "another program: its ranks share the root's process" 0 "($child .*parent: 7|parent: 7.*$child )" '' "${run[@]}" ./other 3
expect "a program that is not position-independent: a process per rank" 0 "$child " '' "${run[@]}" ./fixed 3
expect "a parent that is not" 0 'child: 2 ranks, 4 in all' '' "$mpirun" --procs 2 ./fixed ./fixed 2
expect "another folder: the ranks share a process" 0 "$child/folder " '' "${run[@]}" ./other 3 folder
expect "two programs" 0 'child: 3 ranks, 7 in all, program 0' '' "${run[@]}" ./other 2 '' well ./fixed
expect "one process at the start" 0 'child: 2 ranks, 3 in all' '' "$mpirun" --procs 1 -n 1 ./spawn ./fixed 2
expect "--tag-output" 0 '\[0\]<stdout> parent.*\[spawn 1, 0\]<stdout> child|\[spawn 1, 0\]<stdout> child.*\[0\]<stdout> parent' '' \
    "$mpirun" --procs 2 --tag-output ./fixed ./fixed 1

expect "without a process manager" 0 'spawn: MPI_ERR_SPAWN' '*' "$mpirun" -n 1 ./spawn ./fixed 2
expect "a file that is no program" 0 'spawn: MPI_ERR_SPAWN' '' "${run[@]}" ./text 2
expect "a folder that does not exist" 0 'spawn: MPI_ERR_SPAWN' '' "${run[@]}" ./other 2 nosuch
expect "more processes than a job can spawn" 0 'spawn: MPI_ERR_SPAWN' '' "${run[@]}" ./fixed 1100
expect "200 processes are not too many" 0 'spawn: MPI_ERR_SPAWN' 'of spawn 1 .rank [0-9]*. ended before it called MPI_Init' \
    "${run[@]}" /bin/true 200
expect "a program without MPI" 0 'spawn: MPI_ERR_SPAWN' 'process [23] of spawn 1 .rank [01]. ended before it called MPI_Init, so MPI_Comm_spawn fails' \
    "${run[@]}" /bin/true 2
expect "one program without MPI of two" 0 'spawn: MPI_ERR_SPAWN' 'process 3 of spawn 1 .rank 1. ended before it called MPI_Init' \
    "${run[@]}" ./other 1 '' well /bin/false
expect "a child's exit code" 5 'parent: 5' 'process 2 of spawn 1 .rank 0. ended with exit code 5' "${run[@]}" ./fixed 1 '' exit
expect "MPI_Abort of a child" 9 '*' 'spawn 1, rank 0 of 1 .*: MPI_Abort was called with error code 9' "${run[@]}" ./fixed 1 '' abort
expect "a child that is killed" 137 'receive: MPI_ERR_PROC_ABORTED' 'process 2 of spawn 1 .rank 0. was ended by signal 9' "${run[@]}" ./fixed 1 '' kill
expect "a deadlock of parents and children" 1 '' 'deadlock.*rank [0-3] of 4.*MPI_Recv' "${run[@]}" ./fixed 1 '' wait
for job in "$mpirun --procs 2 -n 4 +p 1" "$mpirun --universe -n 1"; do
    for program in "./fixed 3" "./other 3 folder"; do
        read -r file n folder <<<"$program"
        # shellcheck disable=SC2086
        expect "children that have disconnected end before their parents: $job, $program" 0 'gone connect: .*MPI_ERR_PORT' '' $job ./spawn "$file" "$n" "$folder" gone
    done
done
expect "... or have freed the communicator, with connections that notice it" 0 'gone' '' env UCX_TLS=tcp "${run[@]}" ./fixed 3 '' freed
expect "... and the parents are deadlocked by then" 1 'parent: 5 in all' 'deadlock.*rank [0-3] of 4.*MPI_Recv' "${run[@]}" ./fixed 1 '' later
expect "children wait for parents that have called MPI_Finalize" 1 '' \
    'deadlock.*2 connected processes have called MPI_Finalize.*spawn 1, rank [01] of 2.*MPI_Recv' "${run[@]}" ./fixed 2 '' left
expect "... but a child uses what the parents still answer" 0 'late: cancelled, a name' '' "${run[@]}" ./fixed 1 '' late

left_over() { ls "$TMPDIR"; pgrep -f "$work/fixed" || true; }
expect_nothing_left "all jobs" 1800
finish
