#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a rank of a job of 100,000, whose stacks are small and close together, gets the report of a full stack, and a larger
# one with +stacksize. Usage: many_ranks_test.sh BUILD WORK
set -u
build=$1
source=$(cd "$(dirname "$0")" && pwd)/endings.c
# shellcheck source=tools/test_expect.sh
. "$(dirname "$0")/../../tools/test_expect.sh"
mkdir -p "$2" && cd "$2" || exit 1
unset HEDDLE_OPTIONS
ulimit -c 0
EXPECT_TIMEOUT=180
"$build/bin/mpicc" -g -O1 -w "$source" -o endings || exit 1

expect "a full stack" 139 '*' 'rank 1 of 100000 .*stack overflow: the stack of 128 KiB is full; give ranks larger ones with \+stacksize' \
    "$build/bin/mpirun" --procs 5 -n 100000 +p 1 ./endings overflow
expect "a frame of 1 MiB that does not fit" 139 '*' 'rank 99999 of 100000 .*stack overflow: the stack of 128 KiB is full' \
    "$build/bin/mpirun" --procs 5 -n 100000 +p 1 ./endings frame 99999 1
expect "a frame of 1 MiB that fits" 0 '*' '*' "$build/bin/mpirun" --procs 5 -n 100000 +p 1 +stacksize 2M ./endings frame 99999 1
finish
