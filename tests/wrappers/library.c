/* SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>

int library_ranks(void);

int library_ranks(void)
{
    int num_ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
    return num_ranks;
}
