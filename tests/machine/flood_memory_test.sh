#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a rank which does not receive buffers only a limited amount of another process's messages, at all sizes.
# Usage: flood_memory_test.sh MPIRUN MPICC
set -u
mpirun=$1
mpicc=$2
here=$(dirname "$0")
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS PMIX_RANK PMIX_NAMESPACE SLURM_JOB_ID
EXPECT_TIMEOUT=200
"$mpicc" -O2 -o "$expect_dir/flood_memory" "$here/flood_memory.c" || exit 1

# COUNT BYTES; without flow control these take 160 to 430 MB.
for flood in "1000000 8" "1000000 200" "200000 1000" "60000 6000"; do
    # shellcheck disable=SC2086
    expect "$flood" 0 '(the (sender|receiver) has taken [0-9]* MB ){2}' '*' \
        "$mpirun" --procs 2 -n 2 "$expect_dir/flood_memory" $flood 150
done
finish
