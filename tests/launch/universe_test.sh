#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that jobs of mpirun --universe connect to each other: by ports, published names and sockets, with time-outs; that a
# lost job is an error for the others, and that nothing is left behind.
# Usage: universe_test.sh MPICC MPIRUN
set -u
mpirun=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS
here=$(cd "$(dirname "$0")" && pwd)
work=$(cd "$expect_dir" && pwd -P)
"$1" -O1 -o "$work/job" "$here/universe.c" || exit 1
cd "$work" || exit 1
export HEDDLE_UNIVERSE=test-$$
folder=/dev/shm/heddle-universe-$(id -u)-$HEDDLE_UNIVERSE
run=(timeout 180 "$mpirun" --universe)
# beside PROCS RANKS WORDS...: a job beside those of expect.
beside() {
    "${run[@]}" --procs "$1" -n "$2" ./job "${@:3}" >beside 2>beside_err </dev/null &
    job=$!
}

beside 2 4 open a accept a talk 0 3 leave 0 accept a spawn 2 talk 0 2 leave 0 talk 0 1 leave 0 close a
expect "3 ranks in 2 processes connect to 4 in 2" 0 'talked to: 4 end: well' '' "${run[@]}" --procs 2 -n 3 ./job connect a talk 0 4 leave 0
expect "then one rank does, while they spawn others" 0 'talked to: 4 end: well' '' "${run[@]}" -n 1 ./job connect a talk 0 4 leave 0
expect_beside "two clients" 0 'talked to: 3 talked to: 2 talked to: 1 end: well'
left_over() { ls -d "$folder" 2>/dev/null; }
expect_nothing_left "jobs that have ended" 1800

beside 1 2 open a serve 64 close a
expect "64 connections one after the other" 0 'end: well' '' "${run[@]}" --procs 2 -n 2 ./job visit a 64
expect_beside "their server" 0 'end: well'
beside 2 2 open a serve 64 close a
for i in {1..32}; do
    "${run[@]}" -n 1 ./job visit a 2 >"client$i" 2>&1 </dev/null &
    clients[i]=$!
done
for i in {1..32}; do wait "${clients[i]}"; done
expect "32 jobs that connect at once" 0 '^(end: well ){32}$' '' cat client{1..32}
expect_beside "the server of 32 jobs" 0 'end: well'

beside 1 2 open a accept a talk 0 2
expect "jobs that do not disconnect end together" 0 'talked to: 2 end: well' '' "${run[@]}" -n 2 ./job connect a talk 0 2
expect_beside "not disconnected" 0 'talked to: 2 end: well'
beside 1 1 join socket
expect "MPI_Comm_join" 0 'join: well' '' "${run[@]}" -n 2 ./job join socket
expect_beside "MPI_Comm_join" 0 'join: well'

beside 2 3 open a accept a talk 0 2 leave 0 close a
expect "without --universe" 0 'talked to: 3 end: well' '' timeout 180 "$mpirun" -n 2 ./job connect a talk 0 3 leave 0
expect_beside "without --universe" 0 'talked to: 2 end: well'
expect "an accept without mpirun" 1 '' 'deadlock: .*cannot, without mpirun --universe' timeout 180 ./job open a accept a
beside 1 1 create begun await ended
await test -e begun
expect "the first number of a job" 0 'lookup: heddle-universe:66:' '' "${run[@]}" -n 1 ./job open a lookup a
expect "later jobs get the numbers that it did not use" 0 'lookup: heddle-universe:67:' '' "${run[@]}" -n 1 ./job open a lookup a create ended
wait $job
rm -f begun ended
expect "a connect at which no rank accepts is a deadlock" 1 '' 'deadlock: .*MPI_Comm_connect' timeout 180 "$mpirun" -n 2 ./job open a connect a

expect "nobody comes, the port is closed, or does not exist" 0 'try: MPI_ERR_PORT try: MPI_ERR_PORT try: MPI_ERR_PORT try: MPI_ERR_PORT' '' \
    timeout 180 "$mpirun" -n 1 ./job try own open a try own close a try own try heddle-universe:1:0:0
expect "a job outside the universe" 0 'try: MPI_ERR_PORT' '' env HEDDLE_UNIVERSE=none "$mpirun" -n 2 ./job try heddle-universe:1:0:0
expect "the tags of output" 0 '\[1\]<stdout> rank 1' '' "${run[@]}" --tag-output -n 2 ./job number
expect "names" 0 'lookup: MPI_ERR_NAME publish: success publish: MPI_ERR_SERVICE lookup: nowhere' '' \
    "${run[@]}" -n 1 ./job lookup a publish a publish a lookup a
expect "one of several processes publishes a name" 0 'race: well' '' "${run[@]}" --procs 2 -n 4 ./job race 100
beside 1 1 open a await ended
# shellcheck disable=SC2317 # called by await
has_name() { ls "$folder"/names/* >/dev/null 2>&1; }
await has_name
(flock 9 && : >locked && until test -e ended; do sleep 0.1; done) 9<"$folder/names" &
await test -e locked
expect "a name while another process has the lock" 0 'hurry: MPI_ERR_SERVICE lookup: heddle-universe:' '' "${run[@]}" -n 1 ./job hurry b lookup a
expect "a name is known in other jobs" 0 'lookup: heddle-universe:' '' "${run[@]}" -n 1 ./job lookup a create ended
wait $job
beside 1 1 await named
expect "a name of a job that has ended is not published, and may be" 0 'lookup: MPI_ERR_NAME end' '' "${run[@]}" -n 1 ./job lookup a open a create named
wait $job
rm -f named ended locked

beside 1 1 open a await waiting
expect "the port's job ends instead of accepting" 0 'try: MPI_ERR_(PORT|PROC_ABORTED) end: well' '*' "${run[@]}" -n 1 ./job create waiting try a
wait $job
beside 2 2 open a accept a talk 0 2 lost 0 drop 0 accept a talk 0 1 leave 0 close a
expect "a client is killed" 137 'talked to: 2' 'was ended by signal 9' "${run[@]}" -n 2 ./job connect a talk 0 2 kill
expect "its server goes on" 0 'talked to: 2 end: well' '' "${run[@]}" -n 1 ./job connect a talk 0 2 leave 0
expect_beside "a killed client" 0 'lost: MPI_ERR_PROC_ABORTED talked to: 1 end: well'
beside 1 2 open a accept a talk 0 2 abort
expect "MPI_Abort ends one job" 0 'lost: MPI_ERR_PROC_ABORTED end: well' '' "${run[@]}" --procs 2 -n 2 ./job connect a talk 0 2 lost 0
expect_beside "MPI_Abort" 9 '*'

lasting='in this job and in those that it is connected to.*MPI_Recv'
beside 2 3 open a accept a talk 0 2 block
expect "a deadlock of two jobs" 1 'talked to: 3' "deadlock: .*$lasting" "${run[@]}" -n 2 ./job connect a talk 0 3 block
expect_beside "a deadlock" 1 'talked to: 2'
expect "its report" 0 "deadlock: .*$lasting" '' cat beside_err
beside 1 1 open a accept a merge 0 block
expect "... of which one waits in a collective with the other" 1 '' "deadlock: .*not entered by rank|deadlock: .*MPI_Barrier" \
    "${run[@]}" --procs 2 -n 2 ./job connect a merge 1 barrier 0
expect_beside "... and that" 1 ''
beside 1 1 open a accept a merge 0 window lock barrier 0 block
expect "... of which one waits for a lock that the other holds" 1 '' 'deadlock: .*MPI_Win_lock' \
    "${run[@]}" --procs 2 -n 2 ./job connect a merge 1 window barrier 0 lock
expect_beside "... and that one" 1 ''
beside 2 2 open a accept a talk 0 2 block
"${run[@]}" --procs 2 -n 2 ./job connect a talk 0 2 open b accept b talk 0 1 block >middle 2>&1 &
middle=$!
expect "a deadlock of three jobs in a row" 1 'talked to: 2' "deadlock: .*$lasting" "${run[@]}" -n 1 ./job connect b talk 0 2 block
expect_beside "a deadlock of three" 1 'talked to: 2'
wait $middle
expect "the one in the middle" 0 "deadlock: .*$lasting" '' cat middle
beside 2 3 open a accept a talk 0 2 talk 0 2 leave 0
expect "a job that computes while another one waits for it" 0 'talked to: 3 talked to: 3 end: well' '' \
    "${run[@]}" --procs 2 -n 2 ./job connect a talk 0 3 pause 3500 talk 0 3 leave 0
expect_beside "the one that waits" 0 'talked to: 2 talked to: 2 end: well'
beside 2 3 open a accept a group 0 regroup
expect "... and has freed what they shared, but forms a communicator from their group later" 0 'end: well' '' \
    "${run[@]}" --procs 2 -n 2 ./job connect a group 0 pause 3500 regroup
expect_beside "the one that is in the call" 0 'end: well'
beside 1 2 open a accept a talk 0 2 leave 0 pause 4000
expect "a deadlock of a job that has disconnected from one that computes" 1 'talked to: 2' 'deadlock: .*under way [^,]*MPI_Recv' \
    "${run[@]}" --procs 2 -n 2 ./job connect a talk 0 2 leave 0 block
expect_beside "the one that computes" 0 'talked to: 2 end: well'
beside 2 3 open a accept a talk 0 2 block
expect "a job whose partner is killed" 137 'talked to: 3' '*' "${run[@]}" -n 2 ./job connect a talk 0 3 kill
expect_beside "... and then is blocked for ever" 1 'talked to: 2'
expect "its deadlock" 0 'deadlock: .*MPI_Recv' '' cat beside_err

finalized='deadlock: .*processe?s? (has|have) called MPI_Finalize in all ranks, and waits? for'
for wait in "lost 0" "leave 0" "barrier 0"; do
    beside 2 3 open a accept a talk 0 2
    # shellcheck disable=SC2086 # words
    expect "a job is in MPI_Finalize, and another one waits for it: $wait" 1 'talked to: 3' "$finalized" "${run[@]}" -n 2 ./job connect a talk 0 3 $wait
    expect_beside "the one in MPI_Finalize: $wait" 0 'talked to: 2 end: well'
done
beside 1 2 open a accept a talk 0 2
"${run[@]}" --procs 2 -n 2 ./job connect a talk 0 2 open b accept b talk 0 1 >middle 2>&1 &
middle=$!
expect "the last one of three in a row waits" 1 'talked to: 2' "$finalized" "${run[@]}" -n 1 ./job connect b talk 0 2 block
expect_beside "the first one" 0 'talked to: 2 end: well'
wait $middle
expect "the one in the middle is in MPI_Finalize" 0 'end: well' '' cat middle
beside 1 1 open a accept a talk 0 1
expect "a connect to a job that is in MPI_Finalize" 0 'again: MPI_ERR_PORT end: well' '' "${run[@]}" -n 1 ./job connect a talk 0 1 pause 500 again
expect_beside "a connect" 0 'end: well'

"$mpirun" --universe -n 1 ./job open a accept a talk 0 1 create ready await never >/dev/null 2>&1 &
killed=$!
(await test -e ready && kill -9 $killed) &
expect "an mpirun is killed" 0 'lost: MPI_ERR_PROC_ABORTED end: well' '' "${run[@]}" -n 1 ./job connect a talk 0 1 lost 0
expect "the numbers of ranks" 0 'end: well' '' "${run[@]}" --procs 2 -n 3 ./job env
expect "... in one process" 0 'end: well' '' "${run[@]}" -n 3 ./job env
expect "process sets" 0 'end: well' '' "${run[@]}" --procs 2 -n 3 ./job sets
expect "a communicator that is not freed" 1 'end: well' 'leaks: not freed' "${run[@]}" -n 2 ./job dup +check leaks
expect "a deadlock in one job of the universe" 1 '' 'deadlock: .*rank 1 of 2.*MPI_Recv' "${run[@]}" --procs 2 -n 2 ./job block
expect "random histories" 0 '' '' "$here/universe_random.py" "$mpirun" ./job 1 12

expect_nothing_left "all jobs" 1800
mkdir -m 755 "$folder"
expect "a folder that others can list" 1 '' 'others can access it' "${run[@]}" -n 1 ./job
exec 9<"$folder"
flock 9
expect "... and keep locked" 1 '' 'others can access it' timeout -s KILL 30 "$mpirun" --universe -n 1 ./job
exec 9<&-
rmdir "$folder"
expect "more than one node" 2 '' 'universe' "$mpirun" --universe --hosts nosuchhost1,nosuchhost2 -n 2 ./job
finish
