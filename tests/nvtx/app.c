/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Each rank sends to the next one: its main thread (MPI_Send) and another thread (MPI_Send_c). Then odd ranks send to the rank
 * before them (MPI_Ssend), so the range of that call and that of MPI_Recv overlap, whichever rank comes first.
 */
#include <mpi.h>
#include <pthread.h>

static int rank, size;

static void *send(void *unused)
{
    (void)unused;
    MPI_Send_c(NULL, 0, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD);
    return NULL;
}

int main(int argc, char **argv)
{
    int previous, level;
    pthread_t thread;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    previous = (rank + size - 1) % size;
    MPI_Send(NULL, 0, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    MPI_Recv_c(NULL, 0, MPI_INT, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    pthread_create(&thread, NULL, send, NULL);
    pthread_join(thread, NULL);
    MPI_Recv_c(NULL, 0, MPI_INT, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank % 2)
        MPI_Ssend(NULL, 0, MPI_INT, rank - 1, 2, MPI_COMM_WORLD);
    else
        MPI_Recv(NULL, 0, MPI_INT, rank + 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
