#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that mpirun --explore finds errors which only some orders of ranks and messages show, and nothing in programs that are
# right; that a seed repeats its run, and is printed by reports. Usage: explore_test.sh BUILD WORK
set -u
build=$1 work=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$work" && cd "$work" || exit 1
"$build/bin/mpicc" -g -O1 -Wall "$here/schedules.c" -o schedules || exit 1

# explore CODE STDERR WAY [N]
explore() {
    expect "--explore: $3" "$1" '' "$2" "$build/bin/mpirun" -n 3 --explore "${4:-50}" ./schedules "$3"
}

# finds WAY STDERR: and the command that is printed repeats what the seed did
finds() {
    local line
    explore 1 "$2 .*mpirun: repeat it with: \S+mpirun \+p 1 \+schedule random:[0-9]+:[0-9+-]+ -n 3 ./schedules $1 " "$1"
    line=$(sed -n 's/mpirun: repeat it with: \S*mpirun//p' "$expect_dir/err")
    for i in 1 2; do
        # shellcheck disable=SC2086 # the line's words
        timeout 180 "$build/bin/mpirun" $line >"run$i.out" 2>&1
        echo $? >>"run$i.out"
    done
    expect "a seed repeats its run: $1" 0 '' '' cmp run1.out run2.out
}

finds first_source 'seed [0-9]+ prints other lines   - result 1 is 1   \+ result 1 is 2   \+ result 2 is 1   - result 2 is 2'
finds put_and_load '\+ the word is 0   - the word is 7'
finds probe 'seed [0-9]+'
finds request_order '\+ -1 2   - 1 2'
finds exchange 'ends with exit code 1 .*deadlock: every rank is blocked.*in send to rank.*this run had \+schedule random:[0-9:+-]+'
for way in put_right probe_right exchange_right mixture; do
    explore 0 '^mpirun: --explore: 12 schedules end like the usual one $' $way 12
done
explore 1 'already the run in the usual order fails, with exit code 134' crash
expect "the report of a crash has the seed" 134 '' 'Aborted.*this run had \+schedule random:5 $' \
    "$build/bin/mpirun" -n 2 ./schedules crash +p 1 +schedule random:5
expect "a seed that is chosen is printed" 0 '*' '^heddle: .schedule random:[0-9]+ $' \
    "$build/bin/mpirun" -n 3 ./schedules nothing_but_mixture +p 2 +schedule random
for seeds in random: random:x random:-1 random:99999999999999999999 randomly some; do
    expect "+schedule $seeds" 2 '' 'schedule' "$build/bin/mpirun" -n 2 +schedule $seeds ./schedules mixture
done
for number in 0 -1 x; do
    explore 2 "--explore $number: " mixture $number
done
expect "--explore with a seed" 2 '' 'leave .schedule out' "$build/bin/mpirun" --explore 2 +schedule random:1 ./schedules mixture
finish
