/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Barriers, mutexes, read-write and spin locks, semaphores and condition variables of the C library in a shared window: a rank that
 * waits for one lets the others run, and the objects keep their meaning over calls of MPI. Argument "threads": the ranks also
 * have other threads, which wait for nothing.
 */
#include "mtest.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

#define ROUNDS 3

struct objects {
    pthread_barrier_t barrier;
    pthread_mutex_t mutex;
    pthread_rwlock_t lock;
    pthread_cond_t changed;
    sem_t semaphore;
    pthread_spinlock_t spin;
    int turn;  /* guarded by mutex */
    int n_sum; /* guarded by lock and spin */
};

static void create(struct objects *objects, unsigned n_ranks)
{
    pthread_barrierattr_t barrier;
    pthread_mutexattr_t mutex;
    pthread_rwlockattr_t lock;
    pthread_condattr_t condition;

    memset(objects, 0, sizeof *objects);
    pthread_barrierattr_init(&barrier);
    pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&objects->barrier, &barrier, n_ranks);
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&objects->mutex, &mutex);
    pthread_rwlockattr_init(&lock);
    pthread_rwlockattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
    pthread_rwlock_init(&objects->lock, &lock);
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&objects->changed, &condition);
    sem_init(&objects->semaphore, 1, 0);
    pthread_spin_init(&objects->spin, PTHREAD_PROCESS_SHARED);
}

/* Lets other ranks run. */
static void call_mpi(void)
{
    int flag;

    for (int i = 0; i < 3; i++)
        MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
}

/* Each rank in turn, the last one first. */
static void take_turns(struct objects *objects)
{
    pthread_mutex_lock(&objects->mutex);
    while (objects->turn != mtest_size - 1 - mtest_rank)
        MTEST_CHECK(pthread_cond_wait(&objects->changed, &objects->mutex) == 0, "pthread_cond_wait failed");
    call_mpi();
    MTEST_CHECK(objects->turn == mtest_size - 1 - mtest_rank, "the turn changed to %d", objects->turn);
    objects->turn++;
    pthread_cond_broadcast(&objects->changed);
    pthread_mutex_unlock(&objects->mutex);
}

static void add_one(int *n_sum)
{
    int before = *n_sum;

    call_mpi();
    *n_sum = before + 1;
}

static void add(struct objects *objects)
{
    pthread_rwlock_wrlock(&objects->lock);
    add_one(&objects->n_sum);
    pthread_rwlock_unlock(&objects->lock);
    pthread_barrier_wait(&objects->barrier);
    pthread_spin_lock(&objects->spin);
    add_one(&objects->n_sum);
    pthread_spin_unlock(&objects->spin);
}

static void wait_for_semaphore(struct objects *objects)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 1000;
    if (mtest_rank == 0)
        for (int i = 1; i < mtest_size; i++)
            MTEST_CHECK((i % 2 ? sem_wait(&objects->semaphore) : sem_timedwait(&objects->semaphore, &end)) ==
                            0,
                        "sem_wait failed");
    else
        sem_post(&objects->semaphore);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *wait_at_gate(void *arg)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return arg;
}

int main(int argc, char **argv)
{
    int has_thread = argc > 1 && strcmp(argv[1], "threads") == 0, unit, n_serial = 0, n_serial_all;
    struct objects *objects;
    pthread_t thread;
    MPI_Aint size;
    MPI_Win win;

    mtest_init(&argc, &argv, 1);
    pthread_mutex_lock(&gate);
    MTEST_CHECK(!has_thread || pthread_create(&thread, NULL, wait_at_gate, NULL) == 0,
                "pthread_create failed");
    MTEST_OK(MPI_Win_allocate_shared(mtest_rank == 0 ? (MPI_Aint)sizeof *objects : 0, 1, MPI_INFO_NULL,
                                     MPI_COMM_WORLD, &objects, &win));
    MTEST_OK(MPI_Win_shared_query(win, 0, &size, &unit, &objects));
    if (mtest_rank == 0)
        create(objects, (unsigned)mtest_size);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int round = 1; round <= ROUNDS; round++) {
        n_serial += pthread_barrier_wait(&objects->barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
        objects->turn = 0;
        pthread_barrier_wait(&objects->barrier);
        take_turns(objects);
        add(objects);
        wait_for_semaphore(objects);
        pthread_barrier_wait(&objects->barrier);
        pthread_rwlock_rdlock(&objects->lock);
        MTEST_CHECK(objects->n_sum == 2 * round * mtest_size, "%d of %d additions", objects->n_sum,
                    2 * round * mtest_size);
        pthread_rwlock_unlock(&objects->lock);
    }
    MTEST_OK(MPI_Allreduce(&n_serial, &n_serial_all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MTEST_CHECK(n_serial_all == ROUNDS, "%d ranks were told that they are the barrier's", n_serial_all);
    pthread_mutex_unlock(&gate);
    MTEST_CHECK(!has_thread || pthread_join(thread, NULL) == 0, "pthread_join failed");
    MTEST_OK(MPI_Win_free(&win));
    return mtest_end();
}
