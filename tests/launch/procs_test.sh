#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that mpirun --procs starts several processes as a PMIx server, forwards their output, input and signals, ends
# the job when one of them fails, and leaves nothing behind after any end.
# Usage: procs_test.sh MPIRUN PMIX_CLIENT. The library is not needed: the processes are PMIx clients.
set -u
# In a /dev/shm of its own, where that is allowed: folders that other jobs of the machine leave behind are not this test's.
if [ "${HEDDLE_TEST_SHM:-shared}" = shared ] && unshare --mount mount -t tmpfs none /dev/shm 2>/dev/null; then
    HEDDLE_TEST_SHM=own exec unshare --mount sh -c 'mount -t tmpfs none /dev/shm && exec "$@"' - "$0" "$@"
fi
mpirun=$1
client=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS PMIX_RANK PMIX_NAMESPACE SLURM_JOB_ID PBS_NODEFILE LSB_DJOB_HOSTFILE
EXPECT_TIMEOUT=180
work=$expect_dir

# The name in the environment of all that this test starts, to find what is left.
export HEDDLE_TEST_MARK=procs_test.$$.$RANDOM

# Prints the living processes that this test has started, except for those that run it.
left_over() {
    local environ pid
    for environ in /proc/[0-9]*/environ; do
        pid=${environ#/proc/}
        pid=${pid%/environ}
        grep -qsz "^HEDDLE_TEST_MARK=$HEDDLE_TEST_MARK$" "$environ" || continue
        grep -qs '^State:.Z' "/proc/$pid/status" && continue
        tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -E 'pmix_client|mpirun|sleep' | grep -v procs_test.sh
    done
    # Folders of jobs that this test ran: those whose mpirun is dead.
    local dir owner
    for dir in /dev/shm/heddle-"$(id -u)"-*; do
        [ -d "$dir" ] || continue
        owner=${dir#/dev/shm/heddle-*-}
        [ -d "/proc/${owner%-*}" ] || echo "$dir"
    done
}

run=("$mpirun" --procs 4 "$client")

# ---- What the clients are told, and what they tell each other ----
expect "facts of the job" 0 '(process [0-3] of 4, universe 4, local [0-3] of 4 \(0,1,2,3\), nodes 1, app 1, node 4, on [^ ]* ){4}$' '' \
    "${run[@]}" init facts finalize
expect "every process has another number" 0 '^[0-3] [0-3] [0-3] [0-3] 4 $' '' \
    sh -c '"$@" | sed "s/process \([0-9]*\) .*/\1/" | sort -u >"'"$work"'/ids"; cat "'"$work"'/ids"; wc -l <"'"$work"'/ids"' \
    - "${run[@]}" init facts finalize
expect "put, commit, fence with data, get" 0 '^(4 of 4 right ){4}$' '' "${run[@]}" init exchange finalize
expect "get without a fence that collects" 0 '^(4 of 4 right ){4}$' '' "${run[@]}" init lazy finalize
expect "a megabyte from each" 0 '^(4 of 4 right ){4}$' '' "${run[@]}" init big=1000000 finalize
expect "publish is not offered" 0 '^(publish: NOT-SUPPORTED ){4}$' '' "${run[@]}" init publish finalize
expect "16 processes" 0 '^(16 of 16 right ){16}$' '' "$mpirun" --procs 16 "$client" init exchange finalize
expect "one process with a server" 0 '^\[0\]<stdout> 1 of 1 right $' '' "$mpirun" --tag-output "$client" init exchange finalize
expect "programs without PMIx" 0 '^(x ){4}$' '' "$mpirun" --procs 4 echo x

# ---- What libhwloc does for libpmix ----
# In a network of its own: others may look for X servers, and would wait for this one.
cat >"$work/x_server.py" <<'PY'
import socket, subprocess, sys
server = socket.socket(socket.AF_UNIX)
server.bind("\0/tmp/.X11-unix/X0")
server.listen()
server.setblocking(False)
try:
    subprocess.run(sys.argv[1:], timeout=150, check=True)
    server.accept()
except BlockingIOError:
    print("not asked")
PY
alone=(unshare --net sh -c 'ip link set lo up && exec "$@"' -)
if "${alone[@]}" true 2>/dev/null; then
    expect "no X server is asked for its GPUs" 0 '^(4 of 4 right ){4}not asked $' '' \
        "${alone[@]}" python3 -u "$work/x_server.py" "${run[@]}" init exchange finalize
fi
# shellcheck disable=SC2016 # the processes expand it
expect "libhwloc's variable is the user's" 1 '^(no value ){2}(-gl ){2}$' '*' sh -c '"$@"; HWLOC_COMPONENTS=-gl "$@"' - \
    "$mpirun" --procs 2 sh -c 'echo "${HWLOC_COMPONENTS-no value}"'

# ---- Output ----
cat >"$work/check_flood.py" <<'PY'
import re, sys
lines = {}
size = 0
for line in sys.stdin:
    size += len(line)
    match = re.fullmatch(r"(\d+) (\d+) (x*) END\n", line)
    assert match, line
    proc, number = int(match[1]), int(match[2])
    assert number == lines.get(proc, 0) and len(match[3]) == number * 7919 % 400, line
    lines[proc] = number + 1
print(sorted(lines.items()), size > 10000000)
PY
expect "10 MB from 4 processes, to a pipe" 0 '^\[\(0, 13000\), \(1, 13000\), \(2, 13000\), \(3, 13000\)\] True $' '' \
    sh -c '"$@" | python3 '"$work/check_flood.py" - "${run[@]}" flood=13000
expect "to a slow reader, with tags" 0 '^\[\(0, 13000\), \(1, 13000\), \(2, 13000\), \(3, 13000\)\] True $' '' \
    sh -c '"$@" | (sleep 1; sed "s/^\[[0-3]\]<stdout> //") | python3 '"$work/check_flood.py" - \
    "$mpirun" --tag-output --procs 4 "$client" flood=13000
expect "to a file" 0 '^\[\(0, 13000\), \(1, 13000\), \(2, 13000\), \(3, 13000\)\] True $' '' \
    sh -c '"$@" >'"$work/flood"'; python3 '"$work/check_flood.py <$work/flood" - "${run[@]}" flood=13000
expect "stdout and stderr stay apart" 0 '^(out ){4}$' '^(err ){4}$' "${run[@]}" say=out complain=err
expect "tags" 0 '^\[0\]<stdout> out \[1\]<stdout> out $' '^\[0\]<stderr> err \[1\]<stderr> err $' \
    sh -c '{ "$@" 2>&3 | sort; } 3>'"$work/err; sort $work/err >&2" - "$mpirun" --tag-output --procs 2 "$client" say=out complain=err
expect "a line in two parts is one line" 0 '^[ac]{2} [ac]{2} [ac]{2} [ac]{2} $' '' \
    "${run[@]}" part=a sleep=300 say=c
expect "an unfinished line at the end" 0 '^x x x x$' '' "${run[@]}" part=x
expect "a reader that goes away" 0 '^0 0 $' '*' sh -c '"$@" | head -c 4' - "$mpirun" -q --procs 2 "$client" @0,flood=100000

# ---- Input ----
expect "stdin goes to process 0" 0 '^to process 0 $' '' sh -c 'echo to process 0 | "$@"' - "${run[@]}" cat
expect "all of it" 0 '^1000000 $' '' sh -c 'head -c 1000000 /dev/zero | "$@" | wc -c' - "${run[@]}" cat
expect "stdin that is closed" 0 '' '' sh -c '"$@" <&-' - "${run[@]}" cat

# ---- Ends ----
expect "an exit code" 5 '' 'process 1 of 4 ended with exit code 5' "${run[@]}" init @1,exit=5 sleep=100000
expect "a crash" 139 '' 'process 2 of 4 was ended by signal 11 \(Segmentation fault\)' "${run[@]}" init @2,kill=11 sleep=100000
expect "a kill while the others are in a fence" 137 '' 'process 3 of 4 was ended by signal 9' "${run[@]}" init @3,kill=9 fence finalize
expect "PMIx_Abort" 7 '' 'process 1 of 4 aborted the job with code 7: as told' "${run[@]}" init @1,abort=7 sleep=100000
expect "PMIx_Abort with 0 is a failure" 1 '' 'aborted the job with code 0' "${run[@]}" init @1,abort=0 sleep=100000
expect "the others are killed if they do not listen" 5 '' 'exit code 5' "${run[@]}" deaf init @1,exit=5 sleep=100000
expect "an end without finalize" 1 '' 'process 0 of 4 ended without finalizing MPI' "${run[@]}" init @0,exit=0 sleep=100000
expect "an end without init" 1 '' 'process 0 of 4 ended without initializing MPI' "${run[@]}" @0,exit=0 init fence finalize
expect "--keep-going: the others hear of it and go on" 137 '^(process [023] heard of the loss of 1 ){3}$' 'process 1 of 4' \
    "$mpirun" --keep-going --procs 4 "$client" init listen fence @1,kill=9 heard finalize
expect "--timeout" 124 '' 'longer than 0.5 s' "$mpirun" --timeout 0.5 --procs 4 "$client" init sleep=100000
expect "--timeout of deaf processes" 124 '' 'longer than 0.5 s' "$mpirun" --timeout 0.5 --procs 4 "$client" deaf sleep=100000
expect "no such program" 127 '' 'no such file' "$mpirun" --procs 4 ./none
echo '#!/no/such' >"$work/bad" && chmod +x "$work/bad"
expect "no interpreter" 126 '' 'interpreter' "$mpirun" --procs 4 "$work/bad"
expect "more processes than ranks" 2 '' 'each process needs at least one rank, but -n is 2' "$mpirun" --procs 4 -n 2 "$client"
expect "no processes" 2 '' 'at least 1' "$mpirun" --procs 0 "$client"
expect "descriptors run out" 1 '' 'ulimit -n|cannot' sh -c 'ulimit -n 40; "$@"' - "$mpirun" --procs 64 "$client" sleep=100000
expect "daemons are ended too" 0 '' '' "${run[@]}" spawn init fence finalize
expect_nothing_left "after all of these" 1800

# ---- Signals ----
# signal NAME...: sends them to a job of processes that say what they get.
signals() {
    local number
    rm -f "$work/signals"
    "$mpirun" --procs 3 "$client" "trap=$(kill -l "$1")" say=ready caught >"$work/signals" 2>&1 &
    local pid=$!
    await has_lines 3 ready "$work/signals"
    for number in "$@"; do
        kill -"$number" $pid
    done
    wait $pid
    local code=$?
    sort "$work/signals"
    return $code
}
for name in INT TERM USR1 USR2 HUP; do
    expect_count=$((expect_count + 1))
    if [ "$(signals $name | tr '\n' ' ')" != "ready ready ready $(for _ in 1 2 3; do printf 'signal %d ' "$(kill -l $name)"; done)" ]; then
        expect_failed=$((expect_failed + 1))
        echo "FAILED: SIG$name is forwarded"
        sed 's/^/    /' "$work/signals"
    fi
done
# start words...: starts a job whose four processes print "ready" at some time, and waits for that. job: mpirun's id.
start() {
    rm -f "$work/out" # the last job's
    "${run[@]}" "$@" >"$work/out" 2>"$work/err" &
    job=$!
    await has_lines 4 ready "$work/out"
}
# ended: waits for its end; prints its exit code and what it said on stderr.
ended() {
    wait $job
    echo $?
    cat "$work/err"
}
start init say=ready sleep=100000
kill -TERM $job
ended >"$work/ended"
expect "SIGTERM ends a job" 0 '^143 .*ended by signal 15' '' cat "$work/ended"
start deaf say=ready sleep=100000
while kill -TERM $job 2>/dev/null; do
    sleep 0.1
done
ended >"$work/ended"
expect "SIGTERM more than once ends deaf processes" 0 '^143 ' '' cat "$work/ended"

# shellcheck disable=SC2317 # called by await
# Are all processes of the job in this state? (T: stopped, S: sleeping)
job_state() {
    local child
    tr ' ' '\n' <"/proc/$1/task/$1/children" | while read -r child; do
        grep -qs pmix_client "/proc/$child/comm" && cut -d' ' -f3 "/proc/$child/stat"
    done | sort -u | tr -d '\n'
}
# shellcheck disable=SC2317
is_stopped() {
    stopped=$(job_state "$job")$(cut -d' ' -f3 "/proc/$job/stat")
    [ "$stopped" = TT ]
}
# shellcheck disable=SC2317
is_going() {
    going=$(job_state "$job")
    [ "$going" = S ]
}
start say=ready await="$work/go"
kill -TSTP $job
await is_stopped
kill -CONT $job
await is_going
: >"$work/go"
wait $job
code=$?
expect "SIGTSTP stops all, SIGCONT lets them go on" 0 "TT S 0" '' echo "$stopped $going $code"

# ---- mpirun is killed ----
start init @1,spawn deaf fence say=ready sleep=100000
kill -9 $job
wait $job 2>/dev/null
expect_nothing_left "after SIGKILL of mpirun" 1800

# The guard too: then the next run cleans up.
start init say=ready sleep=100000
guard=$(tr ' ' '\n' <"/proc/$job/task/$job/children" | while read -r child; do grep -qs mpirun "/proc/$child/comm" && echo "$child"; done)
kill -9 "$guard" $job
wait $job 2>/dev/null
expect "the next run" 0 '' '' "$mpirun" --procs 2 true
expect_nothing_left "after SIGKILL of mpirun and its guard" 1800

# ---- Cores ----
cores=$(nproc)
if [ "$cores" -gt 1 ]; then
    expect "the cores are divided" 0 "^$cores $" '' sh -c '"$@" | sed "s/.*: *//" | tr " " "\n" | sort -u | grep -c .' - \
        "$mpirun" --procs "$cores" "$client" cores
    expect "each process has its own" 0 '^(1 cores: [0-9]+ )+$' '' "$mpirun" --procs "$cores" "$client" cores
fi
expect "more processes than cores are not bound" 0 "^($cores cores:[0-9 ]+)+$" '' "$mpirun" --procs $((cores + 1)) "$client" cores
expect "--bind-to none" 0 "^($cores cores:[0-9 ]+){2}$" '' "$mpirun" --bind-to none --procs 2 "$client" cores
expect_nothing_left "at the end" 1800
finish
