/* SPDX-License-Identifier: BSD-3-Clause
 *
 * hello: the start-up benchmark's program. The driver measures the wall clock from start to exit; the program
 * only checks that every rank has its own globals (the counter is 0 when a rank starts) and that all ranks
 * exist, with one reduction.
 *
 * usage: hello
 * prints: hello.RANKS 1 ok
 */
#include <mpi.h>
#include <stdio.h>

static int visits;          /* number of ranks that this rank has counted: itself */
static int *seen = &visits; /* a pointer in initialized data must lead to the rank's own counter */

int main(int argc, char **argv)
{
    int rank, size, total = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    visits++;
    MPI_Reduce(seen, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (visits != 1) {
        fprintf(stderr, "hello: rank %d shares its globals: the counter is %d\n", rank, visits);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0) {
        printf("hello.%d %d %s\n", size, 1, total == size ? "ok" : "wrong");
    }
    MPI_Finalize();
    return 0;
}
