#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that mpirun --explore all finds each error of orders.c that depends on which message a wildcard gets, that it says "all orders
# of matches seen" of programs that are right, and that it sees every order that random schedules show.
# Usage: orders_test.sh BUILD WORK
set -u
build=$1 work=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
here=$(cd "$(dirname "$0")" && pwd)
mpirun=$build/bin/mpirun
mkdir -p "$work" && cd "$work" || exit 1
"$build/bin/mpicc" -g -O1 -Wall "$here/orders.c" -o orders || exit 1

# finds RANKS WAY STDERR: and the command that is printed repeats the failure
finds() {
    local line code
    expect "--explore all: $2 wrong" 1 '' "$3.*repeat it with: \S+mpirun \+p 1 \+schedule choices:[0-9.]+ -n $1 ./orders $2 wrong " \
        "$mpirun" -n "$1" --explore all ./orders "$2" wrong
    line=$(sed -n 's/mpirun: repeat it with: \S*mpirun//p' "$expect_dir/err")
    code=$(sed -n 's/.*ends with exit code \([0-9]*\)$/\1/p' "$expect_dir/err")
    # shellcheck disable=SC2086 # the line's words
    expect "the command repeats it: $2" "$code" '*' '*' "$mpirun" $line
}

# sees_all RANKS WAY RUNS [WORDS]
sees_all() {
    expect "--explore all: $2 right" 0 '' "^mpirun: --explore: all orders of matches seen${4:-}: $3 runs $" \
        "$mpirun" -n "$1" --explore all ./orders "$2" right
}

# What a run of a random program receives must be among what all runs of --explore all receive.
sees_what_random_sees() {
    rm -f seen
    expect "all orders of a random program: $1" 0 '' 'all orders of matches seen, with collectives that wait for all ranks: [0-9]+ runs' \
        "$mpirun" -n 4 --explore all ./orders random "$1"
    sort -u seen >all
    for seed in 1 2 3 4 5 6 7 8; do
        timeout 180 "$mpirun" -n 4 +p 1 +schedule random:"$seed" ./orders random "$1" || echo failed >>seen
    done
    sort -u seen >random
    expect "random schedules of program $1 show no other order" 0 '' '' comm -13 all random
}

finds 3 first_sender 'the source is not i'
finds 3 triangle 'rank 2 was faster'
finds 3 starvation 'deadlock'
finds 3 waitany 'the requests complete in another order'
finds 3 probe 'another message than the probed one'
finds 3 barrier 'ends with exit code'
finds 4 permutation 'the reversed order'
finds 4 late 'rank 2 was first'
finds 3 overtaking 'rank 2 was first'
finds 2 exchange 'deadlock'
finds 3 test 'the message is not there'
expect "--explore 50: missing_wait wrong" 1 '' 'the data is not there.*random:[0-9]+:[0-9]+ -n 3' \
    "$mpirun" -n 3 --explore 50 ./orders missing_wait wrong
line=$(sed -n 's/mpirun: repeat it with: \S*mpirun//p' "$expect_dir/err")
# shellcheck disable=SC2086
expect "the shrunk seed repeats it" 3 '*' '*' "$mpirun" $line
sees_all 3 first_sender 4
sees_all 3 triangle 2
sees_all 3 starvation 2
sees_all 3 waitany 4
sees_all 3 missing_wait 2
sees_all 3 probe 4
sees_all 3 barrier 2
sees_all 3 broadcast 2 ', with collectives that wait for all ranks'
sees_all 4 permutation 6
sees_all 4 late 4
sees_all 3 overtaking 4
sees_all 2 exchange 2
sees_all 3 test 4 ', with at most one failed test or probe in a row'
for program in 2 5 8; do
    sees_what_random_sees $program
done

expect "a limit is said" 0 '' '3 runs end like the first one; this is the limit: not all orders of matches seen' \
    "$mpirun" -n 4 --explore all --explore-limit 3 ./orders permutation right
"$build/bin/mpicc" -g -O1 -Wall "$here/schedules.c" -o schedules || exit 1
expect "calls that are not explored are named" 0 '' 'not all orders seen: the program calls MPI_Win_allocate' \
    "$mpirun" -n 3 --explore all ./schedules put_right
expect "a list that does not fit" 1 '*' 'does not fit this program' \
    "$mpirun" -n 3 +p 1 +schedule choices:7 ./orders first_sender right
for list in choices choices:x; do
    expect "+schedule $list" 2 '' 'expected random' "$mpirun" -n 3 +schedule "$list" ./orders first_sender right
done
expect "choices with several PEs" 2 '' 'only in a job of one process with one PE' \
    "$mpirun" -n 3 +p 2 +schedule choices: ./orders first_sender right
finish
