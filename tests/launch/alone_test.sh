#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a program which contains calls of MPI_Comm_connect, but makes none, runs like any other: without mpirun it stays
# the process that its caller started, and under mpirun it needs neither UCX, PMIx nor shared memory.
# Usage: alone_test.sh MPICC MPIRUN
set -u
mpirun=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS HEDDLE_UNIVERSE OMPI_COMM_WORLD_SIZE
"$1" -O1 -o "$expect_dir/alone" "$(dirname "$0")/alone.c" || exit 1
cd "$expect_dir" || exit 1

# ---- Without mpirun ----
# shellcheck disable=SC2016 # the inner shell expands it
expect "the caller's process" 0 '^the same process 1 ranks $' '' sh -c 'exec ./alone pid $$'
expect "no variables of launchers" 0 '^none 1 ranks $' '' ./alone place
expect "a signal ends it" 0 '^-15 $' '' python3 -c 'import subprocess as s; print(s.call(["./alone", "end", "15"]))'
expect "several ranks" 0 '^3 ranks $' '' ./alone +vp 3
remedy='start(s)? both programs (with mpirun --universe )?\(one rank: -n 1\)'
expect "another job's port" 43 '' "MPI_Comm_connect: MPI_ERR_PORT: .*another job: $remedy" ./alone connect heddle-universe:1:0:0
expect "a name of nobody" 38 '' "MPI_Lookup_name: MPI_ERR_NAME: .*mpirun --universe $remedy" ./alone lookup a

# ---- With mpirun, on a system that lacks what connections need ----
run="\"$mpirun\" -n 2 ./alone"
lack() {
    expect "without $1" 0 '^2 ranks $' '' "${@:2}"
}
lack "a home" env -u HOME sh -c "$run"
lack "a folder for temporary files" env TMPDIR=/nowhere sh -c "$run"
lack "a short name of that" env "TMPDIR=/$(printf '%0200d' 0)" sh -c "$run"
lack "a folder that exists" sh -c "cp alone /dev/shm/alone.$$; mkdir gone; cd gone; rmdir ../gone; '$mpirun' -n 2 /dev/shm/alone.$$; rm /dev/shm/alone.$$"
lack "many descriptors" sh -c "ulimit -n 20; $run"
unshare --net true 2>/dev/null && lack "a network" unshare --net sh -c "$run"
if unshare -m true 2>/dev/null; then
    : >empty
    private=(unshare -m sh -c)
    lack "shared memory" "${private[@]}" "mount -t tmpfs -o ro none /dev/shm && $run"
    lack "free shared memory" "${private[@]}" "mount -t tmpfs -o size=64k none /dev/shm && $run"
    lack "writable temporary files" "${private[@]}" "mount --bind /tmp /tmp && mount -o remount,ro,bind /tmp && $run"
    for library in libpmix.so.2 libucp.so.0; do
        # All copies of it are empty files.
        copies=$(ldd "$(dirname "$mpirun")/../lib/heddle/machine_ucx.so" | sed -n "s/.*$library => \(\S*\).*/\1/p")
        lack "$library" "${private[@]}" "mount --bind empty \"$copies\" && $run"
    done
fi
finish
