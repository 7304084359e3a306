/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The error of a call that an open epoch forbids names that epoch and the call that ends it. The window's error handler
 * is MPI_ERRORS_ARE_FATAL, which prints the error.
 *
 *   rma_error_texts fence|start|lock|lock_all|no_locks  start|lock|lock_all|fence
 *
 * The epoch that is open, or the hint that the window has, and the call.
 */
#include "mtest.h"

static int cell, value = 5;

static void open_epoch(const char *epoch, MPI_Win win)
{
    MPI_Group group;
    MPI_Info info;

    if (strcmp(epoch, "fence") == 0) {
        MTEST_OK(MPI_Win_fence(0, win));
        MTEST_OK(MPI_Put(&value, 1, MPI_INT, mtest_rank, 0, 1, MPI_INT, win));
    } else if (strcmp(epoch, "start") == 0) {
        MPI_Win_get_group(win, &group);
        MTEST_OK(MPI_Win_post(group, 0, win));
        MTEST_OK(MPI_Win_start(group, 0, win));
    } else if (strcmp(epoch, "lock") == 0) {
        MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, mtest_rank, 0, win));
    } else if (strcmp(epoch, "lock_all") == 0) {
        MTEST_OK(MPI_Win_lock_all(0, win));
    } else {
        MPI_Info_create(&info);
        MPI_Info_set(info, "no_locks", "true");
        MTEST_OK(MPI_Win_set_info(win, info));
        MPI_Info_free(&info);
    }
}

int main(int argc, char **argv)
{
    MPI_Win win;

    mtest_init(&argc, &argv, 1);
    MPI_Win_create(&cell, sizeof cell, sizeof cell, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    open_epoch(argv[1], win);
    if (strcmp(argv[2], "fence") == 0)
        MPI_Win_fence(0, win);
    else if (strcmp(argv[2], "start") == 0)
        MPI_Win_start(MPI_GROUP_EMPTY, 0, win);
    else if (strcmp(argv[2], "lock") == 0)
        MPI_Win_lock(MPI_LOCK_SHARED, (mtest_rank + 1) % mtest_size, 0, win);
    else
        MPI_Win_lock_all(0, win);
    MTEST_CHECK(0, "the call returned");
    return mtest_end();
}
