/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a preloaded wrapper of a library's function calls the rank's library, and is the rank's own.
 */
#include <mpi.h>
#include <stdio.h>

int counter_add(void);

int main(int argc, char **argv)
{
    int rank, count = 0, n_wrong;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 3; i++) {
        count = counter_add();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    n_wrong = count != 103 * 1000 + 103;
    MPI_Allreduce(MPI_IN_PLACE, &n_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        puts(n_wrong == 0 ? "ok" : "wrong");
    MPI_Finalize();
    return 0;
}
