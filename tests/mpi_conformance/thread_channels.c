/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of a rank use persistent and partitioned requests at the same time, each with the thread of the same number in
 * the next rank; one thread marks the partitions of another's request. */
#include "mtest_threads.h"

#if MPI_VERSION >= 4
enum { THREADS = 3, ROUNDS = 1500, LEN = 50, PARTS = 5 };

static int next, prev;

static int content(int rank, int thread, int round, int i)
{
    return rank * 100000 + thread * 10000 + round * 3 + i;
}

static void persistent(int thread)
{
    int out[LEN], in[LEN];
    MPI_Request requests[2];

    MPI_Recv_init(in, LEN, MPI_INT, prev, thread, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(out, LEN, MPI_INT, next, thread, MPI_COMM_WORLD, &requests[1]);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LEN; i++)
            out[i] = content(mtest_rank, thread, round, i);
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < LEN; i++)
            mtest_thread_check(thread, in[i] == content(prev, thread, round, i));
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* The first partitions of a message; the owner of the request marks the last one. */
struct help {
    pthread_barrier_t barrier; /* of the owner and the helper, before and after */
    MPI_Request send;
};

static void *mark(void *arg)
{
    struct help *help = arg;

    for (int round = 0; round < ROUNDS / 10; round++) {
        pthread_barrier_wait(&help->barrier);
        MPI_Pready_range(0, PARTS - 2, help->send);
        pthread_barrier_wait(&help->barrier);
    }
    return NULL;
}

static void partitioned(int thread)
{
    struct help help;
    pthread_t helper;
    int out[LEN], in[LEN], flag;
    MPI_Request recv;

    MPI_Precv_init(in, PARTS, LEN / PARTS, MPI_INT, prev, thread, MPI_COMM_WORLD, MPI_INFO_NULL, &recv);
    MPI_Psend_init(out, PARTS, LEN / PARTS, MPI_INT, next, thread, MPI_COMM_WORLD, MPI_INFO_NULL, &help.send);
    pthread_barrier_init(&help.barrier, NULL, 2);
    pthread_create(&helper, NULL, mark, &help);
    for (int round = 0; round < ROUNDS / 10; round++) {
        for (int i = 0; i < LEN; i++)
            out[i] = content(mtest_rank, thread, round, i);
        MPI_Start(&help.send);
        MPI_Start(&recv);
        pthread_barrier_wait(&help.barrier);
        MPI_Parrived(recv, 1, &flag);
        MPI_Pready(PARTS - 1, help.send);
        pthread_barrier_wait(&help.barrier);
        MPI_Wait(&recv, MPI_STATUS_IGNORE);
        MPI_Wait(&help.send, MPI_STATUS_IGNORE);
        for (int i = 0; i < LEN; i++)
            mtest_thread_check(thread, in[i] == content(prev, thread, round, i));
    }
    pthread_join(helper, NULL);
    pthread_barrier_destroy(&help.barrier);
    MPI_Request_free(&recv);
    MPI_Request_free(&help.send);
}

static void *run(void *arg)
{
    int thread = mtest_thread_number(arg);

    persistent(thread);
    partitioned(thread);
    return NULL;
}

int main(int argc, char **argv)
{
    mtest_init_threads(&argc, &argv, 1);
    next = (mtest_rank + 1) % mtest_size;
    prev = (mtest_rank + mtest_size - 1) % mtest_size;
    mtest_run_threads(0, THREADS, run);
    return mtest_end();
}
#else
int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_skip("partitioned communication needs MPI 4");
    return mtest_end();
}
#endif
