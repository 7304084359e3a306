/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that repeats an operation with a request until another rank has changed the target's memory lets that rank, and
 * those of other processes, make progress: for every operation that returns data, every call that completes it, and small and
 * large data.
 *
 * usage: rma_spin [created]
 *
 * In each round the last rank adds 1 to rank 0's first number when all others have begun to wait for that.
 */
#include "mrma.h"

#define LARGE 8192 /* numbers that the library copies without a message */

static long data[LARGE];

/* Begins an operation that reads rank 0's memory. */
static void begin(int kind, int count, MPI_Win win, MPI_Request *request)
{
    if (kind == 0)
        MTEST_OK(MPI_Rget(data, count, MPI_LONG, 0, 0, count, MPI_LONG, win, request));
    else
        MTEST_OK(MPI_Rget_accumulate(NULL, 0, MPI_LONG, data, count, MPI_LONG, 0, 0, count, MPI_LONG,
                                     MPI_NO_OP, win, request));
}

static void complete(int how, MPI_Request *request)
{
    int flag = 0, index;

    switch (how) {
    case 0:
        MTEST_OK(MPI_Wait(request, MPI_STATUS_IGNORE));
        break;
    case 1:
        MTEST_OK(MPI_Waitall(1, request, MPI_STATUSES_IGNORE));
        break;
    case 2:
        MTEST_OK(MPI_Waitany(1, request, &index, MPI_STATUS_IGNORE));
        break;
    case 3:
        while (!flag)
            MTEST_OK(MPI_Test(request, &flag, MPI_STATUS_IGNORE));
        break;
    default:
        while (!flag)
            MTEST_OK(MPI_Testall(1, request, &flag, MPI_STATUSES_IGNORE));
    }
}

static void run(int kind, int how, int count, long expected, MPI_Win win)
{
    int last = mtest_size - 1, none = 0;
    long one = 1;
    MPI_Request request;

    if (mtest_rank == last) {
        for (int rank = 0; rank < last; rank++)
            MTEST_OK(MPI_Recv(&none, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win));
        MTEST_OK(MPI_Win_flush(0, win));
        return;
    }
    MTEST_OK(MPI_Send(&none, 1, MPI_INT, last, 0, MPI_COMM_WORLD));
    do {
        begin(kind, count, win, &request);
        complete(how, &request);
    } while (data[0] != expected);
}

int main(int argc, char **argv)
{
    MPI_Win win;
    long *memory, round = 0;

    mtest_init(&argc, &argv, 2);
    mrma_init(&argc, argv);
    MTEST_OK(mrma_window(sizeof data, sizeof(long), &memory, &win));
    memset(memory, 0, sizeof data);
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_lock_all(0, win));
    for (int kind = 0; kind < 2; kind++)
        for (int how = 0; how < 5; how++) {
            run(kind, how, 1, ++round, win);
            run(kind, how, LARGE, ++round, win);
        }
    MTEST_OK(MPI_Win_unlock_all(win));
    MTEST_OK(mrma_free(memory, &win));
    return mtest_end();
}
