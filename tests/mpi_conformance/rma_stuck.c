/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided calls that wait for ever: the deadlock report names the epoch and the holder of the lock.
 *
 * usage: rma_stuck lock|exclusive|other|shared|lock_all|start|wait
 *
 * other: the lock of rank 0 is held by a third rank; shared: by all others, and none of them is alone.
 */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Win win;
    MPI_Group all, other;
    int zero = 0, one = 1, *memory;
    const char *what;

    mtest_init(&argc, &argv, 2);
    what = argc > 1 ? argv[1] : "lock";
    MTEST_OK(MPI_Win_allocate(4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    MPI_Win_get_group(win, &all);
    if (strcmp(what, "start") == 0) {
        MPI_Group_incl(all, 1, &one, &other);
        if (mtest_rank == 0)
            MPI_Win_start(other, 0, win);
    } else if (strcmp(what, "wait") == 0) {
        MPI_Group_incl(all, 1, &zero, &other);
        if (mtest_rank == 1) {
            MPI_Win_post(other, 0, win);
            MPI_Win_wait(win);
        }
    } else if (strcmp(what, "exclusive") == 0) {
        if (mtest_rank == 0)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (mtest_rank == 1)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    } else if (strcmp(what, "other") == 0 || strcmp(what, "shared") == 0) {
        int is_shared = strcmp(what, "shared") == 0, last = mtest_size - 1;
        if (mtest_rank == 1 || (is_shared && mtest_rank < last))
            MPI_Win_lock(is_shared ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (mtest_rank == last)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    } else {
        if (mtest_rank == 1)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (mtest_rank == 0 && strcmp(what, "lock") == 0)
            MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        else if (mtest_rank == 0)
            MPI_Win_lock_all(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return mtest_end();
}
