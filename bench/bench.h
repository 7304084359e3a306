/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bench.h: common parts of the benchmark programs: the clock, the sampling loop, the statistics, the options
 * and the output format.
 *
 * Sampling: a body does a number of operations and returns their time in seconds on its rank. The number is
 * raised until one sample lasts about a hundredth of the time per point (-t); these runs are the warm-up.
 * Then up to 101 samples are taken, each after a barrier; fewer if one lasts long, but at least 3. The result
 * is the median of the samples, with the 5th and 95th percentile. A sample is a mean over its operations, so
 * the percentiles show how the machine drifts, not the spread of single operations.
 *
 * Output: one line "key value unit" per result, written by rank 0 (or by the receiving rank's message to it).
 * Lines that begin with '#' are remarks.
 */
#ifndef BENCH_H
#define BENCH_H

#include <mpi.h>

#include "bench_stats.h"

/* Does `iterations` operations and returns the seconds they took on the calling rank. */
typedef double (*bench_body_fn)(void *ctx, long iterations);

/* How the ranks' times of one sample become one. */
enum bench_combine {
    BENCH_MAX, /* the last rank's time */
    BENCH_MEAN /* the mean over the ranks, as the OSU benchmarks do it */
};

static inline int bench_comm_rank(void)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

static inline int bench_comm_size(void)
{
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

/* Ends the job with a message, when an argument or received data is wrong. */
static inline void bench_fail(const char *what)
{
    fprintf(stderr, "benchmark failed: rank %d: %s\n", bench_comm_rank(), what);
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
}

/* One sample: a barrier, the body, and the ranks' times combined. The same values at every rank. wall_out is the time of the whole sample, more than its value if the body times only parts of its work. */
static inline double bench_one_sample(bench_body_fn body, void *ctx, long iterations, enum bench_combine how,
                                      double *wall_out)
{
    double mine, all, wall;
    MPI_Barrier(MPI_COMM_WORLD);
    wall = bench_now();
    mine = body(ctx, iterations);
    wall = bench_now() - wall;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, how == BENCH_MAX ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&wall, wall_out, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return how == BENCH_MEAN ? all / bench_comm_size() : all;
}

/* Warms up, finds the number of operations per sample, and takes the samples. Called by every rank of
 * MPI_COMM_WORLD; `seconds` is about how long the point may take. Returns seconds per operation, the same at
 * every rank. */
static inline struct bench_stats bench_sample(bench_body_fn body, void *ctx, double seconds,
                                              enum bench_combine how)
{
    double samples[BENCH_SAMPLES];
    double target = seconds / 100, total = 0, wall;
    long iterations = 1;
    int n = 0;

    /* Every rank sees the same combined time and so takes the same decisions. The first run pays for
     * connections and page faults and decides nothing. */
    bench_one_sample(body, ctx, iterations, how, &wall);
    do {
        bench_one_sample(body, ctx, iterations, how, &wall);
        total += wall;
        if (wall < target) {
            double grow = wall > 0 ? target / wall * 1.2 : 10;
            iterations = (long)((double)iterations * (grow < 2 ? 2 : grow > 10 ? 10 : grow));
        }
    } while (wall < target && iterations < 100000000 && total < seconds);
    total = 0;
    while (n < BENCH_SAMPLES && (n < 3 || total < seconds)) {
        samples[n++] = bench_one_sample(body, ctx, iterations, how, &wall) / (double)iterations;
        total += wall;
    }
    return bench_summarize(samples, n);
}

#endif
