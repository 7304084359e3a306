/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Passive target locks: exclusive ones exclude all others, shared ones only exclusive ones, those of all
 * targets together do not deadlock with single ones, a rank in the queue gets its turn although others
 * request the lock repeatedly, and no lock blocks ranks that do not wait for it.
 */
#include "mrma.h"

static long *window;
static MPI_Win win;

static long load(int target, int cell)
{
    long value;
    MTEST_OK(MPI_Get(&value, 1, MPI_LONG, target, cell, 1, MPI_LONG, win));
    MTEST_OK(MPI_Win_flush(target, win));
    return value;
}

static void store(int target, int cell, long value)
{
    MTEST_OK(MPI_Put(&value, 1, MPI_LONG, target, cell, 1, MPI_LONG, win));
    MTEST_OK(MPI_Win_flush(target, win));
}

/* Cells 0 and 1 are always equal outside of exclusive locks. */
static void check_exclusion(int rounds)
{
    uint64_t state = (uint64_t)mtest_rank + 1;
    int n_writes = 0, all;

    for (int round = 0; round < rounds; round++) {
        int target = (int)(mtest_random(&state) % 2) % mtest_size;
        switch (mtest_random(&state) % 3) {
        case 0: {
            long value;
            MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
            value = load(target, 0);
            store(target, 0, value + 1);
            MTEST_CHECK(load(target, 1) == value, "another rank writes, too");
            store(target, 1, value + 1);
            MTEST_OK(MPI_Win_unlock(target, win));
            n_writes++;
            break;
        }
        case 1:
            MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win));
            MTEST_CHECK(load(target, 0) == load(target, 1), "a rank writes in spite of a shared lock");
            MTEST_OK(MPI_Win_unlock(target, win));
            break;
        default:
            MTEST_OK(MPI_Win_lock_all(0, win));
            MTEST_CHECK(load(target, 0) == load(target, 1), "a rank writes in spite of a lock of all");
            MTEST_OK(MPI_Win_unlock_all(win));
            break;
        }
    }
    MPI_Allreduce(&n_writes, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_lock_all(0, win));
    MTEST_CHECK(load(0, 0) + (mtest_size > 1 ? load(1, 0) : 0) == all, "a write was lost");
    MTEST_OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
}

/* All others lock and unlock until rank 0, which asks once in between, has had the lock. */
static void check_fairness(void)
{
    int target = mtest_size - 1;

    if (mtest_rank == 0) {
        MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
        store(target, 2, 1);
        MTEST_OK(MPI_Win_unlock(target, win));
    } else {
        long is_over = 0;
        while (!is_over) {
            MTEST_OK(MPI_Win_lock(mtest_rank % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, win));
            is_over = load(target, 2);
            MTEST_OK(MPI_Win_unlock(target, win));
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 0 holds a lock until a message of a rank that does not want it. */
static void check_others_run(void)
{
    if (mtest_size < 3)
        return;
    if (mtest_rank == 0) {
        MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_INT, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MTEST_OK(MPI_Win_unlock(0, win));
    } else if (mtest_rank == 1) {
        MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_INT, 2, 0, MPI_COMM_WORLD);
        MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        MTEST_OK(MPI_Win_unlock(0, win));
    } else if (mtest_rank == 2) {
        MPI_Recv(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win));
        MTEST_OK(MPI_Win_unlock(1, win));
        MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Several targets at once, each rank in the same order. */
static void check_several(void)
{
    int n = mtest_size < 4 ? mtest_size : 4;
    long one = 1;

    for (int round = 0; round < 10; round++) {
        for (int t = 0; t < n; t++)
            MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, t, 0, win));
        for (int t = 0; t < n; t++) {
            long value = load(t, 3);
            store(t, 3, value + one);
        }
        for (int t = 0; t < n; t++)
            MTEST_OK(MPI_Win_unlock(t, win));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    MTEST_CHECK(load(0, 3) == 10L * mtest_size, "%ld of %ld additions", load(0, 3), 10L * mtest_size);
    MTEST_OK(MPI_Win_unlock(0, win));
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mrma_init(&argc, argv);
    MTEST_OK(mrma_window(4 * sizeof(long), sizeof(long), &window, &win));
    memset(window, 0, 4 * sizeof(long));
    MPI_Barrier(MPI_COMM_WORLD);
    check_exclusion(mtest_size > 100 ? 3 : 100);
    if (mtest_size > 1)
        check_fairness();
    check_others_run();
    check_several();
    MTEST_OK(mrma_free(window, &win));
    return mtest_end();
}
