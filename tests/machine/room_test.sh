#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a /dev/shm without room for UCX's shared memory is said, and TMPDIR taken instead, whether it is too small for one
# process or for two; and that nothing is left there, also of a job that was killed. Usage: room_test.sh MPICC MPIRUN
# What is in single quotes is for the shell that runs it.
# shellcheck disable=SC2016
set -u
mpicc=$1
mpirun=$2
here=$(dirname "$0")
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS PMIX_RANK PMIX_NAMESPACE SLURM_JOB_ID UCX_TLS UCX_POSIX_DIR
if ! unshare --mount true 2>/dev/null; then
    echo "skipped: no rights to mount a small /dev/shm"
    exit 77
fi
closed=$expect_dir/closed
"$mpicc" -O1 -o "$closed" "$here/closed.c" || exit 1
mkdir "$expect_dir/tmp"
with_shm() { # with_shm SIZE command...: prints the command's arguments for a shell that has a /dev/shm of that size
    in_small_shm=(env "TMPDIR=$expect_dir/tmp" unshare --mount sh -c
        'mount -t tmpfs -o size="$1" tmpfs /dev/shm && shift && exec "$@"' - "$1")
}
left_over() { ls -A "$expect_dir/tmp"; }

said="heddle: process [01] of 2: [^ ]* has [0-9]+ KiB left, too little for UCX's shared memory, which lies in $expect_dir/tmp now "
with_shm 1m
expect "too small for any process" 0 '' "^($said){2}$" "${in_small_shm[@]}" "$mpirun" --procs 2 -n 2 "$closed"
expect "too small, several PEs" 0 '' "$said.*$said" "${in_small_shm[@]}" "$mpirun" --procs 2 -n 4 +p 2 "$closed"
expect "shared memory is not wanted" 0 '' '*' "${in_small_shm[@]}" env UCX_TLS=tcp,self "$mpirun" --procs 2 -n 2 true
with_shm 6m
expect "room for one process" 0 '' "^($said)+$" "${in_small_shm[@]}" "$mpirun" --procs 2 -n 2 "$closed"
with_shm 64m
expect "room for all" 0 '' '' "${in_small_shm[@]}" "$mpirun" --procs 2 -n 2 "$closed"
expect_nothing_left "after jobs" 20

# A process that is killed leaves its folder, which is empty; the next removes it.
with_shm 1m
expect "a job that is killed" 137 '' '*' "${in_small_shm[@]}" "$mpirun" --procs 2 -n 2 "$closed" 'kill -9 $PPID;'
expect "the job after it" 0 '' '*' "${in_small_shm[@]}" "$mpirun" --procs 2 -n 2 "$closed"
expect_nothing_left "after a job that was killed" 20
finish
