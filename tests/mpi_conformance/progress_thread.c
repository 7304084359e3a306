/* SPDX-License-Identifier: BSD-3-Clause
 *
 * With +progress-thread, a rank that computes without calling MPI delays no other one: its PE answers one-sided
 * operations, receives messages whose data has to be requested, and goes on with collectives. Rank 1 computes until
 * rank 0, which needs it, says in rank 1's window that all is done; without the option that never happens.
 *
 *   progress_thread put|message|collective
 */
#include "mtest.h"

#define N (1 << 18)

static int memory[2]; /* of the window: done, and a sum */
static int data[N];
static MPI_Win win;

/* Rank 1, without MPI. */
static void compute(void)
{
    while (!__atomic_load_n(&memory[0], __ATOMIC_ACQUIRE))
        ;
}

/* Rank 0. */
static void say_done(void)
{
    int one = 1;

    MTEST_OK(MPI_Put(&one, 1, MPI_INT, 1, 0, 1, MPI_INT, win));
    MTEST_OK(MPI_Win_flush(1, win));
}

static void check_put(void)
{
    int one = 1, old = -1;

    if (mtest_rank == 1) {
        compute();
        return;
    }
    for (int i = 0; i < 1000; i++) {
        MTEST_OK(MPI_Fetch_and_op(&one, &old, MPI_INT, 1, 1, MPI_SUM, win));
        MTEST_OK(MPI_Win_flush(1, win));
        MTEST_CHECK(old == i, "%d fetched instead of %d", old, i);
    }
    say_done();
}

/* Large enough for its data to be requested by the receiver. */
static void check_message(void)
{
    MPI_Request request = MPI_REQUEST_NULL;

    if (mtest_rank == 1)
        MTEST_OK(MPI_Irecv(data, N, MPI_INT, 0, 5, MPI_COMM_WORLD, &request));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 1) {
        compute();
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (int i = 0; i < N; i++)
            MTEST_CHECK(data[i] == i, "%d at %d", data[i], i);
        return;
    }
    for (int i = 0; i < N; i++)
        data[i] = i;
    MTEST_OK(MPI_Ssend(data, N, MPI_INT, 1, 5, MPI_COMM_WORLD));
    say_done();
}

static void check_collective(void)
{
    int mine = mtest_rank + 1, sum = 0;
    MPI_Request request;

    MTEST_OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    if (mtest_rank == 1)
        compute();
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_CHECK(sum == 3, "the sum is %d", sum);
    if (mtest_rank == 0)
        say_done();
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    MTEST_OK(MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MTEST_OK(MPI_Win_lock_all(0, win));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (strcmp(argv[1], "put") == 0)
        check_put();
    else if (strcmp(argv[1], "message") == 0)
        check_message();
    else
        check_collective();
    MTEST_OK(MPI_Win_unlock_all(win));
    MTEST_OK(MPI_Win_free(&win));
    return mtest_end();
}
