/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of a rank use windows at the same time: a counter that all threads of all ranks add to, and a window
 * of each thread's own with locks and flushes. "created": on memory of the program, which other processes of the node
 * do not share, so all operations between processes are messages. */
#include "mtest.h"
#include <pthread.h>

#define THREADS 3
#define ROUNDS 40

static MPI_Win counter, own[THREADS];
static int n_wrong[THREADS];

/* One int, which is 0. */
static int *make(int is_created, MPI_Win *win)
{
    static int memory[1 + THREADS], n_used;
    int *mine = &memory[n_used++];

    if (is_created)
        MPI_Win_create(mine, sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, win);
    else
        MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, win);
    *mine = 0;
    return mine;
}

static void *run(void *arg)
{
    int thread = (int)(intptr_t)arg, old, one = 1, target = (mtest_rank + 1) % mtest_size;

    for (int i = 0; i < ROUNDS; i++) {
        int value = mtest_rank * 1000 + i, back = -1;
        MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 0, MPI_SUM, counter);
        MPI_Win_flush(0, counter);
        n_wrong[thread] += old < 0 || old >= THREADS * ROUNDS * mtest_size;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, own[thread]);
        MPI_Put(&value, 1, MPI_INT, target, 0, 1, MPI_INT, own[thread]);
        MPI_Win_flush(target, own[thread]);
        MPI_Get(&back, 1, MPI_INT, target, 0, 1, MPI_INT, own[thread]);
        MPI_Win_unlock(target, own[thread]);
        n_wrong[thread] += back != value;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int provided, *count, is_created;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mtest_learn_world(1);
    is_created = argc > 1 && strcmp(argv[1], "created") == 0;
    count = make(is_created, &counter);
    for (int i = 0; i < THREADS; i++)
        make(is_created, &own[i]);
    MPI_Win_lock_all(0, counter);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    MPI_Win_unlock_all(counter);
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_CHECK(mtest_rank != 0 || *count == THREADS * ROUNDS * mtest_size, "the counter is %d", *count);
    for (int i = 0; i < THREADS; i++) {
        MTEST_CHECK(n_wrong[i] == 0, "thread %d: %d wrong", i, n_wrong[i]);
        MPI_Win_free(&own[i]);
    }
    MPI_Win_free(&counter);
    return mtest_end();
}
