/* SPDX-License-Identifier: BSD-3-Clause
 *
 * million: the program of bench/million: many ranks, each on a periodic grid in three dimensions. It does
 * halo exchanges (one double with each of the six neighbours, one dimension after the other, checked), an allreduce
 * (checked) and a barrier.
 *
 * usage: million [number of halo exchanges, default 10]
 * prints, from rank 0: million.STEP.RANKS SECONDS s, for the steps init, halo, allreduce and barrier, in the time of
 *         rank 0 (init: since the process of rank 0 started)
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int rank, n_ranks;
static int shape[3], place[3];

/* Seconds since this process was started, from its start time in /proc/self/stat (10 ms steps). */
static double since_start(void)
{
    FILE *file = fopen("/proc/self/stat", "r");
    unsigned long long start_ticks = 0;
    struct timespec now;

    if (!file || fscanf(file,
                        "%*d (%*[^)]) %*c"
                        " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
                        " %llu",
                        &start_ticks) != 1)
        start_ticks = 0;
    if (file)
        fclose(file);
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec -
           (double)start_ticks / (double)sysconf(_SC_CLK_TCK);
}

/* The rank next to this one in a dimension, periodic. */
static int neighbor(int dim, int step)
{
    int at[3] = {place[0], place[1], place[2]};

    at[dim] = (at[dim] + step + shape[dim]) % shape[dim];
    return (at[0] * shape[1] + at[1]) * shape[2] + at[2];
}

static void fail(const char *what)
{
    fprintf(stderr, "million: rank %d: wrong %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Exchanges the rank's number plus the round's with both neighbours of a dimension, and checks theirs. */
static void exchange_halos(int dim, int round)
{
    int below = neighbor(dim, -1), above = neighbor(dim, 1);
    double mine = rank + round, got[2];
    MPI_Request requests[4];

    MPI_Irecv(&got[0], 1, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&got[1], 1, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(&mine, 1, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(&mine, 1, MPI_DOUBLE, below, 1, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    if (got[0] != below + round || got[1] != above + round)
        fail("halo");
}

static void print_time(const char *step, double seconds)
{
    if (rank == 0)
        printf("million.%s.%d %.4f s\n", step, n_ranks, seconds);
}

int main(int argc, char **argv)
{
    int n_halos = argc > 1 ? atoi(argv[1]) : 10;
    long long one = 1, all = 0;
    double start;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    if (rank == 0)
        print_time("init", since_start());

    start = MPI_Wtime();
    MPI_Allreduce(&one, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (all != n_ranks)
        fail("sum");
    print_time("allreduce", MPI_Wtime() - start);

    MPI_Dims_create(n_ranks, 3, shape);
    place[0] = rank / (shape[1] * shape[2]);
    place[1] = rank / shape[2] % shape[1];
    place[2] = rank % shape[2];
    start = MPI_Wtime();
    for (int round = 0; round < n_halos; round++)
        for (int dim = 0; dim < 3; dim++)
            exchange_halos(dim, round);
    print_time("halo", n_halos > 0 ? (MPI_Wtime() - start) / n_halos : 0);

    start = MPI_Wtime();
    MPI_Barrier(MPI_COMM_WORLD);
    print_time("barrier", MPI_Wtime() - start);
    MPI_Finalize();
    return 0;
}
