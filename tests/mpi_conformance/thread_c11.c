/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of C11 call MPI, also in a process with one rank: one receives while another sends, and thrd_join gives their results. */
#include "mtest.h"
#include <threads.h>

enum { SENT = 42, ENDED = 3 };

static int receive(void *arg)
{
    int value = -1;

    (void)arg;
    MPI_Recv(&value, 1, MPI_INT, (mtest_rank + mtest_size - 1) % mtest_size, 8, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    return value;
}

static int send(void *arg)
{
    int value = SENT;

    (void)arg;
    MPI_Send(&value, 1, MPI_INT, (mtest_rank + 1) % mtest_size, 8, MPI_COMM_WORLD);
    return ENDED;
}

int main(int argc, char **argv)
{
    int provided, received = -1, ended = -1;
    thrd_t receiver, sender;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &mtest_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mtest_size);
    MTEST_CHECK(thrd_create(&receiver, receive, NULL) == thrd_success, "thrd_create");
    MTEST_CHECK(thrd_create(&sender, send, NULL) == thrd_success, "thrd_create");
    MTEST_CHECK(thrd_join(receiver, &received) == thrd_success && received == SENT, "result %d", received);
    MTEST_CHECK(thrd_join(sender, &ended) == thrd_success && ended == ENDED, "result %d", ended);
    MPI_Finalize();
    return mtest_errors != 0;
}
