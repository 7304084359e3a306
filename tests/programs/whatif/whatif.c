/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that compute for known times of the test's clock, and wait for each other: whatif KIND ROUNDS. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

void test_clock_advance(long ns);

int main(int argc, char **argv)
{
    int rank, size, word = 0, got;
    MPI_Request requests[2];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int is_line = strcmp(argv[1], "line") == 0, is_ring = strcmp(argv[1], "ring") == 0;
    int has_barriers = strcmp(argv[1], "barriers") == 0;
    for (int i = 0; i < atoi(argv[2]); i++) {
        if (is_line && rank > 0)
            MPI_Recv(&word, 1, MPI_INT, rank - 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        test_clock_advance(10000000L * (1 + (rank * 7 + i * 3) % 5));
        if (is_line && rank < size - 1)
            MPI_Send(&word, 1, MPI_INT, rank + 1, i, MPI_COMM_WORLD);
        if (is_ring) {
            MPI_Irecv(&got, 1, MPI_INT, (rank + size - 1) % size, i, MPI_COMM_WORLD, &requests[0]);
            MPI_Isend(&word, 1, MPI_INT, (rank + 1) % size, i, MPI_COMM_WORLD, &requests[1]);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        }
        if (has_barriers)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
