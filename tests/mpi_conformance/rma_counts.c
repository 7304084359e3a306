/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The functions with MPI_Count and MPI_Aint arguments behave like the others.
 */
#include "mtest.h"

enum { N = 16 };

int main(int argc, char **argv)
{
    MPI_Count n = N;
    MPI_Request requests[4];
    MPI_Aint size, unit;
    long *window, *shared, mine[N], old[N], own[2] = {0, 0};
    int next;
    MPI_Win win, other;
    MPI_Comm self;

    mtest_init(&argc, &argv, 1);
    next = (mtest_rank + 1) % mtest_size;
    MTEST_OK(MPI_Win_allocate_c(N * (MPI_Aint)sizeof(long), (MPI_Aint)sizeof(long), MPI_INFO_NULL,
                                MPI_COMM_WORLD, &window, &win));
    MTEST_OK(MPI_Win_shared_query_c(win, mtest_rank, &size, &unit, &shared));
    MTEST_CHECK(size == N * (MPI_Aint)sizeof(long) && unit == (MPI_Aint)sizeof(long) && shared == window,
                "size %ld, unit %ld", (long)size, (long)unit);
    for (int i = 0; i < N; i++) {
        window[i] = 100;
        mine[i] = i;
    }
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Put_c(mine, n, MPI_LONG, next, 0, n, MPI_LONG, win));
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Accumulate_c(mine, n, MPI_LONG, next, 0, n, MPI_LONG, MPI_SUM, win));
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Get_accumulate_c(mine, n, MPI_LONG, old, n, MPI_LONG, next, 0, n, MPI_LONG, MPI_PROD, win));
    MTEST_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < N; i++)
        MTEST_CHECK(old[i] == 2 * i && window[i] == 2L * i * i, "element %d: %ld, %ld", i, old[i], window[i]);
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Get_c(old, n, MPI_LONG, next, 0, n, MPI_LONG, win));
    MTEST_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    MTEST_CHECK(old[3] == 18, "fetched %ld", old[3]);
    MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win));
    MTEST_OK(MPI_Rput_c(mine, 1, MPI_LONG, next, 0, 1, MPI_LONG, win, &requests[0]));
    MTEST_OK(MPI_Rget_c(old, 1, MPI_LONG, next, 3, 1, MPI_LONG, win, &requests[1]));
    MTEST_OK(MPI_Raccumulate_c(&mine[1], 1, MPI_LONG, next, 4, 1, MPI_LONG, MPI_SUM, win, &requests[2]));
    MTEST_OK(MPI_Rget_accumulate_c(&mine[1], 1, MPI_LONG, &old[1], 1, MPI_LONG, next, 5, 1, MPI_LONG, MPI_SUM,
                                   win, &requests[3]));
    MTEST_OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    MTEST_CHECK(old[0] == 18 && old[1] == 50, "fetched %ld and %ld", old[0], old[1]);
    MTEST_OK(MPI_Win_unlock(next, win));
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_CHECK(window[0] == 0 && window[4] == 33 && window[5] == 51, "%ld, %ld, %ld", window[0], window[4],
                window[5]);
    MTEST_OK(MPI_Win_free(&win));

    MTEST_OK(MPI_Win_create_c(own, sizeof own, (MPI_Aint)1 << 33, MPI_INFO_NULL, MPI_COMM_WORLD, &other));
    MTEST_OK(MPI_Win_fence(0, other));
    MTEST_OK(MPI_Put(&mine[2], 1, MPI_LONG, next, 0, 1, MPI_LONG, other));
    MTEST_OK(MPI_Win_fence(0, other));
    MTEST_CHECK(own[0] == 2, "with a large unit: %ld", own[0]);
    MTEST_OK(MPI_Win_free(&other));
    MPI_Comm_dup(MPI_COMM_SELF, &self);
    MTEST_OK(MPI_Win_allocate_shared_c((MPI_Aint)sizeof(long), 1, MPI_INFO_NULL, self, &shared, &other));
    *shared = 7;
    MTEST_OK(MPI_Win_free(&other));
    MPI_Comm_free(&self);
    return mtest_end();
}
