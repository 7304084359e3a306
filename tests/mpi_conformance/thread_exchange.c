/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of a rank send and receive at the same time, each with the thread of the same number in another rank,
 * while the main thread is in MPI as well, or blocks or spins where MPI cannot see it. */
#include "mtest.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#define THREADS_MAX 16
#define COUNT_MAX 5000

static int n_threads, n_rounds, partner;
static atomic_int n_done, n_wrong;
static pthread_barrier_t barrier;
static sem_t semaphore;

/* Messages of 8 bytes and of more than is sent at once go both ways. */
static void exchange(int thread)
{
    static int blocks[THREADS_MAX + 1][COUNT_MAX], ins[THREADS_MAX + 1][COUNT_MAX];
    int *block = blocks[thread], *in = ins[thread];

    for (int i = 0; i < n_rounds; i++) {
        int count = i % 8 == 7 ? COUNT_MAX : 2, tag = thread * 2;
        MPI_Request request;
        MPI_Status status;
        for (int k = 0; k < count; k++)
            block[k] = mtest_rank * 1000 + thread * 50 + i % 50 + k;
        if (i % 3 == 0 || partner == mtest_rank) {
            MPI_Irecv(in, count, MPI_INT, partner, tag, MPI_COMM_WORLD, &request);
            MPI_Send(block, count, MPI_INT, partner, tag, MPI_COMM_WORLD);
            MPI_Wait(&request, &status);
            memcpy(block, in, (size_t)count * sizeof *in);
        } else if ((mtest_rank < partner) == (i % 2)) {
            MPI_Send(block, count, MPI_INT, partner, tag, MPI_COMM_WORLD);
            MPI_Recv(block, count, MPI_INT, partner, tag + 1, MPI_COMM_WORLD, &status);
        } else {
            MPI_Recv(in, count, MPI_INT, partner, tag, MPI_COMM_WORLD, &status);
            MPI_Send(block, count, MPI_INT, partner, tag + 1, MPI_COMM_WORLD);
            memcpy(block, in, (size_t)count * sizeof *in);
        }
        for (int k = 0; k < count; k++)
            n_wrong += block[k] != partner * 1000 + thread * 50 + i % 50 + k;
        n_wrong += status.MPI_SOURCE != partner;
    }
}

static void *run(void *arg)
{
    int is_main = 1;

    MPI_Is_thread_main(&is_main);
    n_wrong += is_main;
    exchange((int)(intptr_t)arg);
    n_done++;
    sem_post(&semaphore);
    pthread_barrier_wait(&barrier);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "join";
    pthread_t threads[THREADS_MAX];
    int provided, is_main = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &mtest_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mtest_size);
    MTEST_CHECK(provided == MPI_THREAD_MULTIPLE, "provided is %d", provided);
    MPI_Is_thread_main(&is_main);
    MTEST_CHECK(is_main, "main is not the main thread");
    n_threads = argc > 2 ? atoi(argv[2]) : 4;
    n_rounds = argc > 3 ? atoi(argv[3]) : 60;
    partner = mtest_rank ^ 1;
    if (partner >= mtest_size)
        partner = mtest_rank;
    pthread_barrier_init(&barrier, NULL, (unsigned)n_threads + (strcmp(how, "barrier") == 0));
    sem_init(&semaphore, 0, 0);
    for (int i = 0; i < n_threads; i++)
        pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i);
    if (strcmp(how, "main") == 0)
        exchange(THREADS_MAX);
    if (strcmp(how, "barrier") == 0)
        pthread_barrier_wait(&barrier);
    while (strcmp(how, "spin") == 0 && n_done < n_threads)
        ;
    for (int i = 0; strcmp(how, "semaphore") == 0 && i < n_threads; i++)
        sem_wait(&semaphore);
    for (int flag, i = 0; strcmp(how, "test") == 0 && n_done < n_threads; i++)
        MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    MTEST_CHECK(n_wrong == 0, "%d values are wrong", n_wrong);
    MPI_Barrier(MPI_COMM_WORLD);
    return mtest_end();
}
