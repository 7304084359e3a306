/* SPDX-License-Identifier: BSD-3-Clause
 *
 * manager: adds up the Collatz lengths of 1 to N by workers that it spawns with MPI_Comm_spawn. The manager hands out
 * one block of numbers at a time, so a slow worker gets fewer. Usage: mpirun -n 1 ./manager [N [workers [program]]]
 *
 * The workers are ranks of the same program or of another one (worker.c), and find the manager by MPI_Comm_get_parent.
 * Without a number of workers there are as many as MPI_UNIVERSE_SIZE leaves room for.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { TAG_RESULT = 1, TAG_BLOCK = 2, BLOCK = 1000 };

/* The number of steps from n to 1. */
static long long length_of(long long n)
{
    long long length = 0;

    for (; n != 1; length++)
        n = n % 2 ? 3 * n + 1 : n / 2;
    return length;
}

/* Asks for blocks until an empty one comes; the first request carries no result. */
static void work(MPI_Comm manager)
{
    long long block[2], sum = 0;

    for (;;) {
        MPI_Send(&sum, 1, MPI_LONG_LONG, 0, TAG_RESULT, manager);
        MPI_Recv(block, 2, MPI_LONG_LONG, 0, TAG_BLOCK, manager, MPI_STATUS_IGNORE);
        if (block[0] >= block[1])
            return;
        sum = 0;
        for (long long n = block[0]; n < block[1]; n++)
            sum += length_of(n);
    }
}

/* Answers each request with the next block; returns the sum of all results. */
static long long manage(MPI_Comm workers, int n_workers, long long last)
{
    long long next = 1, total = 0, sum;
    MPI_Status status;

    while (n_workers > 0) {
        long long block[2] = {next, next + BLOCK <= last + 1 ? next + BLOCK : last + 1};
        MPI_Recv(&sum, 1, MPI_LONG_LONG, MPI_ANY_SOURCE, TAG_RESULT, workers, &status);
        total += sum;
        MPI_Send(block, 2, MPI_LONG_LONG, status.MPI_SOURCE, TAG_BLOCK, workers);
        if (block[0] >= block[1])
            n_workers--;
        else
            next = block[1];
    }
    return total;
}

static int count_workers(int argc, char **argv)
{
    int *universe, flag, size;

    if (argc > 2)
        return atoi(argv[2]);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &flag);
    return flag && *universe > size ? *universe - size : 1;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, workers;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        work(parent);
        MPI_Comm_disconnect(&parent);
    } else {
        long long last = argc > 1 ? atoll(argv[1]) : 100000;
        int n_workers = count_workers(argc, argv), rank;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_spawn(argc > 3 ? argv[3] : argv[0], MPI_ARGV_NULL, n_workers, MPI_INFO_NULL, 0,
                       MPI_COMM_SELF, &workers, MPI_ERRCODES_IGNORE);
        long long total = manage(workers, n_workers, last);
        MPI_Comm_disconnect(&workers);
        printf("manager %d, %d workers: %lld steps from 1 to %lld\n", rank, n_workers, total, last);
    }
    MPI_Finalize();
    return 0;
}
