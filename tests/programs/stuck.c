/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Both ranks call a library that holds a lock while it calls back; rank 0's callback waits for rank 1, which
 * comes after its own call. With "long" rank 1 is late because it computes: nothing to report. With "fgets"
 * it is late because it waits for a line of its standard input, with "condition" because one of its threads
 * does. The program has many thread-local variables, which come from the stack of each thread of the process, the
 * library's included. (The mutex is robust: with others the rank would let rank 0 run meanwhile.)
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

void library_call(void (*function)(void));

static void wait_for_other(void)
{
    MPI_Recv(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void do_nothing(void) {}

static __thread char many[120 << 10];

static char line[80];

static void read_line(void)
{
    if (!fgets(line, sizeof line, stdin))
        printf("no line has come\n");
}

static pthread_mutex_t lock;
static pthread_cond_t has_come = PTHREAD_COND_INITIALIZER;

static void *read_on_thread(void *arg)
{
    char got[sizeof line];

    if (fgets(got, sizeof got, stdin)) {
        pthread_mutex_lock(&lock);
        memcpy(line, got, sizeof line);
        pthread_cond_signal(&has_come);
        pthread_mutex_unlock(&lock);
    }
    return arg;
}

static void wait_for_thread(void)
{
    pthread_mutexattr_t robust;
    pthread_t thread;

    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&lock, &robust);
    pthread_create(&thread, NULL, read_on_thread, NULL);
    pthread_mutex_lock(&lock);
    while (!line[0])
        pthread_cond_wait(&has_come, &lock);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int rank;

    memset(many, argc, sizeof many);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        library_call(wait_for_other);
    if (rank == 1 && strcmp(how, "long") == 0)
        for (double from = MPI_Wtime(); MPI_Wtime() < from + 3;)
            continue;
    else if (rank == 1 && strcmp(how, "fgets") == 0)
        read_line();
    else if (rank == 1 && strcmp(how, "condition") == 0)
        wait_for_thread();
    else if (rank == 1)
        library_call(do_nothing);
    if (rank == 1)
        MPI_Send(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0)
        printf("ok\n");
    return 0;
}
