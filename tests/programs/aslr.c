/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Prints the addresses of two of rank 1's variables: a global one and one on the stack.
 */
#include <mpi.h>
#include <stdio.h>

static int global;

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1)
        printf("%p %p\n", (void *)&global, (void *)&rank);
    MPI_Finalize();
    return 0;
}
