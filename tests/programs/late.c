/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that asks MPI for its rank at the end of the process, after all ranks have ended: an error that
 * belongs to no rank.
 */
#include <mpi.h>

__attribute__((destructor)) static void ask(void)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
}
