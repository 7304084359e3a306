#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that the examples of work requests are right on the CPU, in one and several processes.
# Usage: work_examples_test.sh MPICC MPIRUN
set -u
mpicc=$1
mpirun=$2
here=$(dirname "$0")
# shellcheck source=tools/test_expect.sh
. "$here/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS

# check_example NAME ARGUMENTS
check_example() {
    local name=$1 program=$expect_dir/$1
    shift
    "$mpicc" -O2 -Wall -DWITHOUT_GPU -o "$program" "$here/../../examples/$name/$name.c" -lm || exit 1
    for ranks in 1 6; do
        expect "$name, $ranks ranks" 0 ' checked $' '' "$mpirun" -n $ranks "$program" --check "$@" +p 1
    done
    expect "$name, 8 ranks on 2 PEs" 0 ' checked $' '' "$mpirun" -n 8 "$program" --check "$@" +p 2
    expect "$name, 6 ranks in 2 processes" 0 ' checked $' '' "$mpirun" -n 6 --procs 2 "$program" --check "$@"
}

check_example work_jacobi 7 20 50 20
check_example work_cholesky 9 21
check_example work_md 3 3 25
finish
