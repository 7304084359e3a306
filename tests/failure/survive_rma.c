/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a lost process ends what others wait for in a window: every call returns MPI_ERR_PROC_ABORTED
 * instead of waiting for ever, operations with requests included, and windows of the survivors work.
 *
 *   survive_rma lock|lock_all|start|wait|fence|flush|request
 *
 * One rank per process; the last one kills itself, holding a lock of rank 0's window.
 */
#include <signal.h>
#include <unistd.h>

#include "../mpi_conformance/mtest.h"

static int memory[4];

/* What waits for the last rank. */
static int wait_for_it(const char *what, MPI_Win win, MPI_Group last)
{
    MPI_Request request;
    int error, value = 1;

    if (strcmp(what, "lock") == 0)
        return MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    if (strcmp(what, "lock_all") == 0)
        return MPI_Win_lock_all(0, win);
    if (strcmp(what, "start") == 0)
        return MPI_Win_start(last, 0, win);
    if (strcmp(what, "wait") == 0) {
        MTEST_OK(MPI_Win_post(last, 0, win));
        return MPI_Win_wait(win);
    }
    if (strcmp(what, "fence") == 0)
        return MPI_Win_fence(0, win);
    error = MPI_Win_lock(MPI_LOCK_SHARED, mtest_size - 1, MPI_MODE_NOCHECK, win);
    while (!error) { /* until the loss is known */
        if (strcmp(what, "flush") == 0) {
            error = MPI_Put(&value, 1, MPI_INT, mtest_size - 1, 0, 1, MPI_INT, win);
            error = error ? error : MPI_Win_flush(mtest_size - 1, win);
        } else {
            error = MPI_Rput(&value, 1, MPI_INT, mtest_size - 1, 0, 1, MPI_INT, win, &request);
            error = error ? error : MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
    return error;
}

static void check_survivors(void)
{
    MPI_Comm comm;
    MPI_Win win;
    MPI_Group world, left;
    int rank, size, *mine;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_excl(world, 1, (int[1][3]){{mtest_size - 1, mtest_size - 1, 1}}, &left);
    MTEST_OK(MPI_Comm_create_group(MPI_COMM_WORLD, left, 4, &comm));
    MPI_Group_free(&world);
    MPI_Group_free(&left);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MTEST_OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &mine, &win));
    *mine = -1;
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win));
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_CHECK(*mine == (rank + size - 1) % size, "%d in the survivors' window", *mine);
    MTEST_OK(MPI_Win_free(&win));
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    MPI_Win win;
    MPI_Group all, last;
    int number;

    mtest_init(&argc, &argv, 2);
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_get_group(win, &all);
    number = mtest_size - 1;
    MPI_Group_incl(all, 1, &number, &last);
    if (mtest_rank == number && strncmp(argv[1], "lock", 4) == 0)
        MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == number) {
        usleep(100000);
        kill(getpid(), SIGKILL);
    }
    MTEST_CLASS(wait_for_it(argv[1], win, last), MPI_ERR_PROC_ABORTED);
    check_survivors();
    printf("survived\n");
    MPI_Group_free(&all);
    MPI_Group_free(&last);
    return mtest_end();
}
