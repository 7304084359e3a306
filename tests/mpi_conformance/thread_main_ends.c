/* SPDX-License-Identifier: BSD-3-Clause */
/* The main threads of all ranks end by pthread_exit; their other threads continue to use MPI, and end the job by
 * MPI_Abort. */
#include "mtest.h"
#include <pthread.h>
#include <semaphore.h>

#define ROUNDS 500

static sem_t is_ending;

static void *work(void *arg)
{
    int sum = 0;

    (void)arg;
    sem_wait(&is_ending);
    for (int i = 0; i < ROUNDS; i++) {
        int value = i;
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MTEST_CHECK(sum == i * mtest_size, "sum is %d in round %d", sum, i);
    }
    if (mtest_rank == 0)
        MPI_Abort(MPI_COMM_WORLD, mtest_errors ? 1 : 7);
    MPI_Barrier(MPI_COMM_WORLD);
    return NULL;
}

static void announce(void *arg)
{
    (void)arg;
    sem_post(&is_ending);
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t thread;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mtest_learn_world(1);
    sem_init(&is_ending, 0, 0);
    pthread_create(&thread, NULL, work, NULL);
    pthread_cleanup_push(announce, NULL);
    pthread_exit(NULL);
    pthread_cleanup_pop(0);
    return 0;
}
