/* SPDX-License-Identifier: BSD-3-Clause */
/* A persistent send and receive that have matched each other many times still follow MPI's order: other receives,
 * wildcards, probes, other messages, cancelled and freed requests, and truncation in between. With the argument "deadlock"
 * nobody sends at the end: the job's end must name the receives. */
#include "mtest.h"

enum { TAG = 7, LEN = 40 };

static int out[LEN], in[LEN], other[LEN];
static MPI_Request send, recv;
static int next, prev, value;

static void make_send(void)
{
    MTEST_OK(MPI_Send_init(out, LEN, MPI_INT, next, TAG, MPI_COMM_WORLD, &send));
}

static void make_recv(void)
{
    MTEST_OK(MPI_Recv_init(in, LEN, MPI_INT, prev, TAG, MPI_COMM_WORLD, &recv));
}

static void barrier(void)
{
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void fill(void)
{
    value++;
    for (int i = 0; i < LEN; i++)
        out[i] = value * 100 + i;
}

static void check(const int *data, int expected, const char *what)
{
    for (int i = 0; i < LEN; i++)
        if (data[i] != expected * 100 + i) {
            MTEST_CHECK(0, "%s: element %d is %d, expected %d", what, i, data[i], expected * 100 + i);
            return;
        }
}

static void finish_recv(const char *what)
{
    MPI_Status status;
    int count = -1;

    MTEST_OK(MPI_Wait(&recv, &status));
    MTEST_OK(MPI_Get_count(&status, MPI_INT, &count));
    MTEST_CHECK(status.MPI_SOURCE == prev && status.MPI_TAG == TAG && count == LEN,
                "%s: source %d, tag %d, count %d", what, status.MPI_SOURCE, status.MPI_TAG, count);
}

/* The next value, by the persistent send. */
static void send_one(void)
{
    fill();
    MTEST_OK(MPI_Start(&send));
    MTEST_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
}

/* Both match each other, several times, so that what may be kept about them is kept. */
static void settle(void)
{
    for (int i = 0; i < 5; i++) {
        memset(in, 0, sizeof in);
        MTEST_OK(MPI_Start(&recv));
        barrier();
        send_one();
        finish_recv("settle");
        check(in, value, "settle");
        barrier();
    }
}

/* A receive that was posted before gets the first message, the persistent one the second; and the other way round. */
static void another_receive(int source, int tag, const char *what)
{
    for (int is_first = 0; is_first < 2; is_first++) {
        MPI_Request request;
        settle();
        if (is_first)
            MTEST_OK(MPI_Start(&recv));
        MTEST_OK(MPI_Irecv(other, LEN, MPI_INT, source, tag, MPI_COMM_WORLD, &request));
        if (!is_first)
            MTEST_OK(MPI_Start(&recv));
        barrier();
        send_one();
        send_one();
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        finish_recv(what);
        check(in, is_first ? value - 1 : value, what);
        check(other, is_first ? value : value - 1, what);
        barrier();
    }
}

/* Messages of ordinary sends with the same key, before and after the persistent one. */
static void another_send(void)
{
    for (int is_posted = 0; is_posted < 2; is_posted++) {
        settle();
        if (is_posted)
            MTEST_OK(MPI_Start(&recv));
        barrier();
        fill();
        MTEST_OK(MPI_Send(out, LEN, MPI_INT, next, TAG, MPI_COMM_WORLD));
        send_one();
        fill();
        MTEST_OK(MPI_Send(out, LEN, MPI_INT, next, TAG, MPI_COMM_WORLD));
        barrier();
        if (!is_posted)
            MTEST_OK(MPI_Start(&recv));
        finish_recv("ordinary send first");
        check(in, value - 2, "ordinary send first");
        MTEST_OK(MPI_Start(&recv));
        finish_recv("persistent send second");
        check(in, value - 1, "persistent send second");
        MTEST_OK(MPI_Recv(other, LEN, MPI_INT, prev, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        check(other, value, "ordinary send third");
        barrier();
    }
}

/* A message of the persistent send that arrived before the receive is visible to probes. */
static void probes(void)
{
    MPI_Status status;
    MPI_Message message;

    settle();
    send_one();
    send_one();
    MTEST_OK(MPI_Probe(prev, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
    MTEST_CHECK(status.MPI_TAG == TAG, "probe: tag %d", status.MPI_TAG);
    for (int flag = 0; !flag;)
        MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &flag, &status));
    MTEST_OK(MPI_Mprobe(prev, TAG, MPI_COMM_WORLD, &message, &status));
    MTEST_OK(MPI_Start(&recv));
    finish_recv("after a matched probe");
    check(in, value, "after a matched probe");
    MTEST_OK(MPI_Mrecv(other, LEN, MPI_INT, &message, MPI_STATUS_IGNORE));
    check(other, value - 1, "matched probe");
    barrier();
}

static void cancels(void)
{
    MPI_Status status;
    int flag;

    settle();
    MTEST_OK(MPI_Start(&recv));
    MTEST_OK(MPI_Cancel(&recv));
    MTEST_OK(MPI_Wait(&recv, &status));
    MTEST_OK(MPI_Test_cancelled(&status, &flag));
    MTEST_CHECK(flag, "a posted receive was not cancelled");
    barrier();
    send_one(); /* its message waits */
    MTEST_OK(MPI_Start(&recv));
    finish_recv("after a cancelled receive");
    check(in, value, "after a cancelled receive");
    settle();
    MTEST_OK(MPI_Start(&recv));
    barrier();
    send_one();
    for (flag = 0; !flag;)
        MTEST_OK(MPI_Request_get_status(recv, &flag, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Cancel(&recv)); /* it has matched */
    finish_recv("cancelled too late");
    check(in, value, "cancelled too late");
    barrier();
}

/* Either request is freed and made again; while the receive is posted, too. */
static void frees(void)
{
    settle();
    MTEST_OK(MPI_Request_free(&recv));
    send_one();
    make_recv();
    MTEST_OK(MPI_Start(&recv));
    finish_recv("a new receive");
    check(in, value, "a new receive");
    settle();
    MTEST_OK(MPI_Start(&recv));
    barrier();
    MTEST_OK(MPI_Request_free(&send));
    fill();
    MTEST_OK(MPI_Send(out, LEN, MPI_INT, next, TAG, MPI_COMM_WORLD));
    finish_recv("the send was freed");
    check(in, value, "the send was freed");
    make_send();
    settle();
    MTEST_OK(MPI_Request_free(&send));
    make_send();
    fill();
    MTEST_OK(MPI_Start(&send));
    MTEST_OK(MPI_Request_free(&send)); /* active, perhaps: it completes by itself */
    MTEST_OK(MPI_Start(&recv));
    finish_recv("an active send was freed");
    check(in, value, "an active send was freed");
    make_send();
    barrier();
}

/* A shorter persistent receive of the same key, which the message does not fit into. */
static void truncation(void)
{
    MPI_Request shorter;

    MTEST_OK(MPI_Recv_init(other, LEN / 2, MPI_INT, prev, TAG, MPI_COMM_WORLD, &shorter));
    for (int i = 0; i < 3; i++) {
        settle();
        memset(other, 0, sizeof other);
        MTEST_OK(MPI_Start(&shorter));
        MTEST_OK(MPI_Start(&recv));
        barrier();
        send_one();
        send_one();
        MTEST_CLASS(MPI_Wait(&shorter, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
        MTEST_CHECK(other[LEN / 2] == 0, "wrote behind the buffer");
        finish_recv("after a truncated one");
        check(in, value, "after a truncated one");
        barrier();
    }
    MTEST_OK(MPI_Request_free(&shorter));
}

/* Two persistent receives with the same key, started in either order; two sends. */
static void twins(void)
{
    MPI_Request second_send, second_recv;

    MTEST_OK(MPI_Recv_init(other, LEN, MPI_INT, prev, TAG, MPI_COMM_WORLD, &second_recv));
    MTEST_OK(MPI_Ssend_init(out, LEN, MPI_INT, next, TAG, MPI_COMM_WORLD, &second_send));
    for (int i = 0; i < 16; i++) {
        MPI_Request *first = i & 1 ? &second_send : &send, *then = i & 1 ? &send : &second_send;
        int is_swapped = i >> 1 & 1;
        if (i % 5 == 0)
            settle();
        if (i & 4)
            barrier();
        MTEST_OK(MPI_Start(is_swapped ? &second_recv : &recv));
        MTEST_OK(MPI_Start(is_swapped ? &recv : &second_recv));
        if (i & 8)
            barrier();
        fill();
        MTEST_OK(MPI_Start(first));
        MTEST_OK(MPI_Wait(first, MPI_STATUS_IGNORE));
        fill();
        MTEST_OK(MPI_Start(then));
        MTEST_OK(MPI_Wait(then, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Wait(&second_recv, MPI_STATUS_IGNORE));
        finish_recv("twins");
        check(in, is_swapped ? value : value - 1, "twins");
        check(other, is_swapped ? value - 1 : value, "twins, the second");
        barrier();
    }
    MTEST_OK(MPI_Request_free(&second_send));
    MTEST_OK(MPI_Request_free(&second_recv));
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    next = (mtest_rank + 1) % mtest_size;
    prev = (mtest_rank + mtest_size - 1) % mtest_size;
    make_send();
    make_recv();
    if (argc > 1 && strcmp(argv[1], "deadlock") == 0) {
        settle();
        MTEST_OK(MPI_Start(&recv));
        MTEST_OK(MPI_Wait(&recv, MPI_STATUS_IGNORE));
    }
    another_receive(prev, TAG, "the same key");
    another_receive(MPI_ANY_SOURCE, TAG, "any source");
    another_receive(prev, MPI_ANY_TAG, "any tag");
    another_receive(MPI_ANY_SOURCE, MPI_ANY_TAG, "any");
    another_send();
    probes();
    cancels();
    frees();
    truncation();
    twins();
    MTEST_OK(MPI_Request_free(&send));
    MTEST_OK(MPI_Request_free(&recv));
    return mtest_end();
}
