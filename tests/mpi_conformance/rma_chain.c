/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The values of one place form a chain, whichever ways their origins take: many ranks replace elements that they all share
 * by values of their own (with fetch and op, get and accumulate of random stretches, compare and swap), mixed with
 * reads that change nothing. Every value is fetched exactly once by the call that replaced it, except the last
 * one, which is left; and a rank fetches values of each other rank in the order in which they were stored.
 *
 * usage: rma_chain [seed [calls]] [created]
 */
#include "mrma.h"

enum { CELLS = 24, STRETCH = 8 };

static uint64_t state;

static unsigned next(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

/* What a rank has stored and fetched: value 1 + call * CELLS + cell of a rank, in the upper half its number. */
struct link {
    int64_t fetched; /* by the call that stored `stored` */
    int64_t stored;
};

static int64_t value_of(int call, int cell)
{
    return ((int64_t)mtest_rank + 1) << 32 | (1 + call * CELLS + cell);
}

static struct link *links; /* [cell][n] */
static int *n_links, n_calls;
static int64_t *newest; /* [cell][rank]: the latest value of the rank that was seen in the cell */

static void see(int cell, int64_t value)
{
    int rank = (int)(value >> 32) - 1;
    int64_t *seen;

    if (value == 0)
        return;
    seen = &newest[(long)cell * mtest_size + rank];
    MTEST_CHECK(value >= *seen, "cell %d: value %lld of rank %d after its value %lld", cell,
                (long long)(value & 0xffffffff), rank, (long long)(*seen & 0xffffffff));
    *seen = value;
}

static void add_link(int cell, int64_t fetched, int64_t stored)
{
    links[(long)cell * n_calls + n_links[cell]++] = (struct link){fetched, stored};
    see(cell, fetched);
    see(cell, stored);
}

static void replace_one(int call, int target, MPI_Win win)
{
    int cell = (int)next(CELLS);
    int64_t mine = value_of(call, cell), got = -1;

    MTEST_OK(MPI_Fetch_and_op(&mine, &got, MPI_INT64_T, target, cell, MPI_REPLACE, win));
    MTEST_OK(MPI_Win_flush(target, win));
    add_link(cell, got, mine);
}

static void replace_stretch(int call, int target, MPI_Win win)
{
    int64_t mine[STRETCH], got[STRETCH];
    int n = 1 + (int)next(STRETCH), first = (int)next((unsigned)(CELLS - n + 1));

    for (int i = 0; i < n; i++)
        mine[i] = value_of(call, first + i);
    MTEST_OK(MPI_Get_accumulate(mine, n, MPI_INT64_T, got, n, MPI_INT64_T, target, first, n, MPI_INT64_T,
                                MPI_REPLACE, win));
    MTEST_OK(MPI_Win_flush(target, win));
    for (int i = 0; i < n; i++)
        add_link(first + i, got[i], mine[i]);
}

/* Looks, and swaps if nobody was quicker. */
static void swap_one(int call, int target, MPI_Win win)
{
    int cell = (int)next(CELLS);
    int64_t mine = value_of(call, cell), compare = -1, got = -1;

    MTEST_OK(MPI_Fetch_and_op(NULL, &compare, MPI_INT64_T, target, cell, MPI_NO_OP, win));
    MTEST_OK(MPI_Win_flush(target, win));
    see(cell, compare);
    MTEST_OK(MPI_Compare_and_swap(&mine, &compare, &got, MPI_INT64_T, target, cell, win));
    MTEST_OK(MPI_Win_flush(target, win));
    if (got == compare)
        add_link(cell, got, mine);
    else
        see(cell, got);
}

static int compare_links(const void *a, const void *b)
{
    int64_t x = ((const struct link *)a)->fetched, y = ((const struct link *)b)->fetched;

    return x < y ? -1 : x > y;
}

/* On rank 0: from 0 on, each value leads to the one that replaced it, and the last one is the cell's. */
static void check_chain(int cell, struct link *all, int n, int64_t last)
{
    int64_t at = 0;
    int n_seen = 0;

    qsort(all, (size_t)n, sizeof *all, compare_links);
    for (int i = 1; i < n; i++)
        MTEST_CHECK(all[i - 1].fetched != all[i].fetched, "cell %d: value %llx was fetched twice", cell,
                    (unsigned long long)all[i].fetched);
    while (n_seen < n) {
        struct link key = {.fetched = at}, *found = bsearch(&key, all, (size_t)n, sizeof *all, compare_links);
        if (!found)
            break;
        at = found->stored;
        n_seen++;
    }
    MTEST_CHECK(n_seen == n && at == last,
                "cell %d: a chain of %d of %d values ends with %llx, the cell has %llx", cell, n_seen, n,
                (unsigned long long)at, (unsigned long long)last);
}

static void check_cell(int cell, int64_t last)
{
    int n = n_links[cell] * 2, *counts = calloc((size_t)mtest_size, sizeof *counts);
    int *displs = calloc((size_t)mtest_size, sizeof *displs), total = 0;
    struct link *all = NULL;

    MPI_Gather(&n, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < mtest_size && mtest_rank == 0; i++) {
        displs[i] = total;
        total += counts[i];
    }
    if (mtest_rank == 0)
        all = malloc(((size_t)total + 2) * sizeof(int64_t));
    MPI_Gatherv(&links[(long)cell * n_calls], n, MPI_INT64_T, all, counts, displs, MPI_INT64_T, 0,
                MPI_COMM_WORLD);
    if (mtest_rank == 0)
        check_chain(cell, all, total / 2, last);
    free(all);
    free(displs);
    free(counts);
}

int main(int argc, char **argv)
{
    int64_t *cells, last[CELLS];
    int target;
    MPI_Win win;

    mtest_init(&argc, &argv, 1);
    mrma_init(&argc, argv);
    state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    n_calls = argc > 2 ? atoi(argv[2]) : 300;
    target = (int)next((unsigned)mtest_size); /* the same at all ranks */
    state += (uint64_t)mtest_rank * 7919;
    links = calloc((size_t)CELLS * (size_t)n_calls, sizeof *links);
    n_links = calloc(CELLS, sizeof *n_links);
    newest = calloc((size_t)CELLS * (size_t)mtest_size, sizeof *newest);
    MTEST_OK(mrma_window(CELLS * (MPI_Aint)sizeof(int64_t), sizeof(int64_t), &cells, &win));
    memset(cells, 0, CELLS * sizeof(int64_t));
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_lock_all(0, win));
    for (int call = 0; call < n_calls; call++)
        switch (next(3)) {
        case 0:
            replace_one(call, target, win);
            break;
        case 1:
            replace_stretch(call, target, win);
            break;
        default:
            swap_one(call, target, win);
        }
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Get(last, CELLS, MPI_INT64_T, target, 0, CELLS, MPI_INT64_T, win));
    MTEST_OK(MPI_Win_unlock_all(win));
    for (int cell = 0; cell < CELLS; cell++)
        check_cell(cell, last[cell]);
    MTEST_OK(mrma_free(cells, &win));
    free(newest);
    free(n_links);
    free(links);
    return mtest_end();
}
