/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between streams: each thread of a rank has a stream, all ranks one communicator of them, and a message is received
 * by the stream that it is sent to, by a receive for the stream that has sent it, or for any. Rank r has 2 + r % 2 streams. */
#include "mtest_threads.h"

#ifdef MPIX_ANY_INDEX
enum { STREAMS_MAX = 3, ROUNDS = 60, LARGE = 20000 };

static MPIX_Stream streams[STREAMS_MAX];
static MPI_Comm comm;
static int rank, size, n_streams;

static int streams_of(int of)
{
    return 2 + of % 2;
}

static int content(int from, int source_index, int to, int dest_index, int round)
{
    return (((from * 4 + source_index) * 8 + to) * 4 + dest_index) * 1000 + round;
}

/* ---- Threads: from each stream to each stream of the next rank, with one tag per round ---- */

static void send_all(int index, int next, int round, int data[][LARGE], MPI_Request requests[])
{
    for (int to = 0; to < streams_of(next); to++) {
        int n = round % 8 == 7 ? LARGE : 1;
        data[to][0] = data[to][n - 1] = content(rank, index, next, to, round);
        MTEST_OK(
            round % 3
                ? MPIX_Stream_isend(data[to], n, MPI_INT, next, round, comm, index, to, &requests[to])
                : MPIX_Stream_isend_c(data[to], n, MPI_INT, next, round, comm, index, to, &requests[to]));
    }
}

/* Receives from each stream of the rank once: by its index, or from any. */
static void receive_all(int index, int prev, int round, int *data)
{
    int seen = 0, n = streams_of(prev), is_any = round % 2;

    for (int i = 0; i < n; i++) {
        int from = n - 1 - i, last = round % 8 == 7 ? LARGE - 1 : 0, count;
        MPI_Status status;
        data[0] = data[last] = -1;
        if (round % 5 == 0) {
            MPI_Request request;
            MTEST_OK(MPIX_Stream_irecv(data, LARGE, MPI_INT, is_any ? MPI_ANY_SOURCE : prev, round, comm,
                                       is_any ? MPIX_ANY_INDEX : from, index, &request));
            MTEST_OK(MPI_Wait(&request, &status));
        } else {
            MTEST_OK(MPIX_Stream_recv(data, LARGE, MPI_INT, prev, is_any ? round : MPI_ANY_TAG, comm,
                                      is_any ? MPIX_ANY_INDEX : from, index, &status));
        }
        for (int j = 0; is_any && j < n; j++)
            if (data[0] == content(prev, j, rank, index, round))
                from = j;
        MPI_Get_count(&status, MPI_INT, &count);
        mtest_thread_check(index,
                           data[0] == content(prev, from, rank, index, round) && data[last] == data[0]);
        mtest_thread_check(index, status.MPI_SOURCE == prev && status.MPI_TAG == round && count == last + 1);
        seen |= 1 << from;
    }
    mtest_thread_check(index, seen == (1 << n) - 1);
}

static void *run(void *arg)
{
    int index = mtest_thread_number(arg), next = (rank + 1) % size, prev = (rank + size - 1) % size;
    static int out[STREAMS_MAX][STREAMS_MAX][LARGE], in[STREAMS_MAX][LARGE];
    MPI_Request requests[STREAMS_MAX];

    for (int round = 0; round < ROUNDS; round++) {
        send_all(index, next, round, out[index], requests);
        receive_all(index, prev, round, in[index]);
        MTEST_OK(MPI_Waitall(streams_of(next), requests, MPI_STATUSES_IGNORE));
        MTEST_OK(MPIX_Stream_progress(streams[index]));
    }
    return NULL;
}

/* ---- What matches what, by one thread, with messages to itself ---- */

static int is_done(MPI_Request *request)
{
    int flag;

    for (int i = 0; i < 3; i++)
        MTEST_OK(MPI_Test(request, &flag, MPI_STATUS_IGNORE));
    return flag;
}

/* The order of posting decides among receives that leave rank, stream or tag open. */
static void match_posted(MPI_Comm of)
{
    static const struct {
        int source, tag, index;
    } posted[] = {{MPI_ANY_SOURCE, 2, 0},
                  {-9, MPI_ANY_TAG, MPIX_ANY_INDEX},
                  {-9, 2, 1},
                  {MPI_ANY_SOURCE, MPI_ANY_TAG, MPIX_ANY_INDEX}};
    static const struct {
        int index, tag, meets;
    } sent[] = {{1, 3, 1}, {1, 2, 2}, {0, 2, 0}, {0, 1, 3}};
    MPI_Request requests[4];
    int in[4], n = 1;

    for (int i = 0; i < 4; i++)
        MTEST_OK(MPIX_Stream_irecv(&in[i], 1, MPI_INT, posted[i].source == -9 ? rank : posted[i].source,
                                   posted[i].tag, of, posted[i].index, 1, &requests[i]));
    for (int i = 0; i < 4; i++) {
        MTEST_OK(
            MPIX_Stream_send(&n, 1, MPI_INT, rank, sent[i].tag, of, sent[i].index, 0)); /* another stream's */
        MTEST_OK(MPI_Send(&n, 1, MPI_INT, rank, sent[i].tag, of));
    }
    for (int i = 0; i < 4; i++)
        MTEST_CHECK(!is_done(&requests[i]), "a message to another stream, or of MPI_Send, is received");
    for (int i = 0; i < 4; i++) {
        int data = 100 + i;
        MTEST_OK(MPIX_Stream_send_c(&data, 1, MPI_INT, rank, sent[i].tag, of, sent[i].index, 1));
        MTEST_CHECK(is_done(&requests[sent[i].meets]) && in[sent[i].meets] == data,
                    "message %d matches another receive", i);
    }
    for (int i = 0; i < 4; i++) {
        MTEST_OK(MPIX_Stream_recv_c(&n, 1, MPI_INT, MPI_ANY_SOURCE, sent[i].tag, of, sent[i].index, 0,
                                    MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Recv(&n, 1, MPI_INT, rank, sent[i].tag, of, MPI_STATUS_IGNORE));
    }
}

static void cancel_and_free(MPI_Comm of)
{
    MPI_Request requests[2];
    MPI_Status status;
    int n = 7, flag;

    MTEST_OK(MPIX_Stream_irecv(&n, 1, MPI_INT, MPI_ANY_SOURCE, 0, of, 1, 0, &requests[0]));
    MTEST_OK(MPI_Cancel(&requests[0]));
    MTEST_OK(MPI_Wait(&requests[0], &status));
    MTEST_OK(MPI_Test_cancelled(&status, &flag));
    MTEST_CHECK(flag, "a receive is not cancelled");
    MTEST_OK(MPIX_Stream_recv(&n, 1, MPI_INT, MPI_PROC_NULL, 0, of, 99, 0, &status));
    MTEST_CHECK(status.MPI_SOURCE == MPI_PROC_NULL, "the source is %d", status.MPI_SOURCE);
    MTEST_OK(MPIX_Stream_irecv(&n, 1, MPI_INT, rank, 4, of, 1, 1, &requests[0]));
    MTEST_OK(MPI_Comm_free(&of)); /* the messages end */
    MTEST_OK(MPI_Cancel(&requests[0]));
    MTEST_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
}

/* ---- Errors ---- */

static void errors(void)
{
    int n = 0, data[2] = {0, 0}, next = (rank + 1) % size;
    MPI_Request request;
    MPI_Status status;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MTEST_CLASS(MPIX_Stream_send(&n, 1, MPI_INT, next, 0, MPI_COMM_WORLD, 0, 0), MPI_ERR_COMM);
    MTEST_CLASS(MPIX_Stream_recv(&n, 1, MPI_INT, next, 0, MPI_COMM_NULL, 0, 0, MPI_STATUS_IGNORE),
                MPI_ERR_COMM);
    MTEST_CLASS(MPIX_Stream_send(&n, 1, MPI_INT, next, 0, comm, n_streams, 0), MPI_ERR_ARG);
    MTEST_CLASS(MPIX_Stream_send(&n, 1, MPI_INT, next, 0, comm, MPIX_ANY_INDEX, 0), MPI_ERR_ARG);
    MTEST_CLASS(MPIX_Stream_send(&n, 1, MPI_INT, next, 0, comm, 0, streams_of(next)), MPI_ERR_ARG);
    MTEST_CLASS(MPIX_Stream_recv(&n, 1, MPI_INT, next, 0, comm, streams_of(next), 0, MPI_STATUS_IGNORE),
                MPI_ERR_ARG);
    MTEST_CLASS(MPIX_Stream_recv(&n, 1, MPI_INT, next, 0, comm, -2, 0, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    MTEST_CLASS(MPIX_Stream_recv(&n, 1, MPI_INT, next, 0, comm, 0, MPIX_ANY_INDEX, MPI_STATUS_IGNORE),
                MPI_ERR_ARG);
    MTEST_CLASS(MPIX_Stream_isend(&n, 1, MPI_INT, next, 0, comm, 0, 0, NULL), MPI_ERR_ARG);
    MTEST_CLASS(MPIX_Stream_irecv(&n, 1, MPI_INT, size, 0, comm, 0, 0, &request), MPI_ERR_RANK);
    MTEST_CLASS(MPIX_Stream_isend(&n, 1, MPI_INT, next, -1, comm, 0, 0, &request), MPI_ERR_TAG);
    MTEST_CLASS(MPIX_Stream_progress((MPIX_Stream)&n), MPI_ERR_OTHER);
    MTEST_CLASS(MPIX_Start_progress_thread((MPIX_Stream)&n), MPI_ERR_OTHER);
    MTEST_OK(MPIX_Stream_isend(data, 2, MPI_INT, rank, 0, comm, 1, 0, &request));
    MTEST_CLASS(MPIX_Stream_recv(&n, 1, MPI_INT, rank, 0, comm, MPIX_ANY_INDEX, 0, &status),
                MPI_ERR_TRUNCATE);
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    MPI_Comm copy;

    mtest_init_threads(&argc, &argv, 1);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    n_streams = streams_of(rank);
    for (int i = 0; i < n_streams; i++)
        MTEST_OK(MPIX_Stream_create(MPI_INFO_NULL, &streams[i]));
    MTEST_OK(MPIX_Stream_comm_create_multiplex(MPI_COMM_WORLD, n_streams, streams, &comm));
    MTEST_OK(MPI_Comm_dup(comm, &copy));
    mtest_run_threads(0, n_streams, run);
    match_posted(comm);
    match_posted(copy);
    cancel_and_free(copy);
    errors();
    MTEST_OK(MPI_Comm_free(&comm));
    for (int i = 0; i < n_streams; i++)
        MTEST_OK(MPIX_Stream_free(&streams[i]));
    return mtest_end();
}
#else
int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_skip("MPIX_Stream_send is not available");
    return mtest_end();
}
#endif
