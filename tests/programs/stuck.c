/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Both ranks call a library that holds a lock while it calls back; rank 0's callback waits for rank 1, which
 * comes after its own call. With "long" rank 1 is late because it computes: nothing to report.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

void library_call(void (*function)(void));

static void wait_for_other(void)
{
    MPI_Recv(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void do_nothing(void) {}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        library_call(wait_for_other);
    if (rank == 1 && argc > 1 && strcmp(argv[1], "long") == 0)
        for (double from = MPI_Wtime(); MPI_Wtime() < from + 3;)
            continue;
    else if (rank == 1)
        library_call(do_nothing);
    if (rank == 1)
        MPI_Send(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0)
        printf("ok\n");
    return 0;
}
