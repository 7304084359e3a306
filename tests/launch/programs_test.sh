#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that several programs of one command line are one job: with processes of their own, several ranks in each, and
# their own arguments and folders, or in one process; also under Open MPI's mpirun. A failure of one ends all.
# Usage: programs_test.sh MPICC MPIRUN
set -u
mpirun=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS
here=$(cd "$(dirname "$0")" && pwd)
work=$(cd "$expect_dir" && pwd -P)
"$1" -O1 -o "$work/programs" "$here/programs.c" || exit 1
cp "$work/programs" "$work/other"
mkdir "$work/folder"
cd "$work" || exit 1

expect "two programs" 0 '^12 ranks $' '' "$mpirun" -n 4 ./programs 0 0 4 "$work" : -n 8 ./other 1 4 8 "$work"
expect "one rank each" 0 '^2 ranks $' '' "$mpirun" -n 1 ./programs 0 0 1 : -n 1 ./other 1 1 1
expect "several processes of one, a folder, no -n" 0 '^6 ranks $' '' "$mpirun" +p 1 -n 3 --procs 2 -wd folder ../programs 0 0 3 "$work/folder" : \
    -n 2 -wd / "$work/other" 1 3 2 / : ./programs 2 5 1 "$work"
expect "-v prints the programs" 0 '*' "-n 1 --procs 1 [^ ]*programs 0 0 1 : -n 2 --procs 1 [^ ]*other 1 1 2 $" \
    "$mpirun" -v -n 1 ./programs 0 0 1 : -n 2 ./other 1 1 2
expect "--tag-output" 0 '^\[0\]<stdout> 3 ranks $' '' "$mpirun" --tag-output -n 1 ./programs 0 0 1 : -n 2 ./other 1 1 2
expect "the ranks of a failed process" 1 '' 'mpirun: process 1 of 2 \(ranks 1 to 2\) (aborted the job with|ended with exit) code 1[: ]' \
    "$mpirun" -n 1 ./programs 0 0 1 : -n 2 ./other 7 1 2
expect "in one process" 0 '^12 ranks $' '' "$mpirun" --one-process -n 4 ./programs 0 0 4 : -n 7 ./other 1 4 7 : ./programs 2 11 1
expect "in one process: a failure" 1 '*' 'MPI_APPNUM is 1, not 7' "$mpirun" --one-process -n 1 ./programs 0 0 1 : -n 2 ./other 7 1 2
expect "in one process: a folder" 2 '' 'all programs run in one folder' "$mpirun" --one-process -n 1 ./programs 0 0 1 : -wd / "$work/other" 1 1 1
unset A B C
for how in "" --one-process; do # -x and -env: of one program; -genv: of all, but the program's own prevail
    expect "variables of one program $how" 0 '^5 ranks $' '' "$mpirun" $how -n 2 -x A=1 -env B 2 ./programs 0 0 2 "$work" A=1 B=2 C : \
        -n 2 -x A=3 ./other 1 2 2 "$work" A=3 B C : -n 1 -env C= ./programs 2 4 1 "$work" A B C=
    A=0 expect "variables of the user $how" 0 '^3 ranks $' '' "$mpirun" $how -n 1 -x A=1 ./programs 0 0 1 "$work" A=1 : \
        -n 1 -x A ./other 1 1 1 "$work" A=0 : -n 1 -x A=1 -x A=2 ./programs 2 2 1 "$work" A=2
    expect "variables of all programs $how" 0 '^3 ranks $' '' "$mpirun" $how -genv A 1 -n 1 -x A=2 ./programs 0 0 1 "$work" A=2 B=4 : \
        -n 1 -x A=3 -genv B=4 ./other 1 1 1 "$work" A=3 B=4 : -n 1 ./programs 2 2 1 "$work" A=1 B=4
done
expect "a folder of one" 0 '^2 ranks $' '' "$mpirun" -n 1 -wdir folder -x A=1 ../programs 0 0 1 "$work/folder" A=1 : -n 1 ./other 1 1 1 "$work" A
expect "a variable of all with two values" 2 '' '-genv A: it holds for all programs, and an earlier option sets A=1' \
    "$mpirun" -n 1 -genv AA 2 -genv A 1 ./programs 0 0 1 : -n 1 -genv A 2 ./other 1 1 1
expect "no second program" 2 '' 'no program to run' "$mpirun" -n 1 ./programs 0 0 1 :
expect "a second program that does not exist" 127 '' 'nosuch: no such program' "$mpirun" -n 1 ./programs 0 0 1 : nosuch
expect "a second program without MPI" 126 '' 'true: not an MPI program' "$mpirun" -n 1 ./programs 0 0 1 : true
expect "+vp" 2 '' '\+vp: give -n before each' "$mpirun" +vp 2 ./programs : ./other
expect "too many processes" 2 '' '--procs 3: each process needs at least one rank, but -n is 2' \
    "$mpirun" -n 1 ./programs 0 0 1 : -n 2 --procs 3 ./other
if command -v mpirun.openmpi >/dev/null; then
    expect "Open MPI's mpirun" 0 '^3 ranks $' '' mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to none \
        -n 1 ./programs 0 0 1 : -n 2 ./other 1 1 2
fi
finish
