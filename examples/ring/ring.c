/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ring: passes a token around all ranks. With the argument "wrong" every rank receives before it sends, so
 * that all wait for each other: a deadlock, for README.md.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, size, token = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int is_wrong = argc > 1 && strcmp(argv[1], "wrong") == 0;
    int left = (rank + size - 1) % size, right = (rank + 1) % size;

    if (rank == 0 && !is_wrong)
        MPI_Send(&token, 1, MPI_INT, right, 7, MPI_COMM_WORLD);
    MPI_Recv(&token, 1, MPI_INT, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    token++;
    if (rank != 0 || is_wrong)
        MPI_Send(&token, 1, MPI_INT, right, 7, MPI_COMM_WORLD);
    else
        printf("the token came back: %d of %d ranks had it\n", token, size);
    MPI_Finalize();
    return 0;
}
