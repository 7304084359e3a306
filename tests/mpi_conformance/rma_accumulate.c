/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Accumulates: every predefined operation on every type that it allows has the same result as
 * MPI_Reduce_local; accumulates of many ranks on the same elements lose nothing, with any mix of operations;
 * accumulates of one rank happen in order; compare and swap can build a lock and a counter.
 */
#include "mrma.h"

static MPI_Op const ops[] = {MPI_SUM, MPI_PROD, MPI_MIN,  MPI_MAX, MPI_BAND,
                             MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
static MPI_Datatype const integers[] = {
    MPI_SIGNED_CHAR,    MPI_SHORT,    MPI_INT,           MPI_LONG,    MPI_UNSIGNED_CHAR,
    MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_INT64_T, MPI_UINT8_T};
static MPI_Datatype const reals[] = {MPI_FLOAT, MPI_DOUBLE};

static void check_pair(MPI_Datatype type, MPI_Op op, char *window, MPI_Win win)
{
    enum { N = 9 };
    union {
        char bytes[256];
        double aligned;
    } mine, expected, old;
    int size;

    MPI_Type_size(type, &size);
    memset(&old, 0, sizeof old);
    if (type == MPI_FLOAT || type == MPI_DOUBLE) {
        for (int i = 0; i < N; i++) {
            float f = (float)(i + 1), g = (float)(5 - i);
            double d = i + 1, e = 5 - i;
            memcpy(mine.bytes + i * size, size == 4 ? (void *)&f : (void *)&d, (size_t)size);
            memcpy(expected.bytes + i * size, size == 4 ? (void *)&g : (void *)&e, (size_t)size);
        }
    } else {
        mtest_fill(mine.bytes, sizeof mine, (unsigned)mtest_rank);
        mtest_fill(expected.bytes, sizeof expected, 77);
    }
    memcpy(window, expected.bytes, (size_t)(N * size));
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, mtest_rank, 0, win));
    MTEST_OK(MPI_Get_accumulate(mine.bytes, N, type, old.bytes, N, type, mtest_rank, 0, N, type, op, win));
    MTEST_OK(MPI_Win_unlock(mtest_rank, win));
    MTEST_CHECK(memcmp(old.bytes, expected.bytes, (size_t)(N * size)) == 0, "the data before is wrong");
    MTEST_OK(MPI_Reduce_local(mine.bytes, expected.bytes, N, type, op));
    MTEST_CHECK(memcmp(window, expected.bytes, (size_t)(N * size)) == 0,
                "the result is not MPI_Reduce_local's");
    MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, mtest_rank, 0, win));
    MTEST_OK(MPI_Fetch_and_op(mine.bytes, old.bytes, type, mtest_rank, 0, op, win));
    MTEST_OK(MPI_Win_flush(mtest_rank, win));
    MTEST_CHECK(memcmp(old.bytes, expected.bytes, (size_t)size) == 0, "MPI_Fetch_and_op gives another value");
    MTEST_OK(MPI_Reduce_local(mine.bytes, expected.bytes, 1, type, op));
    MTEST_OK(MPI_Win_unlock(mtest_rank, win));
    MTEST_CHECK(memcmp(window, expected.bytes, (size_t)size) == 0, "MPI_Fetch_and_op leaves another value");
}

static void check_operations(void)
{
    char *window;
    MPI_Win win;

    MTEST_OK(mrma_window(256, 1, &window, &win));
    for (size_t t = 0; t < sizeof integers / sizeof integers[0]; t++)
        for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++)
            check_pair(integers[t], ops[o], window, win);
    for (size_t t = 0; t < sizeof reals / sizeof reals[0]; t++)
        for (size_t o = 0; o < 4; o++)
            check_pair(reals[t], ops[o], window, win);
    MTEST_OK(mrma_free(window, &win));
}

/* All ranks add to the same cells of all ranks, in single calls, in large ones and with fetches, under shared
 * locks. */
static void check_many(int rounds)
{
    enum { CELLS = 5000 };
    long *window, *ones = mtest_alloc(CELLS * sizeof *ones), one = 1, old;
    int n_targets = mtest_size < 8 ? mtest_size : 8;
    MPI_Win win;

    for (int i = 0; i < CELLS; i++)
        ones[i] = 1;
    MTEST_OK(mrma_window(CELLS * (MPI_Aint)sizeof(long), sizeof(long), &window, &win));
    memset(window, 0, CELLS * sizeof(long));
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_lock_all(0, win));
    for (int round = 0; round < rounds; round++)
        for (int t = 0; t < n_targets; t++) {
            int target = (t + mtest_rank) % n_targets;
            MTEST_OK(MPI_Accumulate(ones, CELLS, MPI_LONG, target, 0, CELLS, MPI_LONG, MPI_SUM, win));
            MTEST_OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, target, round % CELLS, MPI_SUM, win));
            MTEST_OK(MPI_Accumulate(&one, 1, MPI_LONG, target, CELLS - 1, 1, MPI_LONG, MPI_SUM, win));
            MTEST_OK(MPI_Win_flush(target, win));
            MTEST_CHECK(old >= round, "a fetched sum is %ld after %d rounds", old, round);
        }
    MTEST_OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; mtest_rank < n_targets && i < CELLS; i++) {
        long expected = (long)mtest_size * rounds + (i < rounds ? mtest_size : 0) +
                        (i == CELLS - 1 ? (long)mtest_size * rounds : 0);
        MTEST_CHECK(window[i] == expected, "cell %d is %ld, not %ld", i, window[i], expected);
    }
    MTEST_OK(mrma_free(window, &win));
    free(ones);
}

/* Accumulates of one origin on one place: the last one wins, and each sees the one before. */
static void check_order(void)
{
    enum { N = 40 };
    long *window, values[N], old[N];
    int target = (mtest_rank + 1) % mtest_size;
    MPI_Win win;

    MTEST_OK(mrma_window(mtest_size * (MPI_Aint)sizeof(long), sizeof(long), &window, &win));
    for (int i = 0; i < mtest_size; i++)
        window[i] = -1;
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win));
    for (int i = 0; i < N; i++) {
        values[i] = i;
        MTEST_OK(MPI_Get_accumulate(&values[i], 1, MPI_LONG, &old[i], 1, MPI_LONG, target, mtest_rank, 1,
                                    MPI_LONG, MPI_REPLACE, win));
    }
    MTEST_OK(MPI_Win_unlock(target, win));
    for (int i = 0; i < N; i++)
        MTEST_CHECK(old[i] == i - 1, "replacement %d saw %ld", i, old[i]);
    MTEST_OK(mrma_free(window, &win));
}

/* A lock out of compare and swap: the counter that it guards loses nothing. */
static void check_spin_lock(int rounds)
{
    int *window, unlocked = 0, locked = 1, old, value;
    MPI_Win win;

    MTEST_OK(mrma_window(2 * sizeof(int), sizeof(int), &window, &win));
    window[0] = window[1] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_lock_all(0, win));
    for (int round = 0; round < rounds; round++) {
        do {
            MTEST_OK(MPI_Compare_and_swap(&locked, &unlocked, &old, MPI_INT, 0, 0, win));
            MTEST_OK(MPI_Win_flush(0, win));
        } while (old != unlocked);
        MTEST_OK(MPI_Get(&value, 1, MPI_INT, 0, 1, 1, MPI_INT, win));
        MTEST_OK(MPI_Win_flush(0, win));
        value++;
        MTEST_OK(MPI_Put(&value, 1, MPI_INT, 0, 1, 1, MPI_INT, win));
        MTEST_OK(MPI_Win_flush(0, win));
        MTEST_OK(MPI_Accumulate(&unlocked, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_REPLACE, win));
        MTEST_OK(MPI_Win_flush(0, win));
    }
    MTEST_OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_CHECK(mtest_rank != 0 || window[1] == rounds * mtest_size, "the counter is %d, not %d", window[1],
                rounds * mtest_size);
    MTEST_OK(mrma_free(window, &win));
}

int main(int argc, char **argv)
{
    int is_crowd;
    mtest_init(&argc, &argv, 1);
    mrma_init(&argc, argv);
    is_crowd = mtest_size > 100;
    if (!is_crowd)
        check_operations();
    check_many(is_crowd ? 2 : 20);
    check_order();
    check_spin_lock(is_crowd ? 1 : 10);
    return mtest_end();
}
