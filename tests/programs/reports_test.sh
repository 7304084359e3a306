#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that +check leaks names every handle that is never freed and every message that is never received, with the call; and that
# reports of deadlocks group the ranks, and name cycles, near misses and missing members. Usage: reports_test.sh BUILD WORK
set -u
build=$1
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
mkdir -p "$2" && cd "$2" || exit 1
unset HEDDLE_OPTIONS
mpirun=$build/bin/mpirun
"$build/bin/mpicc" -g -O1 -w "$here/reports.c" -o reports || exit 1

# line WORD [FILE]: "main (reports.c:12)" for the line with this word in a comment
line() {
    grep -n "/\* $1 \*/" "$here/reports.c" | sed -E 's|:.*|\\)|; s|^|(main\|make_objects\|leave_messages\|block\|block_elsewhere\|block_in_window\|block_in_partitions\|block_between_groups\|block_in_access\|block_beside\|run_program\|poll_for_message\|poll_for_file) \\(reports.c:|'
}

# ---- Leaks ----
even='ranks 0, 2: 1'
all='ranks 0-3: 1'
leaks="not freed before MPI_Finalize .*: heddle:   $all communicator of MPI_Comm_dup, called at $(line dup) \
heddle:   $all communicator of MPI_Comm_idup, called at $(line idup) .*$even group of MPI_Comm_group.*$even datatype of MPI_Type_vector.*\
$even operation of MPI_Op_create.*$all window of MPI_Win_create.*$even file of MPI_File_open.*$even keyval of MPI_Comm_create_keyval.*\
$even inactive persistent request of MPI_Recv_init.*ranks 0-3: 3 completed requests of MPI_Isend, called at $(line isend) .*\
$all message of MPI_Mprobe.*$all pending request of MPI_Irecv.*ranks 0-3: 2 messages from rank-1 modulo 4, tag 7, 4 bytes, never received"
sent=": 1 of MPI_INT by MPI_Isend, called at $(line isend) "
expect "leaks" 1 '' "$leaks${sent}heddle: .* before the end of the process .*: heddle:   $all info object of MPI_Info_create, .*\
$even error handler of MPI_Comm_create_errhandler, .*$even error handler of MPI_Comm_get_errhandler, [^:]*:[0-9]+\) $" \
    "$mpirun" -n 4 ./reports leak +check usage,leaks
expect "leaks, processes" 1 '' "$leaks heddle:" "$mpirun" --procs 2 -n 4 ./reports leak +check leaks
expect "leaks, processes, calls of sends" 1 '' "$leaks$sent" "$mpirun" --procs 2 -n 4 ./reports leak +check leaks,usage
expect "leaks, one rank" 1 '' "rank 0: 1 communicator of MPI_Comm_dup, called at $(line dup) .*rank 0: 1 info object" \
    "$mpirun" -n 1 ./reports leak +check leaks
expect "a session" 1 '' "rank 0 of 1 .*has not called MPI_Session_finalize.*1 session of MPI_Session_init, called at $(line session) " \
    "$mpirun" -n 1 ./reports session +check leaks
expect "nothing" 0 '' '' "$mpirun" -n 4 ./reports clean +check leaks
expect "nothing, one rank" 0 '' '' "$mpirun" -n 1 ./reports clean +check leaks
expect "nothing without the option" 0 '' '' "$mpirun" -n 4 ./reports leak
if "$build/bin/mpifort" -g "$here/reports.f90" -o reports_fortran 2>/dev/null; then
    expect "Fortran" 1 '' "ize[^:]*: heddle:   ranks 0-2: 1 communicator of MPI_Comm_dup, called at [A-Za-z_]+ \(reports.f90:15\) $" \
        "$mpirun" -n 3 ./reports_fortran +check leaks
fi

# ---- Deadlocks ----
expect "a ring" 1 '' "^heddle: deadlock.* ranks 0-999 of 1000: MPI_Recv: blocked in receive from rank-1 modulo 1000, tag 7; called at \
$(line ring) heddle: cycle of 1000 ranks: rank 0 waits for rank 999, .*, which waits for rank 990, ..., for rank 0 $" \
    "$mpirun" -n 1000 ./reports ring
expect "a ring of processes that have opened a session before MPI_Init" 1 '' "rank 0 of 2 [^;]*: MPI_Recv: blocked in receive from rank 1, tag 7; called at \
$(line ring)" "$mpirun" --procs 2 -n 2 ./reports ring
expect "a collective of processes" 1 '' "rank 0 of 3 [^;]*: MPI_Allreduce: blocked on [^;]*; called at $(line allreduce)" "$mpirun" --procs 3 -n 3 ./reports collective
expect "a missing member" 1 '' "ranks 0-1, 3-19 \(19 ranks\) of 20: MPI_Allreduce: blocked on a communicator of size 20; called at $(line allreduce); not entered by \
rank 2 rank 2 of 20: MPI_Probe: blocked in probe from rank 0, tag 3 \(of a communicator of size 20\)" "$mpirun" -n 20 ./reports collective
expect "another tag, and MPI_Finalize" 1 '' "rank 0 of 4 .*receive from rank 1, tag 1; .*; near miss: a message from rank 1, tag 2 rank 1 .*\
MPI_Finalize: blocked; .*; not entered by rank 0 .*cycle of 2 ranks: rank 0 waits for rank 1, which waits for rank 0 $" \
    "$mpirun" -n 4 ./reports tag
expect "another communicator" 1 '' "rank 0 of 2 .*; near miss: a message from rank 1, tag 1, on another communicator of size 2 rank 1 of 2 \
.*MPI_Send: .*; near miss: rank 0 receives from rank 1, tag 1, on MPI_COMM_WORLD " "$mpirun" -n 2 ./reports comm
expect "ranks and tags of a named communicator" 1 '' "ranks 0-19 of 20: MPI_Recv: blocked in receive from rank\+1 modulo 10, tag rank \
\(of half of size 10\)" "$mpirun" -n 20 ./reports half
expect "a collective on a wrong communicator" 1 '' "rank 0 of 4 [^;]*MPI_Allreduce: blocked on a communicator of size 2; called at $(line subset); \
not entered by rank 2 rank 1 .*MPI_Allreduce: blocked; .*; not entered by rank 0 " "$mpirun" -n 4 ./reports subset
expect "a wrong source" 1 '' "rank 0 of 4 [^;]*receive from rank 2, tag 5; called at $(line source); near miss: a message from rank 1, tag 5 " \
    "$mpirun" -n 4 ./reports source
expect "partitions that are not ready" 1 '' "ranks 0-19 of 20: MPI_Waitall: blocked in partitioned send to rank\+1 modulo 20, tag 5, \
without MPI_Pready for 1 of 4 partitions, partitioned receive from rank-1 modulo 20, tag 5; called at $(line partitions) .*cycle of 20 ranks" \
    "$mpirun" -n 20 ./reports partitions
for options in '-n 4' '--procs 2 -n 4' '--procs 4 -n 4'; do
    # shellcheck disable=SC2086
    expect "a group that does not come, $options" 1 '' "MPI_Comm_create_group: blocked in a call of 2 ranks, tag 5, not entered by rank 1; called at \
$(line group) " "$mpirun" $options ./reports group
done
expect "a cycle of locks" 1 '' "rank 0 of 4 [^;]*MPI_Win_lock exclusive on rank 1, held by rank 1; called at $(line lock) .*\
cycle of 2 ranks: rank 0 waits for rank 1, which waits for rank 0 $" "$mpirun" -n 4 ./reports locks
expect "an epoch that nobody starts" 1 '' "rank 1 of 4 [^;]*MPI_Win_wait, for the MPI_Win_complete of rank 0; called at $(line wait) .*\
cycle of 2 ranks: rank 0 waits for rank 1, which waits for rank 0 $" "$mpirun" -n 4 ./reports post
expect "a cycle of probes" 1 '' 'cycle of 3 ranks: rank 0 waits for rank 1, which waits for rank 2, which waits for rank 0 $' "$mpirun" -n 3 ./reports probes
expect "a missing member of the other group" 1 '' "ranks 0, 2-9 \(9 ranks\) of 10: MPI_Barrier: blocked on an intercommunicator of sizes 5 and 5; \
called at $(line groups); not entered by rank 1 .*cycle of 2 ranks" "$mpirun" -n 10 ./reports groups
expect "a missing member of a collective access" 1 '' "rank 0 of 3 [^;]*MPI_File_write_at_all: blocked; called at $(line access); not entered by rank 1 \
.*MPI_Wait: blocked in writing file written; called at $(line await); not entered by rank 1 .*cycle of 2 ranks" "$mpirun" -n 3 ./reports access
started="MPI_Wait: blocked in collective \\(of a communicator of size .\\); called at $(line persistent); not entered by"
for options in '-n 3' '-n 3 +p 3' '--procs 3 -n 3'; do
    # shellcheck disable=SC2086
    expect "a persistent collective that a member does not start, $options" 1 '' "rank 0 of 3 [^;]*$started rank 1 .*cycle of 2 ranks" \
        "$mpirun" $options ./reports persistent
    # shellcheck disable=SC2086
    expect "a member that has freed the communicator, $options" 1 '' "rank 0 of 3 [^;]*MPI_Bcast: blocked on a communicator of size 3; called at \
$(line freed); not entered by rank 1 .*cycle of 2 ranks" "$mpirun" $options ./reports freed
    # shellcheck disable=SC2086
    expect "a collective beside a pending one, $options" 1 '' "rank 0 of 3 [^;]*MPI_Barrier: blocked on a communicator of size 3; called at \
$(line pending); not entered by rank 2 " "$mpirun" $options ./reports pending
done
expect "the other members of a persistent collective, processes" 1 '' "rank 1 of 4 [^;]*$started ranks 0, 2-3 " "$mpirun" --procs 2 -n 4 ./reports persistent
for options in '-n 3' '--procs 2 -n 4'; do
    # shellcheck disable=SC2086
    expect "an access that is not complete before MPI_File_close, $options" 1 '' "rank 0 of . [^;]*MPI_File_close: blocked in a collective access \
that is not complete; called at $(line close); not entered by rank 1 .*cycle of 2 ranks" "$mpirun" $options ./reports close
done
spawned='cycle of 2 ranks: rank 0 waits for rank 0 \(spawn 1\), which waits for rank 0 '
expect "a spawned rank" 1 '' "rank 1 of 2 [^;]*sizes 2 and 1; [^;]*; not entered by rank 0, rank 0 \(spawn 1\) .*$spawned" "$mpirun" -n 2 ./reports spawned

expect "a group of spawned ranks that does not come" 1 '' "spawn 1, rank 0 of 2 [^;]*blocked in a call of 2 ranks, tag 5, not entered by rank 1; " \
    "$mpirun" -n 2 ./reports spawned group

# ---- Deadlocks across processes, whose lines come in any order ----
two='cycle of 2 ranks: rank 0 waits for rank 1, which waits for rank 0 '
expect "a ring, processes" 1 '' "cycle of 5 ranks: rank 0 waits for rank 4, which waits for rank 3, which waits for rank 2, which waits for \
rank 1, which waits for rank 0 " "$mpirun" --procs 3 -n 5 ./reports ring
expect "a long ring, processes" 1 '' "cycle of 400 ranks: rank 0 waits for rank 399, .*, which waits for rank 390, ..., for rank 0 " \
    "$mpirun" --procs 2 -n 400 ./reports ring
expect "a cycle inside of a process" 1 '' "$two" "$mpirun" --procs 2 -n 4 ./reports tag
expect "a missing member of another process" 1 '' "ranks 10-19 of 20: MPI_Allreduce: blocked on a communicator of size 20; called at $(line allreduce); \
not entered by rank 2 " "$mpirun" --procs 2 -n 20 ./reports collective
expect "missing members of several processes" 1 '' "rank 0 of 4 on [^:]*: MPI_Allreduce: blocked on a communicator of size 2; called at $(line subset); \
not entered by rank 2 " "$mpirun" --procs 4 -n 4 ./reports subset
expect "a missing member of the other group, in another process" 1 '' "blocked on an intercommunicator of sizes 1 and 1; called at $(line groups); \
not entered by rank 1 .*cycle of 2 ranks" "$mpirun" --procs 2 -n 2 ./reports groups
expect "a spawned rank, processes" 1 '' "$spawned" "$mpirun" --procs 2 -n 2 ./reports spawned
expect "missing members of two worlds, processes" 1 '' "sizes 2 and 1; [^;]*; not entered by rank 0, rank 0 \(spawn 1\) " \
    "$mpirun" --procs 2 -n 2 ./reports spawned
expect "a cycle through MPI_Finalize" 1 '' "$two" "$mpirun" --procs 2 -n 2 ./reports tag
expect "a cycle of locks, processes" 1 '' "$two" "$mpirun" --procs 2 -n 2 ./reports locks
expect "an epoch that nobody starts, processes" 1 '' "$two" "$mpirun" --procs 2 -n 2 ./reports post
expect "partitions, processes" 1 '' 'cycle of 20 ranks: rank 0 waits for rank 1, ' "$mpirun" --procs 2 -n 20 ./reports partitions

# ---- Main threads that join threads ----
"$build/bin/mpicc" -g -O1 -w "$here/reports_join.c" -o reports_join || exit 1
join_line() {
    grep -n "/\* $1 \*/" "$here/reports_join.c" | cut -d: -f1
}
joined="pthread_join: blocked; called at main \\(reports_join.c:$(join_line join)\\) .*MPI_Recv: another thread: blocked in receive from \
rank [01], tag 1; called at receive \\(reports_join.c:$(join_line receive)\\)"
for options in '-n 2' '--procs 2 -n 2'; do
    # shellcheck disable=SC2086
    expect "a join in a cycle, $options" 1 '' "rank 0 of 2 [^;]*: $joined.* $two" "$mpirun" $options ./reports_join never
    # shellcheck disable=SC2086
    expect "a join that is no deadlock, $options" 0 '' '' "$mpirun" $options ./reports_join unknown
done
helper="another thread: pthread_join: blocked; called at join \\(reports_join.c:$(join_line helper)\\)"
for options in '-n 1' '-n 2' '-n 2 +p 1' '--procs 2 -n 2'; do
    # shellcheck disable=SC2086
    expect "a join of a thread that joins, $options" 1 '' "rank 0 of . [^;]*: pthread_join: blocked; called at (main|join_helper) \(reports_join.c:$(join_line chain)\) \
.*rank 0 of . [^;]*: $helper.* (cycle of 2 ranks|rank 0 waits for itself)" "$mpirun" $options ./reports_join chain
    # shellcheck disable=SC2086
    expect "a join by another thread, $options" 1 '' "rank 0 of . [^;]*: MPI_Recv: blocked .*rank 0 of . [^;]*: $helper" "$mpirun" $options ./reports_join helper
    # shellcheck disable=SC2086
    expect "a cancelled join, $options" 0 '' '' "$mpirun" $options ./reports_join cancel
    # shellcheck disable=SC2086
    expect "joins that are cancelled at once, $options" 0 '' '' "$mpirun" $options ./reports_join pending
done
expect "a join in a job of one rank" 1 '' "rank 0 of 1 [^;]*: $joined.* rank 0 waits for itself" "$mpirun" -n 1 ./reports_join never
expect "a join that is no deadlock in a job of one rank" 0 '' '' "$mpirun" -n 1 ./reports_join unknown
"$build/bin/mpicc" -shared -fPIC -g -O1 "$here/reports_early.c" -o libreports_early.so || exit 1
for how in main reused; do
    expect "a thread of UCX that ends: $how" 0 '' '' env LD_PRELOAD="$PWD/libreports_early.so" "$mpirun" --procs 2 -n 2 ./reports_join $how
done
expect "a thread that ends without a call of MPI" 1 '' "rank 0 of 1 [^;]*: MPI_Recv: blocked in receive from rank 0, tag 1; .* rank 0 waits for itself" \
    "$mpirun" -n 1 ./reports_join ends

# ---- Reports of running jobs ----
# starts SIGNAL COMMAND...: runs the command in the background, and sends it the signal once rank 0 polls; "-": none
starts() {
    signal=$1
    shift
    rm -f go running.out
    timeout 180 "$@" >running.out 2>running.err </dev/null &
    job=$!
    await has_lines 1 started running.out
    [ "$signal" = - ] || kill "$signal" $(pgrep -P $job)
}

# matches PATTERN; ends WHAT PATTERN: the running job has printed this, and ends well when the file is there. The signal comes again
# after a second: other ranks may not have been blocked when it came.
matches() {
    {
        tr '\n' ' ' <running.err
        echo
    } | grep -Eq "$1"
}
ends() {
    local shown=no
    for _ in {1..180}; do
        for _ in {1..20}; do
            matches "$2" && shown=yes && break 2
            sleep 0.05
        done
        [ "$signal" = - ] || kill "$signal" $(pgrep -P $job)
    done
    touch go
    wait $job
    expect "$1: $(cat running.err)" 0 '' '' test "$shown, code $?" = "yes, code 0"
}

starts - "$mpirun" -n 3 +p 2 ./reports polls +check stuck:1
ends "livelock" "^heddle: suspected livelock: for 1 s .* rank 0 of 3: MPI_(Test|Iprobe), called at .* ranks 1-2 of 3: MPI_Recv: blocked; \
called at $(line receive) $"
starts - "$mpirun" --procs 2 -n 4 +p 1 ./reports polls +check stuck:1
ends "livelock, processes" "^heddle: suspected livelock: for 1 s .* rank 0 of 4: MPI_(Test|Iprobe), called at .* rank 1 of 4: MPI_Recv: blocked; \
.* ranks 2-3 of 4: MPI_Recv: blocked; called at $(line receive) $"
starts - "$mpirun" --procs 2 -n 4 +p 1 ./reports polls all +check stuck:1
ends "livelock, all poll" "^heddle: suspected livelock: for 1 s .* rank 0 of 4: MPI_(Test|Iprobe), .* rank 1 of 4: MPI_Iprobe, called at $(line iprobe) .*\
ranks 2-3 of 4: MPI_Iprobe, called at $(line iprobe) $"
for how in "" "--procs 1" "--procs 2" "--procs 2 +p 1"; do
    # shellcheck disable=SC2086
    expect "no livelock while a rank computes" 0 '' '' "$mpirun" $how -n 4 ./reports lasts +check stuck:1
done
starts - "$mpirun" --procs 2 -n 3 +p 1 ./reports polls +check stuck:1
ends "livelock, a process of one rank" "^heddle: suspected livelock: for 1 s .* rank 0 of 3: MPI_(Test|Iprobe), called at .* \
ranks 1-2 of 3: MPI_Recv: blocked; called at $(line receive) $"
starts - "$mpirun" --procs 2 -n 3 +p 1 ./reports polls all +check stuck:1
ends "livelock, all poll in a process of one rank, too" "^heddle: suspected livelock: for 1 s .* rank 0 of 3: MPI_(Test|Iprobe), .* \
ranks 1-2 of 3: MPI_Iprobe, called at $(line iprobe) $"
starts -QUIT "$mpirun" -n 3 +p 1 ./reports polls
ends "SIGQUIT" "rank 1 of 3 .*: MPI_Recv: blocked in receive from rank 0, tag 1; called at $(line receive) rank 2 of 3"
starts -QUIT "$mpirun" --procs 2 -n 20 +p 1 ./reports polls
ends "SIGQUIT, processes" "ranks 10-19 of 20: MPI_Recv: blocked in receive from rank 0, tag 1"
for ranks in 2 4; do
    starts -QUIT "$mpirun" --procs 2 -n "$ranks" ./reports runs
    ends "SIGQUIT, $ranks ranks and a program that one of them runs" "MPI_Bcast: blocked; called at $(line bcast)"
    expect "it ends well" 0 '' '' test "$(cat running.out)" = started
done
starts -QUIT "$mpirun" -n 2 +p 2 ./reports computes
ends "SIGQUIT, a rank that computes" "rank 0 of 2 runs on PE 0; last MPI call: MPI_Irecv; .*rank 1 of 2 .*: MPI_Recv: blocked"
# The rank may not have called open yet.
# shellcheck disable=SC2317 # await calls it
quit_in_open() {
    kill -QUIT "$(pgrep -P "$job")" && matches "rank 0 of 2 blocks PE 0 in the system call openat; last MPI call: MPI_Comm_dup; "
}
starts - "$mpirun" -n 2 +p 2 ./reports opens
await quit_in_open
ends "SIGQUIT, a rank in a system call" "blocks PE 0"
starts -QUIT "$mpirun" --procs 2 -n 2 ./reports_join file
ends "SIGQUIT, a main thread that waits for another" "rank 0 of 2 [^;]*: outside MPI, in the system call futex [^;]*; last MPI call: MPI_Comm_size"
expect "SIGQUIT, twice" 0 '' 'rank 1 of 3 [^;]*;[^;]*; not entered by ranks 0, 2 .* rank 1 of 3 [^;]*;[^;]*; not entered by rank 0 ' \
    "$mpirun" -n 3 +p 1 ./reports twice
expect "SIGQUIT, a sleep that is over" 0 '' 'rank 1 of 2 on [^:]*: MPI_Send: then sleeps; ' "$mpirun" -n 2 +p 1 ./reports sleeps
starts -QUIT "$mpirun" -n 2 ./reports handles
await has_lines 1 handled running.out
ends "the program handles SIGQUIT" '^$'
finish
