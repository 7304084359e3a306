/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rank r opens the plugin of the folder same<r>, one after the other. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, n_ranks, is_open = 0, n_open = 0;
    char name[64];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    snprintf(name, sizeof name, "$ORIGIN/same%d/plugin.so", rank);
    for (int i = 0; i < n_ranks; i++) {
        if (i == rank)
            is_open = dlopen(name, RTLD_NOW) != NULL;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Allreduce(&is_open, &n_open, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && n_open == n_ranks)
        puts("ok");
    MPI_Finalize();
    return 0;
}
