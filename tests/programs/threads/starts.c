/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows that a thread belongs to the rank whose library started it, even if that library finds pthread_create only at its
 * first call: the thread calls MPI for the rank. */
#include "starter.h"

#include <mpi.h>
#include <stdio.h>

static int rank, size;

static void *exchange(void *arg)
{
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 1, arg, 1, MPI_INT, (rank + size - 1) % size, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, found = -1, n_right = 0, all = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    n_right = run_in_thread(exchange, &found) && found == (rank + size - 1) % size;
    MPI_Allreduce(&n_right, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s\n", all == size ? "ok" : "wrong");
    MPI_Finalize();
    return 0;
}
