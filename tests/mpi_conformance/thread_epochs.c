/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of a rank are in different epochs of the same window at the same time: one opens access epochs to the next
 * rank while another one exposes the memory to the previous rank; and each thread locks another target, so a thread
 * that has its lock waits for no lock of another thread. */
#include "mtest.h"
#include <pthread.h>

#define ROUNDS 50
#define LOCKS 3

static MPI_Win win;
static int memory[LOCKS], n_wrong[LOCKS];

/* ---- Start and complete beside post and wait ---- */

static MPI_Group group_of(int rank)
{
    MPI_Group all, one;

    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, 1, &rank, &one);
    MPI_Group_free(&all);
    return one;
}

static void *put_to_next(void *unused)
{
    int next = (mtest_rank + 1) % mtest_size;
    MPI_Group group = group_of(next);

    for (int i = 1; i <= ROUNDS; i++) {
        MPI_Win_start(group, 0, win);
        MPI_Put(&i, 1, MPI_INT, next, 0, 1, MPI_INT, win);
        MPI_Win_complete(win);
    }
    MPI_Group_free(&group);
    return unused;
}

static void *expose_to_previous(void *unused)
{
    MPI_Group group = group_of((mtest_rank + mtest_size - 1) % mtest_size);

    for (int i = 1; i <= ROUNDS; i++) {
        MPI_Win_post(group, 0, win);
        MPI_Win_wait(win);
        n_wrong[0] += memory[0] != i;
    }
    MPI_Group_free(&group);
    return unused;
}

/* ---- Locks ---- */

/* Adds to a number at the thread's target, which all ranks do at that place: the lock makes it atomic. */
static void *lock_target(void *arg)
{
    int thread = (int)(intptr_t)arg, target = (mtest_rank + thread) % mtest_size, value;

    for (int i = 0; i < ROUNDS; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
        MPI_Get(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win);
        MPI_Win_flush(target, win);
        value++;
        MPI_Put(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win);
        MPI_Win_unlock(target, win);
    }
    return NULL;
}

static void run(int num_threads, void *(*functions[])(void *))
{
    pthread_t threads[LOCKS];

    for (int i = 0; i < num_threads; i++)
        pthread_create(&threads[i], NULL, functions[i], (void *)(intptr_t)i);
    for (int i = 0; i < num_threads; i++)
        pthread_join(threads[i], NULL);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int provided, num_locks;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mtest_learn_world(2);
    num_locks = mtest_size < LOCKS ? mtest_size : LOCKS;
    MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    run(2, (void *(*[])(void *)){put_to_next, expose_to_previous});
    memory[0] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    run(num_locks, (void *(*[])(void *)){lock_target, lock_target, lock_target});
    MTEST_CHECK(n_wrong[0] == 0, "%d of the values that were put are wrong", n_wrong[0]);
    MTEST_CHECK(memory[0] == num_locks * ROUNDS, "%d additions, not %d", memory[0], num_locks * ROUNDS);
    MPI_Win_free(&win);
    return mtest_end();
}
