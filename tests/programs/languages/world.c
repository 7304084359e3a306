/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_COMM_WORLD for main.d.
 */
#include <mpi.h>

int rank_of_world(void);
void barrier_of_world(void);

int rank_of_world(void)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

void barrier_of_world(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}
