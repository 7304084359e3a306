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

for name in work_jacobi work_cholesky; do
    program=$expect_dir/$name
    "$mpicc" -O2 -Wall -DWITHOUT_GPU -o "$program" "$here/../../examples/$name/$name.c" -lm || exit 1
    # Tiles and their sizes; for work_jacobi columns and iterations, too.
    for ranks in 1 6; do
        expect "$name, $ranks ranks" 0 ' checked $' '' "$mpirun" -n $ranks "$program" --check 7 20 50 20 +p 1
    done
    expect "$name, 16 ranks on 2 PEs" 0 ' checked $' '' "$mpirun" -n 16 "$program" --check 9 33 70 30 +p 2
    expect "$name, 6 ranks in 2 processes" 0 ' checked $' '' "$mpirun" -n 6 --procs 2 "$program" --check 8 24 60 20
done
finish
