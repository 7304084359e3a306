/* SPDX-License-Identifier: BSD-3-Clause
 *
 * thread_data: the cost of a switch of ranks whose code has thread_local data: its own (-DOWN=BYTES), or a library's
 * (thread_data_library.c), which it only calls, or also refers to by name (-DREFERS). All ranks call AMPI_Yield in a loop
 * (yield.c); with "touch" each writes its data after each switch. bench/thread_data compiles and runs it.
 *
 * usage: thread_data idle|touch [-t seconds | -n yields]
 * prints: the nanoseconds of a switch (the least of 9 runs); with -n nothing
 */
#include "bench.h"
#include <mpi-ext.h>

#ifdef OWN
static _Thread_local char own[OWN];

static void data_touch(int value)
{
    own[0] = own[OWN - 1] = (char)value;
}

static int data_get(void)
{
    return own[OWN - 1];
}
#else
extern _Thread_local char library_data[];
void data_touch(int value);
int data_get(void);
#endif

static double yields(long n, int rank, int is_touched)
{
    double start;

    for (int i = 0; i < 3; i++)
        AMPI_Yield();
    start = bench_now();
    if (is_touched) {
        for (long i = 0; i < n; i++) {
            AMPI_Yield();
            data_touch(rank);
        }
    } else {
        for (long i = 0; i < n; i++)
            AMPI_Yield();
    }
    start = (bench_now() - start) / (double)n / bench_comm_size();
    for (int i = 0; i < 3; i++)
        AMPI_Yield();
    return start;
}

int main(int argc, char **argv)
{
    double least = 1;
    int rank, is_touched = argc > 1 && strcmp(argv[1], "touch") == 0;
    long n = (long)bench_option_double(argc, argv, "-n", 0);
    double seconds = bench_option_double(argc, argv, "-t", 0.05);

    MPI_Init(&argc, &argv);
    rank = bench_comm_rank();
    data_touch(rank);
#ifdef REFERS
    library_data[0] = (char)rank;
#endif
    if (n) {
        yields(n, rank, is_touched);
    } else {
        n = (long)(seconds / yields(1000, rank, is_touched) / bench_comm_size()) + 1000;
        MPI_Bcast(&n, 1, MPI_LONG, 0, MPI_COMM_WORLD);
        for (int i = 0; i < 9; i++) {
            double ns = yields(n, rank, is_touched);

            least = ns < least ? ns : least;
        }
        if (rank == 0)
            printf("%.1f\n", 1e9 * least);
    }
    if (data_get() != (char)rank)
        bench_fail("the thread_local data is another rank's");
    MPI_Finalize();
    return 0;
}
