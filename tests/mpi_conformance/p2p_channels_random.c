/* SPDX-License-Identifier: BSD-3-Clause */
/* Random mixes of persistent and ordinary sends and receives with few tags, wildcards and probes match in the order that
 * the standard requires: each message the earliest receive that fits. All messages of a rank come from one other rank, so
 * there is one right result, which both compute. */
#include "mtest.h"

enum { ROUNDS = 400, MOST = 12, TAGS = 3, TWINS = 2, ROOM = 5000 };

/* A round, known to the sender and to the receiver. */
struct plan {
    int n;
    int tag[MOST];        /* of the messages, in the order of sending */
    int send_way[MOST];   /* below TWINS: that persistent request of the tag; else ordinary */
    int len[MOST];        /* of the messages, in ints */
    int wanted[MOST];     /* tags of the receives, in the order of posting; or MPI_ANY_TAG */
    int recv_way[MOST];   /* like send_way */
    int is_any[MOST];     /* receive: from any source */
    int message_of[MOST]; /* receive: the message it gets */
};

static MPI_Request sends[TAGS][TWINS], recvs[TAGS][TWINS], any_recv;
static int send_bufs[TAGS][TWINS][ROOM], recv_bufs[TAGS][TWINS][ROOM], any_buf[ROOM];
static int next, prev;
static MPI_Datatype spread; /* two ints with a gap */

/* Lengths of the persistent sends' messages, in ints: inline, in a message, by rendezvous. */
static int len_of(int tag, int twin)
{
    return (tag + twin) % 3 == 0 ? 2 : (tag + twin) % 3 == 1 ? 60 : ROOM - 1;
}

/* False: some message and some receive would be left over. */
static int match(struct plan *plan)
{
    int is_taken[MOST] = {0};

    for (int m = 0; m < plan->n; m++) {
        int r = 0;
        while (r < plan->n &&
               (is_taken[r] || (plan->wanted[r] != MPI_ANY_TAG && plan->wanted[r] != plan->tag[m])))
            r++;
        if (r == plan->n)
            return 0;
        is_taken[r] = 1;
        plan->message_of[r] = m;
    }
    return 1;
}

static void make_plan(struct plan *plan, int sender, int round)
{
    uint64_t state = (uint64_t)sender * 7919 + (uint64_t)round * 104729 + 5;
    int is_used[2][TAGS][TWINS] = {{{0}}}, is_any_used = 0, mostly = (int)(mtest_random(&state) % 4);

    plan->n = 1 + (int)(mtest_random(&state) % MOST);
    for (int i = 0; i < plan->n; i++) {
        int tag = (int)(mtest_random(&state) % TAGS), twin = (int)(mtest_random(&state) % (TWINS + 1));
        plan->tag[i] = tag;
        plan->send_way[i] = TWINS;
        if (mostly > 0 && twin == TWINS)
            twin = 0;
        if (twin < TWINS && !is_used[0][tag][twin]) {
            is_used[0][tag][twin] = 1;
            plan->send_way[i] = twin;
        }
        plan->len[i] = plan->send_way[i] < TWINS ? len_of(tag, twin) : 1 + (int)(mtest_random(&state) % 80);
        plan->wanted[i] = mtest_random(&state) % 8 < (mostly < 2 ? 1 : 0) ? MPI_ANY_TAG : tag;
    }
    for (int i = plan->n - 1; i > 0; i--) {
        int j = (int)(mtest_random(&state) % (uint32_t)(i + 1)), hold = plan->wanted[i];
        plan->wanted[i] = plan->wanted[j];
        plan->wanted[j] = hold;
    }
    if (!match(plan)) {
        for (int i = 0; i < plan->n; i++)
            plan->wanted[i] = plan->tag[i];
        match(plan);
    }
    for (int i = 0; i < plan->n; i++) {
        int twin = mostly > 0 ? 0 : (int)(mtest_random(&state) % (TWINS + 1)), tag = plan->wanted[i];
        plan->is_any[i] = mostly < 2 && mtest_random(&state) % 8 == 0;
        plan->recv_way[i] = TWINS;
        if (tag == MPI_ANY_TAG && plan->is_any[i] && !is_any_used) {
            is_any_used = 1;
            plan->recv_way[i] = 0;
        } else if (tag != MPI_ANY_TAG && !plan->is_any[i] && twin < TWINS && !is_used[1][tag][twin]) {
            is_used[1][tag][twin] = 1;
            plan->recv_way[i] = twin;
        }
    }
}

static void make_send(int tag, int twin)
{
    int len = len_of(tag, twin);

    if (len == 2)
        MTEST_OK(
            MPI_Send_init(send_bufs[tag][twin], 1, spread, next, tag, MPI_COMM_WORLD, &sends[tag][twin]));
    else if (twin)
        MTEST_OK(
            MPI_Ssend_init(send_bufs[tag][twin], len, MPI_INT, next, tag, MPI_COMM_WORLD, &sends[tag][twin]));
    else
        MTEST_OK(
            MPI_Send_init(send_bufs[tag][twin], len, MPI_INT, next, tag, MPI_COMM_WORLD, &sends[tag][twin]));
}

static void make_recv(int tag, int twin)
{
    MTEST_OK(
        MPI_Recv_init(recv_bufs[tag][twin], ROOM, MPI_INT, prev, tag, MPI_COMM_WORLD, &recvs[tag][twin]));
}

/* The first and the last int of a message. */
static int content(int sender, int round, int m)
{
    return sender * 1000000 + round * 100 + m;
}

static MPI_Request start_send(const struct plan *plan, int m, int round, int *buf)
{
    int value = content(mtest_rank, round, m), tag = plan->tag[m], way = plan->send_way[m];
    MPI_Request request;

    if (way < TWINS) {
        int *own = send_bufs[tag][way];
        own[0] = value;
        own[plan->len[m] == 2 ? 2 : plan->len[m] - 1] = value;
        MTEST_OK(MPI_Start(&sends[tag][way]));
        return sends[tag][way];
    }
    buf[0] = buf[plan->len[m] - 1] = value;
    if (value % 3)
        MTEST_OK(MPI_Isend(buf, plan->len[m], MPI_INT, next, tag, MPI_COMM_WORLD, &request));
    else
        MTEST_OK(MPI_Issend(buf, plan->len[m], MPI_INT, next, tag, MPI_COMM_WORLD, &request));
    return request;
}

static MPI_Request start_recv(const struct plan *plan, int r, int *buf, int **buf_out)
{
    int tag = plan->wanted[r], way = plan->recv_way[r];
    MPI_Request request;

    if (way == TWINS) {
        *buf_out = buf;
        MTEST_OK(MPI_Irecv(buf, ROOM, MPI_INT, plan->is_any[r] ? MPI_ANY_SOURCE : prev, tag, MPI_COMM_WORLD,
                           &request));
        return request;
    }
    *buf_out = tag == MPI_ANY_TAG ? any_buf : recv_bufs[tag][way];
    request = tag == MPI_ANY_TAG ? any_recv : recvs[tag][way];
    MTEST_OK(MPI_Start(&request));
    return request;
}

static void do_round(int round, uint64_t *state)
{
    static int extra_out[MOST][ROOM], extra_in[MOST][ROOM];
    struct plan mine, theirs;
    MPI_Request out[MOST], in[MOST];
    MPI_Status statuses[MOST];
    int *bufs[MOST], n_sent = 0, n_posted = 0, flag;

    make_plan(&mine, mtest_rank, round);
    make_plan(&theirs, prev, round);
    while (n_sent < mine.n || n_posted < theirs.n) {
        uint32_t pick = mtest_random(state) % 20;
        if (pick == 0)
            MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        else if ((pick < 9 || n_posted == theirs.n) && n_sent < mine.n)
            out[n_sent] = start_send(&mine, n_sent, round, extra_out[n_sent]), n_sent++;
        else if (n_posted < theirs.n)
            in[n_posted] = start_recv(&theirs, n_posted, extra_in[n_posted], &bufs[n_posted]), n_posted++;
    }
    MTEST_OK(MPI_Waitall(mine.n, out, MPI_STATUSES_IGNORE));
    MTEST_OK(MPI_Waitall(theirs.n, in, statuses));
    for (int r = 0; r < theirs.n; r++) {
        int m = theirs.message_of[r], expected = content(prev, round, m), count = -1;
        MTEST_OK(MPI_Get_count(&statuses[r], MPI_INT, &count));
        MTEST_CHECK(statuses[r].MPI_SOURCE == prev && statuses[r].MPI_TAG == theirs.tag[m] &&
                        count == theirs.len[m],
                    "round %d receive %d: source %d, tag %d, count %d; expected %d, %d, %d", round, r,
                    statuses[r].MPI_SOURCE, statuses[r].MPI_TAG, count, prev, theirs.tag[m], theirs.len[m]);
        MTEST_CHECK(bufs[r][0] == expected && bufs[r][theirs.len[m] - 1] == expected,
                    "round %d receive %d: %d, %d; expected %d", round, r, bufs[r][0],
                    bufs[r][theirs.len[m] - 1], expected);
    }
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    uint64_t state = (uint64_t)mtest_rank + 77;
    next = (mtest_rank + 1) % mtest_size;
    prev = (mtest_rank + mtest_size - 1) % mtest_size;
    MTEST_OK(MPI_Type_vector(2, 1, 2, MPI_INT, &spread));
    MTEST_OK(MPI_Type_commit(&spread));
    for (int tag = 0; tag < TAGS; tag++)
        for (int twin = 0; twin < TWINS; twin++) {
            make_send(tag, twin);
            make_recv(tag, twin);
        }
    MTEST_OK(MPI_Recv_init(any_buf, ROOM, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &any_recv));
    for (int round = 0; round < ROUNDS; round++) {
        int tag = (int)(mtest_random(&state) % TAGS), twin = (int)(mtest_random(&state) % TWINS);
        do_round(round, &state);
        if (mtest_random(&state) % 8 == 0) {
            MTEST_OK(MPI_Request_free(&sends[tag][twin]));
            make_send(tag, twin);
        }
        if (mtest_random(&state) % 8 == 0) {
            MTEST_OK(MPI_Request_free(&recvs[tag][twin]));
            make_recv(tag, twin);
        }
        if (round % 50 == 0)
            MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    for (int tag = 0; tag < TAGS; tag++)
        for (int twin = 0; twin < TWINS; twin++) {
            MTEST_OK(MPI_Request_free(&sends[tag][twin]));
            MTEST_OK(MPI_Request_free(&recvs[tag][twin]));
        }
    MTEST_OK(MPI_Request_free(&any_recv));
    MTEST_OK(MPI_Type_free(&spread));
    return mtest_end();
}
