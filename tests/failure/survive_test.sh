#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows the behaviour of a job in which a process fails: with MPI_ERRORS_RETURN the others get errors from calls that
# involve its ranks, and continue; by default the job ends with a message that names the process and its ranks.
# Usage: survive_test.sh MPICC MPIRUN
set -u
mpicc=$1
mpirun=$2
here=$(dirname "$0")
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
EXPECT_TIMEOUT=180
unset HEDDLE_OPTIONS
survive=$expect_dir/survive
"$mpicc" -O1 -o "$survive" "$here/survive.c" -lpthread || exit 1

# 137: 128 + SIGKILL, what the lost process ended with.
lost='mpirun: process %d of 4 \(ranks? %s\) was ended by signal 9 \(Killed\)'
# Absent if the others noticed the failure themselves, and had ended when mpirun reported it.
going_on='(; the others continue)?'
# survivors NUM: so many ranks say that they have survived.
survivors() { echo "^(survived ){$1}$"; }
run() { # run RANKS PES LOST RANKS_OF_IT NUM_SURVIVORS MODE...
    # shellcheck disable=SC2059
    expect "$1 ranks, $2 PEs, process $3 fails${6:+, $6}" 137 "$(survivors "$5")" \
        "^$(printf "$lost" "$3" "$4")$going_on $" \
        "$mpirun" --procs 4 -n "$1" +p "$2" "$survive" 4 "$3" ${6:+"$6"}
}
run 4 1 2 2 3
run 8 1 2 '4 to 5' 6
run 8 2 0 '0 to 1' 6
run 16 2 3 '12 to 15' 12
run 4 1 3 3 3 traffic
run 8 1 0 '0 to 1' 6 traffic
run 8 2 2 '4 to 5' 6 traffic
run 4 1 2 2 3 collectives
run 4 1 0 0 3 collectives
run 8 2 3 '6 to 7' 6 collectives
run 4 1 2 2 3 late
run 8 2 0 '0 to 1' 6 late
# shellcheck disable=SC2059
expect "4 ranks, process 2 fails, late; UCX keeps data until it is fetched" 137 "$(survivors 3)" \
    "^$(printf "$lost" 2 2)$going_on $" env UCX_TLS=tcp "$mpirun" --procs 4 -n 4 +p 1 "$survive" 4 2 late
expect "+stats prints those that are left" 137 "$(survivors 6)" 'Heddle: 8 ranks.* 4 has failed +5 has failed ' \
    "$mpirun" --procs 4 -n 8 +p 1 "$survive" 4 2 +stats table
run 4 1 1 1 3 thread # main ends by pthread_exit: the process ends although UCX's thread cannot be ended
# The deadlock is found by those that are left, whether or not process 0, which looks for it, is one of them.
deadlock() { # deadlock RANKS PES LOST RANKS_OF_IT NUM_SURVIVORS MODE
    local blocked="((rank [0-9]+ of $1 on host [^ ]+ \(PE [01]\): MPI_Recv: blocked in receive from rank 0, tag 10 "
    blocked+="\(of a communicator of size $5\)(; called at [^ ]*( \([^)]*\))?)?|heddle: rank [01] waits for itself) ){$(($5 + 1))}$"
    # shellcheck disable=SC2059
    expect "$1 ranks, $2 PEs, process $3 fails, $6, and the others are blocked" 137 "$(survivors "$5")" \
        "^$(printf "$lost" "$3" "$4"); the others continue heddle: deadlock: every rank is blocked and no message is under way $blocked" \
        "$mpirun" --procs 4 -n "$1" +p "$2" "$survive" 4 "$3" "$6" deadlock
}
deadlock 8 2 2 '4 to 5' 6 -
deadlock 4 1 0 0 3 -
deadlock 8 1 3 '6 to 7' 6 traffic
# shellcheck disable=SC2059
expect "by default the job ends" 137 '' "$(printf "$lost" 2 '4 to 5') $" \
    "$mpirun" --procs 4 -n 8 +p 1 "$survive" 4 2 default
# --keep-going: processes without a rank that wants errors end when a call involves the lost process.
# shellcheck disable=SC2059
expect "by default a call ends the job, --keep-going" 137 '' \
    "^$(printf "$lost" 2 '4 to 5'); the others continue (rank [0-9]+ of 8 [^:]*: MPI_[A-Za-z]+: MPI_ERR_PROC_ABORTED: process 2 of 4 [^ ]+ .*)+$" \
    "$mpirun" --keep-going --procs 4 -n 8 +p 1 "$survive" 4 2 default
# shellcheck disable=SC2059
expect "nobody can continue if a process fails before MPI_Init, --keep-going" 137 '' \
    "^$(printf "$lost" 2 2).*(process [013] of 4 cannot be connected: a process has failed.*){3}$" \
    "$mpirun" --keep-going --procs 4 -n 4 +p 1 "$survive" 4 2 init

# What ends a wait in a window.
survive_rma=$expect_dir/survive_rma
"$mpicc" -O1 -o "$survive_rma" "$here/survive_rma.c" || exit 1
for call in lock lock_shared lock_late lock_all start wait test fence flush request large_flush large_request; do
    # shellcheck disable=SC2059
    expect "a window, $call" 137 "$(survivors 3)" "^$(printf "$lost" 3 3)$going_on $" \
        "$mpirun" --procs 4 -n 4 +p 1 "$survive_rma" "$call"
done

# A file.
survive_file=$expect_dir/survive_file
"$mpicc" -O1 -o "$survive_file" "$here/survive_file.c" || exit 1
# shellcheck disable=SC2059
expect "a file" 137 "$(survivors 3)" "^$(printf "$lost" 3 3)$going_on $" "$mpirun" --procs 4 -n 4 +p 1 "$survive_file"

# Ports and spawned ranks.
survive_ports=$expect_dir/survive_ports
"$mpicc" -O1 -o "$survive_ports" "$here/survive_ports.c" -lpthread || exit 1
for mode in home waiting spawned; do
    # shellcheck disable=SC2059
    expect "dynamic processes, $mode" 137 "$(survivors 3)" "^$(printf "$lost" 3 3)$going_on $" \
        "$mpirun" --procs 4 -n 4 +p 1 "$survive_ports" "$mode"
done

expect "a window, killed within an accumulate" 139 "$(survivors 3)" \
    '^mpirun: process 3 of 4 \(rank 3\) was ended by signal 11 \(Segmentation fault\)'"$going_on $" \
    "$mpirun" --procs 4 -n 4 +p 1 "$survive_rma" torn

# shellcheck disable=SC2059
expect "a window, the lost process had granted its part of MPI_Win_lock_all" 137 "$(survivors 6)" \
    "^$(printf "$lost" 3 '6 to 7')$going_on $" \
    "$mpirun" --procs 4 -n 8 +p 1 "$survive_rma" granted

for ranks in 4 8; do
    # shellcheck disable=SC2059
    expect "a window is freed while other survivors write, $ranks ranks" 137 "$(survivors $((ranks * 3 / 4)))" \
        "^$(printf 'mpirun: process 3 of 4 \(ranks? %s\) was ended by signal 9 \(Killed\)' '.*')$going_on $" \
        "$mpirun" --procs 4 -n "$ranks" "$survive_rma" free
done

# The same with UCX's put.
for call in flush large_request; do
    # shellcheck disable=SC2059
    expect "a window with keys, $call" 137 "$(survivors 3)" "^$(printf "$lost" 3 3)$going_on $" \
        env UCX_TLS=tcp HEDDLE_UCX_RMA=y "$mpirun" --procs 4 -n 4 +p 1 "$survive_rma" "$call"
done

# Small collectives of two ranks, each in a process of its own.
survive_pair=$expect_dir/survive_pair
"$mpicc" -O1 -o "$survive_pair" "$here/survive_pair.c" -lpthread || exit 1
for mode in wait early stream; do
    expect "a pair, $mode" 137 "$(survivors 1)" \
        '^mpirun: process 1 of 2 \(rank 1\) was ended by signal 9 \(Killed\)(; the others continue)? $' \
        "$mpirun" --procs 2 -n 2 +p 1 "$survive_pair" "$mode"
done

# What UCX has to say of a loss is silenced.
"$mpicc" -O1 -o "$expect_dir/noise" "$here/noise.c" -ldl || exit 1
expect "UCX is silent after a loss" 137 '' \
    '^[^ ]+ +\[[^]]*\] +noise.c:[0-9]+ +UCX +ERROR +before the loss mpirun: process 1 of 3 \(rank 1\) was ended by signal 9 \(Killed\); the others continue $' \
    "$mpirun" --procs 3 -n 3 "$expect_dir/noise"
expect "UCX is not silent if it shall not be" 137 '' 'before the loss .*at the loss .*after the loss' \
    env UCX_LOG_LEVEL=error "$mpirun" --procs 3 -n 3 "$expect_dir/noise"
finish
