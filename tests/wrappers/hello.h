/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Common code of the test programs of this folder, in C and in C++: `hello N` checks that there are N ranks
 * and that each has its own globals; rank 0 prints it.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int my_rank = -1;

static int hello(int argc, char **argv)
{
    int rank, num_ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &num_ranks);
    my_rank = rank;
    MPI_Barrier(MPI_COMM_WORLD);
    int failed = my_rank != rank || argc != 2 || num_ranks != atoi(argv[1]);
    if (failed)
        printf("rank %d of %d: wrong (my_rank is %d)\n", rank, num_ranks, my_rank);
    else if (rank == 0)
        printf("hello from %d ranks\n", num_ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return failed;
}
