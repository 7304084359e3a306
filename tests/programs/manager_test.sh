#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that examples/manager counts right with few and many workers, without mpirun, with a manager in each of two
# processes, and with workers of another program: copies, or processes of their own.
# Usage: manager_test.sh MPICC MPIRUN
set -u
mpicc=$1
mpirun=$2
here=$(dirname "$0")
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS
manager=$expect_dir/manager
"$mpicc" -O1 -Wall -o "$manager" "$here/../../examples/manager/manager.c" || exit 1
worker=$expect_dir/worker
"$mpicc" -O1 -Wall -o "$worker" "$here/../../examples/manager/worker.c" &&
    "$mpicc" -O1 -Wall -fno-pie -no-pie -o "$worker.fixed" "$here/../../examples/manager/worker.c" || exit 1
steps=849666 # awk 'BEGIN { for (i = 1; i <= 10000; i++) for (n = i; n != 1; s++) n = n % 2 ? 3 * n + 1 : n / 2; print s }'

expect "the universe" 0 "^manager 0, [0-9]+ workers: $steps steps" '' "$mpirun" -n 1 "$manager" 10000
expect "one worker, without mpirun" 0 "^manager 0, 1 workers: $steps steps" '' "$manager" 10000 1
expect "200 workers" 0 "^manager 0, 200 workers: $steps steps" '' "$mpirun" -n 1 +p 2 "$manager" 10000 200
expect "another program, two managers" 0 "manager [01], 3 workers: $steps steps.* manager [01], 3 workers: $steps steps" '' "$mpirun" -n 2 --procs 2 "$manager" 10000 3 "$worker"
expect "another program" 0 "^manager 0, 4 workers: $steps steps" '' "$mpirun" -n 1 "$manager" 10000 4 "$worker"
expect "a program that needs processes" 0 "^manager 0, 2 workers: $steps steps" '' "$mpirun" --procs 1 -n 1 "$manager" 10000 2 "$worker.fixed"
expect "two managers" 0 "manager [01], 3 workers: $steps steps.* manager [01], 3 workers: $steps steps" '' "$mpirun" -n 2 --procs 2 "$manager" 10000 3
finish
