/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A ring: in each step every rank receives a message from its predecessor, and only then sends the next one.
 * Prints the time of all steps in seconds. For bench/idle: the cost of waiting with more PEs than cores.
 *
 *   idle_ring [STEPS [BYTES]]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int steps = argc > 1 ? atoi(argv[1]) : 1000, bytes = argc > 2 ? atoi(argv[2]) : 8;
    char *in = calloc((size_t)bytes, 1), *out = calloc((size_t)bytes, 1);
    for (int warm = 1; warm >= 0; warm--) {
        MPI_Barrier(MPI_COMM_WORLD);
        double began = MPI_Wtime();
        for (int step = 0; step < (warm ? 20 : steps); step++)
            MPI_Sendrecv(out, bytes, MPI_BYTE, (rank + 1) % size, 1, in, bytes, MPI_BYTE,
                         (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        if (!warm && rank == 0)
            printf("%.4f\n", MPI_Wtime() - began);
    }
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
