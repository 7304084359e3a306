/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Accumulates of large data, which may take another way than small data: the result is that of MPI_Reduce_local for
 * elements of any size; those of all ranks on the same elements lose nothing, also beside fetches of single elements;
 * those of one rank happen in order.
 */
#include "mrma.h"

enum { N_ADDED = 300001, N_ORDERED = 20001, ROUNDS = 3 };

/* On the next rank, whose memory is `window`. */
static void check_one(MPI_Datatype type, MPI_Op op, int n, char *window, MPI_Win win)
{
    int next = (mtest_rank + 1) % mtest_size, before = (mtest_rank + mtest_size - 1) % mtest_size;
    MPI_Aint lb, extent;
    MPI_Request request;
    size_t n_bytes;
    char *mine, *expected, *others;

    MPI_Type_get_extent(type, &lb, &extent);
    n_bytes = (size_t)n * (size_t)extent;
    mine = mtest_alloc(n_bytes);
    others = mtest_alloc(n_bytes);
    expected = mtest_alloc(n_bytes);
    for (size_t i = 0; i < n_bytes; i++) { /* small numbers of all types */
        mine[i] = (char)(i % 7 + (size_t)mtest_rank % 5);
        others[i] = (char)(i % 7 + (size_t)before % 5);
        window[i] = expected[i] = (char)(i % 5);
    }
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Accumulate(mine, n, type, next, 0, n, type, op, win));
    MTEST_OK(MPI_Win_fence(0, win));
    if (op == MPI_REPLACE)
        memcpy(expected, others, n_bytes);
    else
        MTEST_OK(MPI_Reduce_local(others, expected, n, type, op));
    MTEST_CHECK(memcmp(window, expected, n_bytes) == 0, "%d elements of %ld bytes", n, (long)extent);
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win));
    MTEST_OK(MPI_Raccumulate(mine, n, type, next, 0, n, type, op, win, &request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    memset(mine, 0, n_bytes); /* it is the program's again */
    MTEST_OK(MPI_Win_unlock(next, win));
    MPI_Barrier(MPI_COMM_WORLD);
    if (op != MPI_REPLACE)
        MTEST_OK(MPI_Reduce_local(others, expected, n, type, op));
    MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, mtest_rank, 0, win));
    MTEST_CHECK(memcmp(window, expected, n_bytes) == 0, "MPI_Raccumulate: %d elements of %ld bytes", n,
                (long)extent);
    MTEST_OK(MPI_Win_unlock(mtest_rank, win));
    free(mine);
    free(others);
    free(expected);
}

static void check_results(void)
{
    static const int counts[] = {4096, 40001, 131073};
    char *window;
    MPI_Win win;

    MTEST_OK(mrma_window(131073 * 16, 1, &window, &win));
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        check_one(MPI_SIGNED_CHAR, MPI_SUM, counts[i], window, win);
        check_one(MPI_SHORT, MPI_MAX, counts[i], window, win);
        check_one(MPI_UNSIGNED, MPI_BXOR, counts[i], window, win);
        check_one(MPI_DOUBLE, MPI_SUM, counts[i], window, win);
        check_one(MPI_2INT, MPI_MINLOC, counts[i], window, win);
        check_one(MPI_LONG, MPI_REPLACE, counts[i], window, win);
    }
    MTEST_OK(mrma_free(window, &win));
}

/* All ranks add to the same elements of rank 0, and count in some of them. */
static void check_sums(void)
{
    long *window, *mine = mtest_alloc(N_ADDED * sizeof *mine), one = 1, old;
    MPI_Win win;

    MTEST_OK(mrma_window(N_ADDED * sizeof *window, sizeof *window, &window, &win));
    memset(window, 0, N_ADDED * sizeof *window);
    for (int i = 0; i < N_ADDED; i++)
        mine[i] = i + mtest_rank;
    MTEST_OK(MPI_Win_fence(0, win));
    for (int round = 0; round < ROUNDS; round++) {
        MTEST_OK(MPI_Accumulate(mine, N_ADDED, MPI_LONG, 0, 0, N_ADDED, MPI_LONG, MPI_SUM, win));
        for (int i = 0; i < 20; i++)
            MTEST_OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, i * 13999, MPI_SUM, win));
    }
    MTEST_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < N_ADDED && mtest_rank == 0; i++) {
        long sum = ROUNDS * ((long)i * mtest_size + (long)mtest_size * (mtest_size - 1) / 2);
        sum += i % 13999 == 0 && i / 13999 < 20 ? (long)ROUNDS * mtest_size : 0;
        MTEST_CHECK(window[i] == sum, "element %d is %ld, not %ld", i, window[i], sum);
        if (window[i] != sum)
            break;
    }
    MTEST_OK(mrma_free(window, &win));
    free(mine);
}

/* Each rank has its own elements of rank 0: what it replaces and adds happens one after the other. */
static void check_order(void)
{
    long *window, *data = mtest_alloc(4 * N_ORDERED * sizeof *data);
    MPI_Aint n_elems = (MPI_Aint)N_ORDERED * mtest_size, at = (MPI_Aint)N_ORDERED * mtest_rank;
    MPI_Win win;

    MTEST_OK(mrma_window((size_t)n_elems * sizeof *window, sizeof *window, &window, &win));
    for (int i = 0; i < 4 * N_ORDERED; i++)
        data[i] = (i / N_ORDERED + 1) * 1000000L + mtest_rank;
    MTEST_OK(MPI_Win_fence(0, win));
    for (int step = 0; step < 4; step++)
        MTEST_OK(MPI_Accumulate(data + (size_t)step * N_ORDERED, N_ORDERED, MPI_LONG, 0, at, N_ORDERED,
                                MPI_LONG, step % 2 ? MPI_SUM : MPI_REPLACE, win));
    MTEST_OK(MPI_Win_fence(0, win));
    for (MPI_Aint i = 0; i < n_elems && mtest_rank == 0; i++) {
        long expected = 7000000 + 2 * (i / N_ORDERED);
        MTEST_CHECK(window[i] == expected, "element %ld is %ld, not %ld", (long)i, window[i], expected);
        if (window[i] != expected)
            break;
    }
    MTEST_OK(mrma_free(window, &win));
    free(data);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mrma_init(&argc, argv);
    check_results();
    check_sums();
    check_order();
    return mtest_end();
}
