/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a loop a known number of times in each rank, for the counts of --coverage. */
#include <mpi.h>

int main(int argc, char **argv)
{
    volatile int sum = 0;

    MPI_Init(&argc, &argv);
    for (int i = 0; i < 1000; i++)
        sum += i; /* counted */
    MPI_Finalize();
    return 0;
}
