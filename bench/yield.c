/* SPDX-License-Identifier: BSD-3-Clause
 *
 * yield: the cost of passing the core to the next rank through the scheduler. Every rank calls AMPI_Yield in
 * a loop; with all ranks on one PE (mpirun -n RANKS yield +p 1) the time of a rank over the yields of all
 * ranks is one switch. Some untimed yields come before and after, so that no rank leaves the previous barrier
 * or enters the next one while others are timed. With thousands of ranks these steps cost much more than a
 * yield (cold pages). AMPI_Yield is an extension (mpi-ext.h); compiled with another MPI the program prints
 * n/a.
 *
 * usage: yield [-t seconds]
 * prints: yield.RANKS value ns (and .p5, .p95), or yield.RANKS n/a ns
 */
#include "bench.h"

#ifdef HEDDLE
#include <mpi-ext.h>

static void settle(void)
{
    for (int i = 0; i < 3; i++) {
        AMPI_Yield();
    }
}

static double yields(void *ctx, long iterations)
{
    (void)ctx;
    settle();
    double start = bench_now();
    for (long i = 0; i < iterations; i++) {
        AMPI_Yield();
    }
    double seconds = bench_now() - start;
    settle();
    return seconds;
}
#endif

int main(int argc, char **argv)
{
    char key[64];
    MPI_Init(&argc, &argv);
    int size = bench_comm_size();
    snprintf(key, sizeof key, "yield.%d", size);
#ifdef HEDDLE
    double seconds = bench_option_double(argc, argv, "-t", 0.5);
    struct bench_stats stats = bench_sample(yields, NULL, seconds, BENCH_MAX);
    if (bench_comm_rank() == 0) {
        bench_print_time(key, stats, 1e9 / size, "ns");
    }
#else
    if (bench_comm_rank() == 0) {
        printf("%s n/a ns\n", key);
    }
#endif
    MPI_Finalize();
    return 0;
}
