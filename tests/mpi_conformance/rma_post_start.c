/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Post, start, complete, wait: between neighbors on a ring, between random groups that follow each other
 * without any other synchronisation, with MPI_Win_test, and with empty groups. A rank may be origin and
 * target at once.
 */
#include "mrma.h"

static int *window;
static MPI_Win win;
static MPI_Group all;

static MPI_Group group_of(const int *ranks, int n)
{
    MPI_Group group;
    MPI_Group_incl(all, n, ranks, &group);
    return group;
}

static void check_ring(void)
{
    int next = (mtest_rank + 1) % mtest_size, previous = (mtest_rank + mtest_size - 1) % mtest_size;
    MPI_Group targets = group_of(&next, 1), origins = group_of(&previous, 1);

    for (int round = 0; round < 30; round++) {
        int value = mtest_rank * 1000 + round, flag = 0;
        MTEST_OK(MPI_Win_post(origins, round % 3 ? 0 : MPI_MODE_NOSTORE, win));
        MTEST_OK(MPI_Win_start(targets, 0, win));
        MTEST_OK(MPI_Put(&value, 1, MPI_INT, next, mtest_rank, 1, MPI_INT, win));
        MTEST_OK(MPI_Win_complete(win));
        value = -1; /* the buffer is the program's again */
        if (round % 2)
            MTEST_OK(MPI_Win_wait(win));
        while (round % 2 == 0 && !flag)
            MTEST_OK(MPI_Win_test(win, &flag));
        MTEST_CHECK(window[previous] == previous * 1000 + round, "round %d: %d", round, window[previous]);
    }
    MPI_Group_free(&targets);
    MPI_Group_free(&origins);
}

/* Does rank `origin` write to rank `target` in this round? The same answer everywhere. */
static int writes(int origin, int target, int round)
{
    uint64_t state = (uint64_t)origin * 1000003u + (uint64_t)target * 7919u + (uint64_t)round * 104729u;
    mtest_random(&state);
    return mtest_random(&state) % 3 == 0;
}

static void check_random(void)
{
    int *targets = mtest_alloc((size_t)mtest_size * sizeof *targets);
    int *origins = mtest_alloc((size_t)mtest_size * sizeof *origins);

    for (int round = 0; round < 40; round++) {
        int n_targets = 0, n_origins = 0;
        for (int r = mtest_size - 1; r >= 0; r--) {
            if (writes(mtest_rank, r, round))
                targets[n_targets++] = r;
            if (writes(r, mtest_rank, round))
                origins[n_origins++] = r;
        }
        MPI_Group to = group_of(targets, n_targets), from = group_of(origins, n_origins);
        int value = mtest_rank * 1000 + 500 + round;
        MTEST_OK(MPI_Win_post(from, 0, win));
        MTEST_OK(MPI_Win_start(to, 0, win));
        for (int i = 0; i < n_targets; i++)
            MTEST_OK(MPI_Put(&value, 1, MPI_INT, targets[i], mtest_rank, 1, MPI_INT, win));
        MTEST_OK(MPI_Win_complete(win));
        MTEST_OK(MPI_Win_wait(win));
        for (int i = 0; i < n_origins; i++)
            MTEST_CHECK(window[origins[i]] == origins[i] * 1000 + 500 + round, "round %d: rank %d left %d",
                        round, origins[i], window[origins[i]]);
        MPI_Group_free(&to);
        MPI_Group_free(&from);
    }
    free(targets);
    free(origins);
}

/* Rank 0 gathers from all others, which it lets write one after the other: posts come in any order. */
static void check_one_by_one(void)
{
    if (mtest_rank == 0) {
        for (int r = mtest_size - 1; r > 0; r--) {
            MPI_Group origin = group_of(&r, 1);
            window[r] = -1;
            MTEST_OK(MPI_Win_post(origin, 0, win));
            MTEST_OK(MPI_Win_wait(win));
            MTEST_CHECK(window[r] == r * 3, "rank %d left %d", r, window[r]);
            MPI_Group_free(&origin);
        }
    } else {
        int zero = 0, value = mtest_rank * 3;
        MPI_Group target = group_of(&zero, 1);
        MTEST_OK(MPI_Win_start(target, 0, win));
        MTEST_OK(MPI_Put(&value, 1, MPI_INT, 0, mtest_rank, 1, MPI_INT, win));
        MTEST_OK(MPI_Win_complete(win));
        MPI_Group_free(&target);
    }
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mrma_init(&argc, argv);
    MTEST_OK(mrma_window(mtest_size * (MPI_Aint)sizeof(int), sizeof(int), &window, &win));
    MPI_Win_get_group(win, &all);
    check_ring();
    MPI_Barrier(MPI_COMM_WORLD);
    check_random();
    check_one_by_one();
    MPI_Group_free(&all);
    MTEST_OK(mrma_free(window, &win));
    return mtest_end();
}
