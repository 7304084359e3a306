/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For reports_test.sh: rank 0's main thread waits in the C library for its thread, which receives from rank 1 in MPI. Rank 1
 * sends when a file exists.
 */
#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

static int data;

static void *receive(void *arg)
{
    MPI_Recv(&data, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int rank, level;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        pthread_create(&thread, NULL, receive, NULL);
        pthread_join(thread, NULL);
    } else {
        write(1, "started\n", 8);
        while (access("go", F_OK) != 0)
            usleep(1000);
        MPI_Send(&data, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
