/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations with derived types on both sides: holes are unchanged, layouts differ between origin
 * and target, elements are in reverse order, pairs keep their padding, sizes reach several MiB, and empty
 * operations do nothing.
 */
#include "mrma.h"

static int next, previous;

/* A row at the origin becomes a column at the target and back. */
static void check_columns(void)
{
    enum { N = 12 };
    double *window, row[N], back[2 * N];
    MPI_Datatype column, every_other;
    MPI_Win win;

    MPI_Type_vector(N, 1, N, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    MPI_Type_vector(N, 1, 2, MPI_DOUBLE, &every_other);
    MPI_Type_commit(&every_other);
    MTEST_OK(mrma_window(N * N * (MPI_Aint)sizeof(double), sizeof(double), &window, &win));
    for (int i = 0; i < N * N; i++)
        window[i] = -1;
    for (int i = 0; i < N; i++)
        row[i] = mtest_rank * 100 + i;
    for (int i = 0; i < 2 * N; i++)
        back[i] = -2;
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Put(row, N, MPI_DOUBLE, next, 3, 1, column, win));
    MTEST_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < N * N; i++)
        MTEST_CHECK(window[i] == (i % N == 3 ? previous * 100 + i / N : -1), "element %d is %g", i,
                    window[i]);
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Get(back, 1, every_other, next, 3, 1, column, win));
    MTEST_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < 2 * N; i++)
        MTEST_CHECK(back[i] == (i % 2 ? -2 : mtest_rank * 100 + i / 2), "fetched element %d is %g", i,
                    back[i]);
    MTEST_OK(MPI_Accumulate(row, N, MPI_DOUBLE, next, 3, 1, column, MPI_SUM, win));
    MTEST_OK(MPI_Accumulate(row, N, MPI_DOUBLE, next, 4, 1, column, MPI_REPLACE, win));
    MTEST_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < N * N; i++) {
        double expected = i % N == 3   ? 2 * (previous * 100 + i / N)
                          : i % N == 4 ? previous * 100 + i / N
                                       : -1;
        MTEST_CHECK(window[i] == expected, "accumulated element %d is %g", i, window[i]);
    }
    MTEST_OK(mrma_free(window, &win));
    MPI_Type_free(&column);
    MPI_Type_free(&every_other);
}

/* A struct with holes, and one with a negative extent. */
static void check_holes(void)
{
    unsigned char *window, data[64], back[64];
    MPI_Datatype pieces, backwards, base;
    int lengths[3] = {3, 2, 1};
    MPI_Aint at[3] = {1, 8, 13};
    MPI_Datatype types[3] = {MPI_BYTE, MPI_SHORT, MPI_CHAR};
    MPI_Win win;
    int is_data[16] = {0};

    MPI_Type_create_struct(3, lengths, at, types, &base);
    MPI_Type_create_resized(base, 0, 16, &pieces);
    MPI_Type_commit(&pieces);
    MPI_Type_create_hvector(4, 1, -16, pieces, &backwards);
    MPI_Type_commit(&backwards);
    for (int i = 0; i < 3; i++)
        is_data[1 + i] = 1;
    for (int i = 8; i < 12; i++)
        is_data[i] = 1;
    is_data[13] = 1;
    MTEST_OK(mrma_window(64, 1, &window, &win));
    memset(window, 0xee, 64);
    memset(back, 0xdd, sizeof back);
    mtest_fill(data, sizeof data, (unsigned)mtest_rank);
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(
        MPI_Put(data, 4, pieces, next, 48, 1, backwards, win)); /* the first element is the last one there */
    MTEST_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < 64; i++) {
        unsigned char expected =
            is_data[i % 16] ? mtest_byte((size_t)((3 - i / 16) * 16 + i % 16), (unsigned)previous) : 0xee;
        MTEST_CHECK(window[i] == expected, "byte %d is %#x, not %#x", i, window[i], expected);
    }
    MTEST_OK(MPI_Get(back, 4, pieces, next, 48, 1, backwards, win));
    MTEST_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < 64; i++)
        MTEST_CHECK(back[i] == (is_data[i % 16] ? data[i] : 0xdd), "fetched byte %d is %#x", i, back[i]);
    MTEST_OK(mrma_free(window, &win));
    MPI_Type_free(&base);
    MPI_Type_free(&pieces);
    MPI_Type_free(&backwards);
}

/* The padding of pairs is not data, and a derived type of pairs is combined pair by pair. */
static void check_pairs(void)
{
    enum { N = 150 };
    struct {
        double value;
        int index;
    } * window, mine[N];
    MPI_Datatype spread;
    MPI_Win win;

    MPI_Type_vector(N, 1, 2, MPI_DOUBLE_INT, &spread);
    MPI_Type_commit(&spread);
    MTEST_OK(mrma_window(2 * N * (MPI_Aint)sizeof *window, sizeof *window, &window, &win));
    memset(window, 0x55, 2 * N * sizeof *window);
    for (int i = 0; i < 2 * N; i++) {
        window[i].value = -1;
        window[i].index = -1;
    }
    for (int i = 0; i < N; i++) {
        mine[i].value = (mtest_rank * 7 + i) % mtest_size;
        mine[i].index = mtest_rank;
    }
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Accumulate(mine, N, MPI_DOUBLE_INT, 0, 0, 1, spread, MPI_MAXLOC, win));
    MTEST_OK(MPI_Win_fence(0, win));
    for (int i = 0; mtest_rank == 0 && i < N; i++) {
        int best = 0;
        for (int r = 1; r < mtest_size; r++)
            if ((r * 7 + i) % mtest_size > (best * 7 + i) % mtest_size)
                best = r;
        MTEST_CHECK(window[2 * i].value == (best * 7 + i) % mtest_size && window[2 * i].index == best,
                    "pair %d is (%g, %d), not of rank %d", i, window[2 * i].value, window[2 * i].index, best);
        MTEST_CHECK(window[2 * i + 1].value == -1 && window[2 * i + 1].index == -1,
                    "a pair between was written");
    }
    MTEST_OK(mrma_free(window, &win));
    MPI_Type_free(&spread);
}

static void check_nothing(void)
{
    char *window, c = 1, *nothing = NULL;
    MPI_Datatype empty;
    MPI_Win win;

    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    MTEST_OK(mrma_window(1, 1, &window, &win));
    *window = 9;
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Put(nothing, 0, MPI_CHAR, next, 1, 0, MPI_CHAR, win));
    MTEST_OK(MPI_Put(&c, 5, empty, next, 0, 3, empty, win));
    MTEST_OK(MPI_Get(nothing, 0, MPI_CHAR, next, 0, 0, MPI_CHAR, win));
    MTEST_OK(MPI_Accumulate(nothing, 0, MPI_INT, next, 0, 0, MPI_INT, MPI_SUM, win));
    MTEST_OK(
        MPI_Get_accumulate(nothing, 0, MPI_INT, nothing, 0, MPI_INT, next, 0, 0, MPI_INT, MPI_NO_OP, win));
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_CHECK(*window == 9, "nothing was something");
    MTEST_OK(mrma_free(window, &win));
    MPI_Type_free(&empty);
}

/* Up to some MiB, more than any buffer between. */
static void check_large(size_t n)
{
    long *window, *mine = mtest_alloc(n * sizeof *mine), *old = mtest_alloc(n * sizeof *old);
    MPI_Datatype blocks;
    MPI_Win win;
    int half = (int)(n / 2);

    MPI_Type_vector(half, 1, 2, MPI_LONG, &blocks);
    MPI_Type_commit(&blocks);
    MTEST_OK(mrma_window((MPI_Aint)(n * sizeof *window), sizeof *window, &window, &win));
    for (size_t i = 0; i < n; i++) {
        window[i] = (long)i;
        mine[i] = (long)i * 3 + mtest_rank;
    }
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Get_accumulate(mine, (int)n, MPI_LONG, old, (int)n, MPI_LONG, next, 0, (int)n, MPI_LONG,
                                MPI_SUM, win));
    MTEST_OK(MPI_Win_fence(0, win));
    for (size_t i = 0; i < n; i++) {
        MTEST_CHECK(window[i] == (long)i * 4 + previous, "element %zu is %ld", i, window[i]);
        MTEST_CHECK(old[i] == (long)i, "fetched element %zu is %ld", i, old[i]);
    }
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Put(mine, half, MPI_LONG, next, 1, 1, blocks, win));
    MTEST_OK(MPI_Win_fence(0, win));
    for (size_t i = 0; i < n; i++) {
        long expected = i % 2 ? (long)(i / 2) * 3 + previous : (long)i * 4 + previous;
        MTEST_CHECK(window[i] == expected, "element %zu is %ld, not %ld", i, window[i], expected);
    }
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Get(old, half, MPI_LONG, next, 0, 1, blocks, win));
    MTEST_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < half; i++)
        MTEST_CHECK(old[i] == (long)i * 8 + mtest_rank, "fetched element %d is %ld", i, old[i]);
    MTEST_OK(mrma_free(window, &win));
    MPI_Type_free(&blocks);
    free(mine);
    free(old);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mrma_init(&argc, argv);
    next = (mtest_rank + 1) % mtest_size;
    previous = (mtest_rank + mtest_size - 1) % mtest_size;
    check_columns();
    check_holes();
    check_pairs();
    check_nothing();
    check_large(1000);
    check_large((size_t)300 << 10);
    return mtest_end();
}
