#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that mpirun --procs ends with a message, and leaves nothing behind, if the kernel refuses what it needs: a system
# call, a stack, /proc.
# Usage: refused_test.sh MPIRUN PMIX_CLIENT REFUSE
set -u
# In a /dev/shm of its own, where that is allowed: folders that other jobs of the machine leave behind are not this test's.
if [ "${HEDDLE_TEST_SHM:-shared}" = shared ] && unshare --mount mount -t tmpfs none /dev/shm 2>/dev/null; then
    HEDDLE_TEST_SHM=own exec unshare --mount sh -c 'mount -t tmpfs none /dev/shm && exec "$@"' - "$0" "$@"
fi
mpirun=$1
client=$2
refuse=$3
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS PMIX_RANK PMIX_NAMESPACE SLURM_JOB_ID PBS_NODEFILE LSB_DJOB_HOSTFILE
EXPECT_TIMEOUT=180
export TMPDIR=$expect_dir/tmp
mkdir "$TMPDIR"

"$refuse" flock /bin/true
[ $? = 77 ] && exit 77

# Folders of jobs whose mpirun has ended, in all the places where it makes them.
left_over() {
    local dir owner
    for dir in {/dev/shm,"$TMPDIR",/tmp}/heddle-"$(id -u)"-*; do
        [ -d "$dir" ] || continue
        owner=${dir#*/heddle-*-}
        [ -d "/proc/${owner%-*}" ] || echo "$dir"
    done
}

for call in signalfd4:signalfd eventfd2:eventfd sched_getaffinity:sched_getaffinity pselect6:select flock:flock; do
    expect "${call%:*} is refused" 1 '' "^mpirun: the system call ${call#*:} fails .*: Operation not permitted $" \
        "$refuse" "${call%:*}" "$mpirun" --procs 2 "$client" init finalize
done
expect_nothing_left "after refused system calls" 1800

# The processes get the limit that mpirun has, though it raises its own.
# shellcheck disable=SC2016
expect "a small stack" 0 '^100 100 $' '' \
    bash -c 'ulimit -S -s 100; "$@"' - "$mpirun" --procs 2 /bin/sh -c 'ulimit -s; exec "$0" init finalize' "$client"
expect "a stack that cannot be raised" 1 '' '^mpirun: a stack of 100 KiB is too small for several processes: raise' \
    bash -c 'ulimit -s 100; "$@"' - "$mpirun" --procs 2 "$client" init finalize
if unshare -Urm mount -t tmpfs none /proc 2>/dev/null; then
    expect "no /proc" 1 '' '^mpirun: --procs needs /proc, which is not mounted here $' \
        unshare -Urm sh -c 'mount -t tmpfs none /proc && "$@"' - "$mpirun" --procs 2 "$client" init finalize
fi
expect_nothing_left "after all of these" 1800
finish
