/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Locks that ranks must get: an exclusive one beside ranks that lock all targets again and again, and beside ranks that do
 * so with a shared lock while they hold another lock; locks of all targets beside ranks that hold one lock and ask for another,
 * exclusive one, in either order, once and for ever; a shared one that a rank takes many times in front of a waiter, because a holder waits
 * for the rank's other lock; one in front of a waiter for a lock of all, because a holder waits for the rank's lock of another window;
 * and any lock beside epochs with MPI_MODE_NOCHECK, which hold none.
 *
 * usage: rma_lock_progress [created]
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

/* Until the epoch ends; it has fewer stores than there are values. */
static void store(int target, int cell, long value)
{
    static long values[64];
    static unsigned n;
    long *kept = &values[n++ % 64];

    *kept = value;
    MTEST_OK(MPI_Put(kept, 1, MPI_LONG, target, cell, 1, MPI_LONG, win));
}

/* Rank 0 asks once the others poll, and sets a cell that ends them. */
static void set_under_lock(int cell)
{
    for (int rank = 1; rank < mtest_size - 1; rank++)
        MPI_Recv(NULL, 0, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    store(0, cell, 1);
    MTEST_OK(MPI_Win_unlock(0, win));
}

/* Says that this rank polls; until then it holds no lock. */
static void say_once(int *has_said)
{
    if (!*has_said)
        MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD);
    *has_said = 1;
}

static void check_beside_lock_all(void)
{
    long is_over = 0;
    int has_said = 0;

    if (mtest_rank == 0)
        set_under_lock(0);
    else if (mtest_rank < mtest_size - 1)
        while (!is_over) {
            MTEST_OK(MPI_Win_lock_all(0, win));
            for (int i = 0; i < 20; i++)
                is_over = load(0, 0);
            say_once(&has_said);
            MTEST_OK(MPI_Win_unlock_all(win));
        }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check_beside_holders(void)
{
    long is_over = 0;
    int has_said = 0, last = mtest_size - 1;

    if (mtest_rank == 0) {
        set_under_lock(1);
    } else if (mtest_rank < last) {
        MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, last, 0, win));
        while (!is_over) {
            MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
            for (int i = 0; i < 20; i++)
                is_over = load(0, 1);
            say_once(&has_said);
            MTEST_OK(MPI_Win_unlock(0, win));
        }
        MTEST_OK(MPI_Win_unlock(last, win));
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The rank holds the first target's lock and asks for the second one's, while all others lock all. */
static void check_two_locks(int first, int second)
{
    for (int round = 0; round < 50; round++) {
        if (mtest_rank == first) {
            MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, first, 0, win));
            store(first, 2, load(first, 2) + 1);
            MTEST_OK(MPI_Win_flush(first, win));
            for (int rank = 0; rank < mtest_size; rank++)
                if (rank != first)
                    MPI_Send(NULL, 0, MPI_INT, rank, 0, MPI_COMM_WORLD);
            for (int i = 0; i < round; i++) /* another moment in every round */
                load(first, 2);
            MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, second, 0, win));
            store(second, 2, load(second, 2) + 1);
            MTEST_OK(MPI_Win_unlock(second, win));
            MTEST_OK(MPI_Win_unlock(first, win));
        } else {
            MPI_Recv(NULL, 0, MPI_INT, first, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MTEST_OK(MPI_Win_lock_all(0, win));
            MTEST_CHECK(load(first, 2) == load(second, 2), "a rank writes in spite of a lock of all");
            MTEST_OK(MPI_Win_unlock_all(win));
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* Rank 0 ends the others when it has locked all 100 times. The odd ranks hold the last target's lock and ask for the first
 * one's. */
static void check_all_beside_two_locks(int lock_type, int cell)
{
    long is_over = 0;
    int last = mtest_size - 1;

    for (int i = 0; !is_over; i++)
        if (mtest_rank % 2 == 0) {
            MTEST_OK(MPI_Win_lock_all(0, win));
            is_over = mtest_rank == 0 ? i == 100 : load(0, cell);
            MTEST_OK(MPI_Win_unlock_all(win));
        } else {
            MTEST_OK(MPI_Win_lock(lock_type, last, 0, win));
            MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
            is_over = load(0, cell);
            MTEST_OK(MPI_Win_unlock(0, win));
            MTEST_OK(MPI_Win_unlock(last, win));
        }
    if (mtest_rank == 0) {
        MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        store(0, cell, 1);
        MTEST_OK(MPI_Win_unlock(0, win));
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 0 holds `one` and passes rank 2, which waits for the target `two`, again and again: rank 1, the holder of `two`, waits
 * for `one`. */
static void check_many_passes(int one, int two)
{
    if (mtest_rank == 0) {
        MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, one, 0, win));
        MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_INT, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 25; i++) {
            MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, two, 0, win));
            MTEST_OK(MPI_Win_unlock(two, win));
        }
        MTEST_OK(MPI_Win_unlock(one, win));
    } else if (mtest_rank == 1) {
        MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, two, 0, win));
        MPI_Send(NULL, 0, MPI_INT, 2, 0, MPI_COMM_WORLD);
        MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, one, 0, win));
        MTEST_OK(MPI_Win_unlock(one, win));
        MTEST_OK(MPI_Win_unlock(two, win));
    } else if (mtest_rank == 2) {
        MPI_Recv(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD);
        MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, two, 0, win));
        MTEST_OK(MPI_Win_unlock(two, win));
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 0 holds a lock of the other window, for which the last rank waits with a lock of this window, for which rank 1 waits. */
static void check_two_windows(void)
{
    MPI_Win other;
    long *memory;
    int last = mtest_size - 1;

    MTEST_OK(mrma_window(sizeof(long), sizeof(long), &memory, &other));
    for (int round = 0; round < 50 && mtest_size > 2; round++) {
        if (mtest_rank == 0)
            MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, other));
        else if (mtest_rank == last)
            MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, last, 0, win));
        MPI_Barrier(MPI_COMM_WORLD);
        if (mtest_rank == 0) {
            for (int i = 0; i < round; i++) /* another moment in every round */
                MTEST_OK(MPI_Win_sync(other));
            MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win));
            MTEST_OK(MPI_Win_unlock(1, win));
            MTEST_OK(MPI_Win_unlock(0, other));
        } else if (mtest_rank == last) {
            MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, other));
            MTEST_OK(MPI_Win_unlock(0, other));
            MTEST_OK(MPI_Win_unlock(last, win));
        } else if (mtest_rank == 1) {
            MTEST_OK(MPI_Win_lock_all(0, win));
            MTEST_OK(MPI_Win_unlock_all(win));
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MTEST_OK(mrma_free(memory, &other));
}

/* Rank 0's epochs end when another rank has had an exclusive lock on the same target, and has set the cell. */
static void check_nocheck(int target, int cell)
{
    for (int kind = 0; kind < 3; kind++) {
        if (mtest_rank == 0) {
            if (kind == 0)
                MTEST_OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
            else
                MTEST_OK(MPI_Win_lock(kind == 1 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target,
                                      MPI_MODE_NOCHECK, win));
            MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD);
            while (load(target, cell) != kind + 1)
                MTEST_OK(MPI_Win_sync(win));
            MTEST_OK(kind == 0 ? MPI_Win_unlock_all(win) : MPI_Win_unlock(target, win));
        } else if (mtest_rank == 1) {
            MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
            store(target, cell, kind + 1);
            MTEST_OK(MPI_Win_unlock(target, win));
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    mrma_init(&argc, argv);
    MTEST_OK(mrma_window(7 * sizeof(long), sizeof(long), &window, &win));
    memset(window, 0, 7 * sizeof(long));
    MPI_Barrier(MPI_COMM_WORLD);
    check_two_windows();
    check_nocheck(0, 3);
    check_nocheck(mtest_size - 1, 4);
    check_two_locks(0, mtest_size - 1);
    check_two_locks(mtest_size - 1, 0);
    if (mtest_size >= 4) {
        check_many_passes(0, mtest_size - 1);
        check_many_passes(mtest_size - 1, 0);
    }
    check_all_beside_two_locks(MPI_LOCK_EXCLUSIVE, 5);
    check_all_beside_two_locks(MPI_LOCK_SHARED, 6);
    check_beside_lock_all();
    check_beside_holders();
    MTEST_OK(mrma_free(window, &win));
    return mtest_end();
}
