/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Puts and gets of few and of many bytes arrive, whatever the layouts of both sides: every pair of four layouts, with
 * blocks that begin and end in different places, as plain operations and with requests; nothing else is written.
 * Large data may take other ways than little, and one operation may follow another on the same target at once.
 */
#include "mrma.h"

enum { LAYOUTS = 4, WORDS = 99999, ROOM = 2 * WORDS };

static const int sizes[] = {3, 600, 2049, 6144, WORDS};
static long *memory, *buffer;
static MPI_Win win;

/* Where word i of a layout is. */
static long place(int layout, long i)
{
    switch (layout) {
    case 1:
        return 2 * i;
    case 2:
        return i / 3 * 5 + i % 3;
    default:
        return i;
    }
}

/* One element is n words. */
static MPI_Datatype make_type(int layout, int n)
{
    MPI_Datatype type, part;

    if (layout == 1) {
        MPI_Type_vector(n, 1, 2, MPI_LONG, &type);
    } else if (layout == 2) {
        MPI_Type_vector(n / 3, 3, 5, MPI_LONG, &type);
    } else {
        MPI_Type_contiguous(3, MPI_LONG, &part);
        MPI_Type_contiguous(n / 3, part, &type);
        MPI_Type_free(&part);
    }
    MPI_Type_commit(&type);
    return type;
}

static long value(int from, int round, long i)
{
    return (from + 1) * 1000000000L + round * 1000000L + i;
}

static void fill(long *at, int layout, int n, int from, int round)
{
    for (long i = 0; i < ROOM; i++)
        at[i] = -1;
    for (long i = 0; i < n; i++)
        at[place(layout, i)] = value(from, round, i);
}

static void check(const long *at, int layout, int n, int from, int round, const char *what)
{
    long next = 0;

    for (long i = 0; i < ROOM; i++) {
        long expected = next < n && place(layout, next) == i ? value(from, round, next++) : -1;
        MTEST_CHECK(at[i] == expected, "%s, layout %d, %d words, round %d: word %ld is %ld, not %ld", what,
                    layout, n, round, i, at[i], expected);
        if (at[i] != expected)
            return;
    }
}

static void move(int is_put, int target, int own, int other, int n, int has_request)
{
    MPI_Datatype own_type = make_type(own, n), other_type = make_type(other, n);
    MPI_Request request;

    if (has_request) {
        MTEST_OK(is_put ? MPI_Rput(buffer, 1, own_type, target, 0, 1, other_type, win, &request)
                        : MPI_Rget(buffer, 1, own_type, target, 0, 1, other_type, win, &request));
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        MTEST_OK(is_put ? MPI_Put(buffer, 1, own_type, target, 0, 1, other_type, win)
                        : MPI_Get(buffer, 1, own_type, target, 0, 1, other_type, win));
    }
    if (is_put || !has_request)
        MTEST_OK(MPI_Win_flush(target, win));
    MPI_Type_free(&own_type);
    MPI_Type_free(&other_type);
}

static void exchange(int own, int other, int n, int round)
{
    int target = (mtest_rank + 1) % mtest_size, source = (mtest_rank + mtest_size - 1) % mtest_size;

    fill(memory, 0, 0, 0, 0);
    fill(buffer, own, n, mtest_rank, round);
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    move(1, target, own, other, n, round % 2);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    check(memory, other, n, source, round, "put");
    fill(buffer, 0, 0, 0, 0);
    move(0, target, own, other, n, round % 2);
    check(buffer, own, n, mtest_rank, round, "get");
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Many puts without a flush between them, then one flush of each target; little and much data mixed. */
static void put_many(void)
{
    enum { EACH = 512 };
    int n = mtest_size < 16 ? mtest_size : 16;

    for (long i = 0; i < ROOM; i++)
        memory[i] = -1;
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < n; i++) {
        int target = (mtest_rank + i) % mtest_size;
        long at = (long)i * 8 * EACH;
        for (int k = 0; k < 8 * EACH; k++)
            buffer[at + k] = value(mtest_rank, i, k);
        for (int k = 0; k < 7; k++)
            MTEST_OK(MPI_Put(buffer + at + k, 1, MPI_LONG, target, at + k, 1, MPI_LONG, win));
        MTEST_OK(
            MPI_Put(buffer + at + 7, 8 * EACH - 7, MPI_LONG, target, at + 7, 8 * EACH - 7, MPI_LONG, win));
    }
    for (int i = 0; i < n; i++)
        MTEST_OK(MPI_Win_flush((mtest_rank + i) % mtest_size, win));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 8 * EACH; k++)
            MTEST_CHECK(memory[(long)i * 8 * EACH + k] ==
                            value((mtest_rank + mtest_size - i) % mtest_size, i, k),
                        "word %d of the %dth source is %ld", k, i, memory[(long)i * 8 * EACH + k]);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int round = 0;

    mtest_init(&argc, &argv, 1);
    mrma_init(&argc, argv);
    MTEST_OK(mrma_window(ROOM * sizeof(long), sizeof(long), &memory, &win));
    buffer = malloc(ROOM * sizeof(long));
    MTEST_OK(MPI_Win_lock_all(0, win));
    for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++)
        for (int own = 0; own < LAYOUTS; own++)
            for (int other = 0; other < LAYOUTS; other++)
                exchange(own, other, sizes[size], round++);
    put_many();
    MTEST_OK(MPI_Win_unlock_all(win));
    MTEST_OK(mrma_free(memory, &win));
    free(buffer);
    return mtest_end();
}
