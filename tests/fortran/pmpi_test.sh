#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that a tool in Fortran can wrap MPI_SEND and procedures of mpi_f08, and a tool in C sees the calls of Fortran.
#
# Usage: pmpi_test.sh BUILD_DIR WORK_DIR. Exits with 77 without gfortran.
set -u
# shellcheck source=tests/fortran/begin.sh
. "$(dirname "$0")/begin.sh"
"$build/bin/mpicc" -c "$here/pmpi_tool.c" -o tool.o || exit 1
"$build/bin/mpifort" "$here/pmpi_tool.f90" "$here/pmpi_app.f90" tool.o -o app || exit 1
for options in "+p 1" "+p 2" "--procs 2"; do
    # shellcheck disable=SC2086 # several words
    timeout 180 "$build/bin/mpirun" -n 3 $options ./app >out 2>&1 || {
        cat out
        echo "FAILED with $options"
        exit 1
    }
    sort out >sorted
    diff sorted - <<END || { echo "FAILED with $options" && exit 1; }
rank 0: send 3, send_f08 2, rank_f08 1, C 5
rank 1: send 0, send_f08 0, rank_f08 1, C 0
rank 2: send 0, send_f08 0, rank_f08 1, C 0
END
done
echo "all passed"
