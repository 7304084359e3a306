/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For reports_test.sh: rank 0's main thread waits in the C library for its thread, which receives in MPI.
 *
 *   file      from rank 1, which sends when a file exists
 *   never     from the last rank, which receives from rank 0
 *   unknown   from rank 0: two messages of another thread, which calls MPI later
 *   main      the same, but the main thread receives; a thread of UCX ends before (reports_early.c)
 */
#include <mpi.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* Ends that thread, if the library is there. */
void early_end(void) __attribute__((weak));

static int data, rank, source, n_messages = 1;

static void *receive(void *arg)
{
    for (int i = 0; i < n_messages; i++)
        MPI_Recv(&data, 1, MPI_INT, source, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* receive */
    return arg;
}

/* Each time the others are blocked for longer than a deadlock needs to be found. */
static void *send(void *arg)
{
    for (int i = 0; i < n_messages; i++) {
        usleep(1500000);
        MPI_Send(&rank, 1, MPI_INT, rank, 1, MPI_COMM_WORLD);
    }
    return arg;
}

static void send_later(void)
{
    write(1, "started\n", 8);
    while (access("go", F_OK) != 0)
        usleep(1000);
    MPI_Send(&data, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int is_main = strcmp(argv[1], "main") == 0, is_unknown = is_main || strcmp(argv[1], "unknown") == 0;
    int size, level;
    pthread_t thread, sender;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    source = is_unknown ? 0 : size - 1;
    if (is_unknown)
        n_messages = 2;
    if (early_end)
        early_end();
    if (rank == 0) {
        if (!is_main)
            pthread_create(&thread, NULL, receive, NULL);
        if (is_unknown)
            pthread_create(&sender, NULL, send, NULL);
        if (is_main)
            receive(NULL);
        else
            pthread_join(thread, NULL); /* join */
        if (is_unknown)
            pthread_join(sender, NULL);
    } else if (rank == size - 1 && strcmp(argv[1], "never") == 0) {
        MPI_Recv(&data, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (!is_unknown) {
        send_later();
    }
    MPI_Finalize();
    return 0;
}
