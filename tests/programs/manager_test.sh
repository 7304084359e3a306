#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that examples/manager counts right with few and many workers, without mpirun, and with a manager in each of two
# processes.
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
steps=849666 # awk 'BEGIN { for (i = 1; i <= 10000; i++) for (n = i; n != 1; s++) n = n % 2 ? 3 * n + 1 : n / 2; print s }'

expect "the universe" 0 "^manager 0, [0-9]+ workers: $steps steps" '' "$mpirun" -n 1 "$manager" 10000
expect "one worker, without mpirun" 0 "^manager 0, 1 workers: $steps steps" '' "$manager" 10000 1
expect "200 workers" 0 "^manager 0, 200 workers: $steps steps" '' "$mpirun" -n 1 +p 2 "$manager" 10000 200
expect "two managers" 0 "manager [01], 3 workers: $steps steps.* manager [01], 3 workers: $steps steps" '' "$mpirun" -n 2 --procs 2 "$manager" 10000 3
finish
