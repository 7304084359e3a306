/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program for gdb_test.sh: each rank calls a function with its number.
 */
#include <mpi.h>

static int twice(int number)
{
    return 2 * number;
}

int main(int argc, char **argv)
{
    int rank, is_wrong;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    is_wrong = twice(rank) != rank + rank;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return is_wrong;
}
