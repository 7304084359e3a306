#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that processes which find no room for UCX's shared memory in /dev/shm report that and use TMPDIR, with any
# number of processes at the same time; that UCX's failure is not an error as long as there is another place; and that
# nothing is left there, even by killed jobs. Usage: room_test.sh MPICC MPIRUN What is in single quotes is for the shell
# that runs it.
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

says() { # says PROCESSES KIB: the pattern of the message of one of so many processes that need so many KiB each
    echo "heddle: process [0-9] of $1: UCX's shared memory needs $2 KiB, which [^ ]* does not have, so it is in $expect_dir/tmp instead "
}
two=$(says 2 4608)
pes='(heddle: 2 PEs on [^:]*: [^:]* longer )?' # on small machines, at any place

with_shm 1m
expect "too small for any process" 0 '' "^($two){2}$" "${in_small_shm[@]}" "$mpirun" --procs 2 -n 2 "$closed"
expect "too small, several PEs" 0 '' "^$pes($(says 2 9216)$pes){2}$" "${in_small_shm[@]}" "$mpirun" --procs 2 -n 4 +p 2 "$closed"
expect "shared memory is not wanted" 0 '' '*' "${in_small_shm[@]}" env UCX_TLS=tcp,self "$mpirun" --procs 2 -n 2 true
with_shm 64m
expect "room for all" 0 '' '' "${in_small_shm[@]}" "$mpirun" --procs 2 -n 2 "$closed"
expect_nothing_left "after jobs" 1800

# There is room for some, and all look at the same time: those use it, and the others do not fail.
for _ in 1 2 3 4 5; do
    with_shm 6m
    expect "room for one process of two" 0 '' "^$two$" "${in_small_shm[@]}" "$mpirun" --procs 2 -n 2 "$closed"
    with_shm 15m
    expect "room for three processes of four" 0 '' "^$(says 4 4608)$" "${in_small_shm[@]}" "$mpirun" --procs 4 -n 4 "$closed"
    with_shm 24m
    expect "room for two processes of three, two PEs" 0 '' "^$pes$(says 3 9216)$pes$" \
        "${in_small_shm[@]}" "$mpirun" --procs 3 -n 6 +p 2 "$closed"
done
expect_nothing_left "after jobs that shared the room" 1800

# A folder that is not the job's: processes take turns in it as well, and leave nothing there.
with_shm 6m
expect "room for one process in a folder of the user's choice" 0 '' "^$two$" "${in_small_shm[@]}" \
    sh -c 'UCX_POSIX_DIR=/dev/shm "$@" && ls -A /dev/shm' - "$mpirun" --procs 2 -n 2 "$closed"

# Somebody else takes the room between the look and UCX's use of it: a look that always finds enough does the same.
cat >"$expect_dir/look.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/statvfs.h>
int statvfs(const char *path, struct statvfs *status_out)
{
    int (*look)(const char *, struct statvfs *) = (int (*)(const char *, struct statvfs *))dlsym(RTLD_NEXT, "statvfs");
    int result = look(path, status_out);
    if (strncmp(path, "/dev/shm", 8) == 0)
        status_out->f_bavail = 1 << 20;
    return result;
}
END
gcc -shared -fPIC -o "$expect_dir/look.so" "$expect_dir/look.c" -ldl || exit 1
with_shm 1m
expect "the room is gone after the look" 0 '' "^($two){2}$" \
    "${in_small_shm[@]}" env "LD_PRELOAD=$expect_dir/look.so" "$mpirun" --procs 2 -n 2 "$closed"
expect_nothing_left "after the job whose look was wrong" 1800

# A process that is killed leaves its folder, which is empty; mpirun removes it, or if that is killed as well the next job.
with_shm 1m
expect "a job that is killed" 137 '' '*' "${in_small_shm[@]}" "$mpirun" --procs 2 -n 2 "$closed" 'kill -9 $PPID;'
expect_nothing_left "after a job that was killed" 1800
expect "mpirun is killed" 137 '' '*' "${in_small_shm[@]}" "$mpirun" --procs 2 -n 2 "$closed" \
    'kill -9 $(ps -o ppid= -p $PPID);'
expect "the job after it" 0 '' '*' "${in_small_shm[@]}" "$mpirun" --procs 2 -n 2 "$closed"
expect_nothing_left "after mpirun was killed" 1800
finish
