/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program for gdb_test.sh: each rank calls a function with its number. With an argument, all ranks but the last one wait for
 * the next rank then; with "stay" or "sleep", the last one does not send.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Thread_local int own = 7;
int everyones = 1000;

static int twice(int number)
{
    return 2 * number;
}

static void stay(volatile int *is_here)
{
    puts("here");
    fflush(stdout);
    while (*is_here)
        ;
}

/* The ranks go on in the order from the last to the first one. A message to each rank but the first is not received before. */
static void in_order(int rank, int n_ranks, int is_staying, int is_asleep)
{
    int value = rank;

    if (rank == 0)
        for (int i = 1; i < n_ranks; i++)
            MPI_Send(&value, 1, MPI_INT, i, 42, MPI_COMM_WORLD);
    if (rank < n_ranks - 1) {
        MPI_Send(&value, 1, MPI_INT, n_ranks - 1, 5, MPI_COMM_WORLD);
        MPI_Recv(&value, 1, MPI_INT, rank + 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        for (int i = 0; i < n_ranks - 1; i++)
            MPI_Recv(&value, 1, MPI_INT, i, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (is_staying)
            stay(&is_staying);
        if (is_asleep) {
            puts("here");
            fflush(stdout);
            sleep(600);
        }
        everyones = twice(100);
    }
    if (rank > 0) {
        MPI_Send(&value, 1, MPI_INT, rank - 1, 7, MPI_COMM_WORLD);
        MPI_Recv(&value, 1, MPI_INT, 0, 42, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    int rank, n_ranks, is_wrong;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    own += rank;
    everyones += rank;
    is_wrong = twice(rank) != rank + rank;
    MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 1)
        in_order(rank, n_ranks, strcmp(argv[1], "stay") == 0, strcmp(argv[1], "sleep") == 0);
    MPI_Finalize();
    return is_wrong;
}
