# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# For tests of mpirun --procs with MPI programs. Sourced with MPICC and MPIRUN as arguments. Sets mpirun; work, a folder
# that is removed with the test; client, a program that executes its arguments (mpi_client.c); and run, four of them.
# shellcheck disable=SC2034
mpirun=$2
# shellcheck source=tools/test_expect.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/test_expect.sh"
unset HEDDLE_OPTIONS PMIX_RANK PMIX_NAMESPACE SLURM_JOB_ID
work=$expect_dir
client=$work/mpi_client
"$1" -O1 -o "$client" "$(dirname "${BASH_SOURCE[0]}")/mpi_client.c" || exit 1
run=("$mpirun" --procs 4 -n 4 "$client")
