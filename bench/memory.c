/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory: a program whose size the driver measures. Every rank has a few globals, passes a barrier and
 * exchanges one message with its neighbours; then rank 0 prints "ready" and reads standard input while the
 * others wait in a barrier. The driver adds up PSS and RSS (/proc/PID/smaps_rollup) of the processes of the
 * job at N and at 2N ranks; the difference over N is the memory of one more rank. When standard input ends,
 * so does the program.
 *
 * usage: memory < pipe
 * prints: memory.ready RANKS ranks
 */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static double table[64]; /* a small program's state: half a KiB, written by every rank */
static double *last = &table[63];

int main(int argc, char **argv)
{
    int rank, size, token = 0;
    char byte;
    MPI_Request request;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 64; i++) {
        table[i] = rank + i;
    }
    MPI_Irecv(&token, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &request);
    MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (token != (rank + size - 1) % size || *last != rank + 63) {
        fprintf(stderr, "memory: rank %d has wrong data\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0) {
        printf("memory.ready %d ranks\n", size);
        fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0) {
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
