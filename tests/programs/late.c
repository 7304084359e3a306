/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that asks MPI for its rank when the process ends, after all ranks have ended: an error of no
 * rank's.
 */
#include <mpi.h>

__attribute__((destructor)) static void ask(void)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
}
