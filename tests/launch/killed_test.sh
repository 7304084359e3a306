#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that SIGKILL of mpirun --procs leaves nothing behind in any state of the processes and at any step of its start:
# no process, no file in /dev/shm, no temporary folder; nor does a job that ends by itself or by a failure.
# Usage: killed_test.sh MPICC MPIRUN
set -u
# In this script's own namespaces, any other process or file is a leftover.
is_alone=${HEDDLE_TEST_ALONE:-no}
if [ "$is_alone" = no ] && unshare --pid --fork --mount --mount-proc true 2>/dev/null; then
    HEDDLE_TEST_ALONE=yes exec unshare --pid --fork --kill-child --mount --mount-proc "$0" "$@"
fi
# shellcheck source=tests/launch/mpi_client.sh
. "$(dirname "$0")/mpi_client.sh" "$1" "$2"
EXPECT_TIMEOUT=180
[ "$is_alone" = yes ] && mount -t tmpfs none /dev/shm
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
# Where this script is not alone: how it knows its own.
export HEDDLE_TEST_MARK=killed_test.$$.$RANDOM

# Prints what is left: living processes, and files.
left_over() {
    local dir pid
    for dir in /proc/[0-9]*; do
        pid=${dir#/proc/}
        [ "$pid" = $$ ] || [ "$pid" = "$BASHPID" ] && continue
        if [ "$is_alone" != yes ]; then
            grep -qsz "^HEDDLE_TEST_MARK=$HEDDLE_TEST_MARK$" "$dir/environ" || continue
            grep -qs killed_test.sh "$dir/cmdline" && continue
        fi
        grep -qsE '^State:.*[ZX]' "$dir/status" && continue
        { tr "\0" " " <"$dir/cmdline"; } 2>/dev/null && echo
    done
    if [ "$is_alone" = yes ]; then find /dev/shm -mindepth 1; else find /dev/shm -name "heddle-*-$job-*"; fi
    find "$TMPDIR" -mindepth 1
}

# killed WHAT SECONDS_LATER words...: a job of 4 processes that does these words, killed when all are ready.
killed() {
    local what=$1 later=$2 is_alive=yes
    shift 2
    rm -f "$work/out"
    "$mpirun" --procs 4 -n 4 "$client" "$@" >"$work/out" 2>"$work/err" &
    job=$!
    await has_lines 4 ready "$work/out" || is_alive=no
    sleep "$later" # into the call, which no process can report; the end must be the same before it
    expect_count=$((expect_count + 1))
    if [ $is_alive = no ] || ! kill -9 $job; then
        expect_failed=$((expect_failed + 1))
        echo "FAILED: the job comes to life: $what"
        cat "$work/out" "$work/err"
    fi
    wait $job 2>/dev/null
    expect_nothing_left "$what, then SIGKILL of mpirun" 1800
}

job=0
killed "sleeping" 0 init say=ready sleep=1000000
killed "not in MPI yet" 0 say=ready sleep=1000000
killed "in a barrier" 0.3 init say=ready @0,spin barrier
killed "in a receive" 0.3 init say=ready @0,spin recv
killed "exchanging large messages" 0.5 init say=ready traffic
killed "in a busy loop, deaf to signals" 0.2 init deaf say=ready spin
killed "stopped" 0.3 init say=ready kill=19
killed "one stopped, the others waiting for it" 0.3 init say=ready @2,kill=19 barrier
killed "with deaf children" 0 init deaf child=1001 say=ready sleep=1000000
killed "with children without our environment" 0 init bare=1001 say=ready sleep=1000000
killed "with deaf daemons" 0 init deaf daemon=1001 say=ready @0,spin barrier
killed "after MPI_Finalize" 0 init finalize say=ready sleep=1000000
killed "writing to nobody" 0.3 init say=ready lines=1000000000

# While they start: between two steps (the guard, the folder, its lock, the processes), and whenever that is.
cc -shared -fPIC -O1 -D_GNU_SOURCE -o "$work/killed_after.so" "$(dirname "$0")/killed_after.c" -ldl || exit 1
for step in "fork 1" "mkdir 1" "flock 1" "fork 2" "fork 3" "fork 4" "fork 5"; do
    KILLED_AFTER=$step LD_PRELOAD=$work/killed_after.so "$mpirun" --procs 4 -n 4 "$client" init sleep=1000000 2>"$work/err" &
    job=$!
    wait $job 2>/dev/null
    expect "mpirun is killed after $step" 0 '^137 $' '' echo $?
    expect_nothing_left "SIGKILL of mpirun and its group after $step" 1800
done
for delay in 0.005 0.02 0.04 0.06 0.08 0.1 0.15 0.2; do
    "$mpirun" --procs 4 -n 4 "$client" init barrier sleep=1000000 2>"$work/err" &
    job=$!
    sleep $delay
    kill -9 $job
    wait $job 2>/dev/null
    expect_nothing_left "SIGKILL of mpirun $delay s after its start" 1800
done

# Ends without SIGKILL.
run=("$mpirun" --procs 4 -n 4 "$client")
job=0
expect "children outlive the processes" 0 '' '' "${run[@]}" init child=1002 finalize
expect_nothing_left "children" 1800
expect "daemons outlive the processes" 0 '' '' "${run[@]}" daemon=1002
expect_nothing_left "daemons" 1800
expect "orphans without our environment, which hold the output open" 0 '' '' "${run[@]}" orphan=1002
expect_nothing_left "orphans" 1800
expect "a crash beside a stopped process and deaf ones" 134 '' 'process 1 of 4 .rank 1. was ended by signal 6' \
    "${run[@]}" init deaf barrier @0,kill=19 @1,kill=6 spin
expect_nothing_left "a crash" 1800
expect "MPI_Abort beside a stopped process" 9 '' '*' "${run[@]}" init child=1003 barrier @3,kill=19 @2,abort=9 barrier
expect_nothing_left "MPI_Abort" 1800
rm -f "$work/out"
"${run[@]}" init deaf daemon=1004 say=ready @0,kill=19 spin >"$work/out" 2>"$work/err" &
job=$!
await has_lines 4 ready "$work/out"
while kill -TERM $job 2>/dev/null; do
    sleep 0.1
done
wait $job
expect "SIGTERM more than once beside a stopped process" 0 '^143 $' '' echo $?
expect_nothing_left "SIGTERM more than once" 1800
finish
