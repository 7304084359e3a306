#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows the exit codes and messages of mpirun --procs for all ends of MPI programs: the code of the first failure, 128
# plus the signal, MPI_Abort's code, 126 and 127 for programs that cannot be run; and that it forwards signals.
# Usage: ends_test.sh MPICC MPIRUN
set -u
# shellcheck source=tests/launch/mpi_client.sh
. "$(dirname "$0")/mpi_client.sh" "$1" "$2"
EXPECT_TIMEOUT=180
many=("$mpirun" --procs 2 -n 6 +p 1 "$client") # three ranks per process

# both A B: both are there, in any order: mpirun says what it knows, maybe before the last words of a process come.
both() { echo "($1.*$2|$2.*$1)"; }

# ---- All is well ----
expect "all end with 0" 0 '' '' "${run[@]}" init finalize
expect "a program that never calls MPI_Init" 0 '^help help help help $' '' "${run[@]}" say=help
expect "the same with several ranks per process" 0 '^(help ){6}$' '' "${many[@]}" say=help
expect "the same without -n" 0 '^help help $' '' "$mpirun" --procs 2 "$client" say=help
expect "a program without MPI" 0 "^($(hostname) ){2}$" '' "$mpirun" --procs 2 hostname
expect "a program without MPI that fails" 1 '' 'process [01] of 2 ended with exit code 1' "$mpirun" --procs 2 false
expect "ends at different times" 0 '' '' "${run[@]}" init @2,sleep=300 finalize @1,sleep=300

# ---- Failures ----
expect "an exit code after MPI_Finalize" 6 '' 'process 2 of 4 .rank 2. ended with exit code 6' "${run[@]}" init finalize @2,exit=6
expect "an exit code before MPI_Init" 6 '' 'process 2 of 4 .rank 2. ended with exit code 6' "${run[@]}" @2,exit=6 init barrier
expect "an end with 0 before MPI_Init, which others have called" 1 '' 'process 2 of 4 .rank 2. ended without initializing MPI' \
    "${run[@]}" @2,exit=0 init barrier
expect "an exit code without MPI_Finalize" 6 '' 'rank 2 of 4.*has not called MPI_Finalize' \
    "${run[@]}" init @2,exit=6 barrier
expect "an end with 0 without MPI_Finalize" 1 '' 'rank 2 of 4.*exit code 0, but has not called MPI_Finalize' "${run[@]}" init @2,exit=0 barrier
expect "the first of two" 3 '' 'ended with exit code 3' "${run[@]}" init finalize @1,exit=3 sleep=100000 @2,exit=4
expect "one fails after MPI_Finalize while the others go on" 3 '' 'ended with exit code 3' "${run[@]}" init finalize @1,exit=3 sleep=1000000
expect "a signal" 139 '' 'process 1 of 4 .rank 1. was ended by signal 11' "${run[@]}" init @1,kill=11 barrier
expect "SIGKILL" 137 '' 'process 3 of 4 .rank 3. was ended by signal 9' "${run[@]}" init @3,kill=9 barrier
expect "a signal before MPI_Init" 134 '' 'process 0 of 4 .rank 0. was ended by signal 6' "${run[@]}" @0,kill=6 init barrier
expect "a signal after MPI_Finalize" 137 '' 'process 0 of 4 .rank 0. was ended by signal 9' "${run[@]}" init finalize @0,kill=9
expect "a signal in a process of three ranks" 137 '' 'process 1 of 2 .ranks 3 to 5. was ended by signal 9' "${many[@]}" init @1,kill=9 barrier
expect "a stack overflow in a process of three ranks" 139 '' "$(both 'rank [0-5] of 6.*stack overflow' 'process [01] of 2 .ranks [0-9] to [0-9]. was ended by signal 11')" \
    "${many[@]}" init @1,overflow barrier
expect "MPI_Abort" 42 '' "$(both 'rank 1 of 4.*MPI_Abort was called with error code 42' 'process 1 of 4 .rank 1. (aborted the job with|ended with exit) code 42')" "${run[@]}" init @1,abort=42 barrier
expect "MPI_Abort with 256" 1 '' 'MPI_Abort was called with error code 256' "${run[@]}" init @1,abort=256 barrier
expect "MPI_Abort while others compute" 42 '' '*' "${run[@]}" init @1,abort=42 spin
# Not "; the others continue".
expect "MPI_Abort while others, who tolerate failures, compute" 42 '' 'process 1 of 4 .rank 1. (aborted the job with|ended with exit) code 42[: ]' \
    "${run[@]}" init tolerant @1,abort=42 spin
expect "MPI_Abort of all" 5 '' '*' "${run[@]}" init abort=5

# ---- What cannot be run ----
expect "no such file" 127 '' 'mpirun: \./none: no such file' "$mpirun" --procs 2 ./none
expect "not in PATH" 127 '' 'no_such_program' "$mpirun" --procs 2 no_such_program
echo 'echo x' >"$work/plain" && chmod -x "$work/plain"
expect "not executable" 126 '' 'plain: .*permission denied' "$mpirun" --procs 2 "$work/plain"
expect "a folder" 126 '' 'folder' "$mpirun" --procs 2 /tmp
expect "no program" 2 '' 'no program|which program|program' "$mpirun" --procs 2

# ---- Mistakes ----
expect "--procz" 2 '' "mpirun: .*--procz.*--procs" "$mpirun" --procz 2 "$client"
expect "--tag-ouput" 2 '' "--tag-ouput.*--tag-output" "$mpirun" --procs 2 --tag-ouput "$client"
expect "--procs without a number" 2 '' "--procs" "$mpirun" --procs "$client"
expect "--procs x" 2 '' "--procs.*x" "$mpirun" --procs x "$client"
expect "--procs -1" 2 '' "--procs.*-1|at least 1" "$mpirun" --procs -1 "$client"
expect "+vq 4" 2 '' '\+vq.*\+vp' "$mpirun" --procs 2 "$client" +vq 4
expect "fewer ranks than processes, with +vp" 2 '' '2 ranks' "$mpirun" --procs 4 "$client" +vp 2

# ---- Signals ----
# signal NAME words...: sends the signal to a job whose four processes have printed a line; stdout and stderr come back.
signal() {
    local name=$1 pid
    shift
    # What a shell starts in the background ignores SIGINT, and all that it starts.
    rm -f "$work/signal.out"
    env --default-signal=INT,HUP "${run[@]}" "$@" >"$work/signal.out" 2>"$work/signal.err" &
    pid=$!
    await has_lines 4 ready "$work/signal.out"
    kill -"$name" $pid
    timeout 180 tail --pid=$pid -f /dev/null || kill -9 $pid
    wait $pid
    code=$?
}
code=0
for name in INT TERM USR1 HUP; do
    number=$(kill -l $name)
    signal $name init say=ready @0,sleep=1000000 barrier
    expect "SIG$name ends a job" 0 "^$((128 + number)) mpirun: process [0-3] of 4 .rank [0-3]. was ended by signal $number" '' \
        sh -c "echo $code; cat $work/signal.err"
done

# ---- A launcher that does not answer ----
# silent WHAT words...: mpirun is stopped when the processes have printed a line; they go on then, and what they do needs it.
# shellcheck disable=SC2317 # called by await
have_given_up() {
    cat "$work"/silent.err.* >"$work/silent.all"
    has_lines 2 'has not replied' "$work/silent.all"
}
# All threads: until the first one has got the signal, under load, the others go on.
# shellcheck disable=SC2317
is_stopped() { ! grep -h ^State: /proc/"$1"/task/*/status | grep -qv T; }
go=$work/silent.go
silent() {
    local what=$1 pid
    shift
    rm -f "$work"/silent.*
    HEDDLE_LAUNCHER_TIMEOUT=4 "$mpirun" --procs 2 -n 2 sh -c 'exec "$@" 2>'"$work/silent.err.\$PMIX_RANK" - "$client" "$@" \
        >"$work/silent.out" 2>"$work/silent.err" &
    pid=$!
    await has_lines 2 ready "$work/silent.out"
    kill -STOP $pid
    await is_stopped $pid
    : >"$go"
    await have_given_up
    kill -CONT $pid
    wait $pid
    expect "a launcher that does not answer: $what" 1 "(process [01]: the launcher has not replied for 4 s: .*$what.*){2}" '' \
        sh -c "cat $work/silent.all; exit $?"
}
silent PMIx_Init say=ready await="$go" init barrier finalize
silent 'the address of process . .PMIx_Get' init say=ready await="$go" barrier finalize
expect "a process that waits long for others to call MPI_Init says so, and goes on" 0 '' '^heddle: process 1 of 2 has been waiting for 3 s for the others to call MPI_Init $' \
    env HEDDLE_LAUNCHER_TIMEOUT=3 "$mpirun" --procs 2 -n 2 "$client" @0,sleep=8000 init finalize
for limit in abc 0 -5 5s 1.5 99999999999 ''; do
    expect "HEDDLE_LAUNCHER_TIMEOUT=$limit" 2 '' "HEDDLE_LAUNCHER_TIMEOUT=$limit: expected whole seconds" \
        env "HEDDLE_LAUNCHER_TIMEOUT=$limit" "$mpirun" --procs 2 -n 2 "$client" init finalize
done
silent PMIx_Abort init say=ready await="$go" abort=3
finish
