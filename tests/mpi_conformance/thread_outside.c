/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks make progress while another rank of their PE has no thread in MPI: rank 0's main thread waits in C code for its thread, which
 * waits, outside of MPI as well, until the other ranks have passed a message from the last one to the first. */
#include "mtest_threads.h"

#include <sched.h>
#include <stdatomic.h>

/* Shared by the ranks. */
struct board {
    atomic_int is_waiting; /* rank 0's main thread is in C code, or will be */
    atomic_int n_done;     /* ranks that have passed the message on */
};

static struct board *board;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_over = PTHREAD_COND_INITIALIZER;
static int over;

static void share_board(MPI_Win *win_out)
{
    MPI_Aint size = mtest_rank == 0 ? sizeof(struct board) : 0;
    int unit;

    MPI_Win_allocate_shared(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &board, win_out);
    MPI_Win_shared_query(*win_out, 0, &size, &unit, &board);
    if (mtest_rank == 0)
        memset(board, 0, sizeof(struct board));
    MPI_Barrier(MPI_COMM_WORLD);
}

static void *wait_for_others(void *arg)
{
    atomic_store(&board->is_waiting, 1);
    while (atomic_load(&board->n_done) < mtest_size - 1)
        sched_yield();
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_signal(&is_over);
    pthread_mutex_unlock(&lock);
    return arg;
}

static void wait_in_code(void)
{
    pthread_t thread;

    pthread_mutex_lock(&lock);
    pthread_create(&thread, NULL, wait_for_others, NULL);
    while (!over)
        pthread_cond_wait(&is_over, &lock);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

static void pass_on(void)
{
    int value = mtest_size - 1;

    if (mtest_rank < mtest_size - 1)
        MPI_Recv(&value, 1, MPI_INT, mtest_rank + 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        while (!atomic_load(&board->is_waiting))
            sched_yield();
    if (mtest_rank > 1)
        MPI_Send(&value, 1, MPI_INT, mtest_rank - 1, 0, MPI_COMM_WORLD);
    MTEST_CHECK(value == mtest_size - 1, "received %d", value);
    atomic_fetch_add(&board->n_done, 1);
}

int main(int argc, char **argv)
{
    MPI_Win win;

    mtest_init_threads(&argc, &argv, 2);
    mtest_need_one_node();
    share_board(&win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == 0)
        wait_in_code();
    else
        pass_on();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
    return mtest_end();
}
