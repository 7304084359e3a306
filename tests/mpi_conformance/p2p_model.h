/* SPDX-License-Identifier: BSD-3-Clause
 *
 * p2p_model.h: the requests and messages of p2p_model.c, and the model of MPI's matching.
 */
#ifndef P2P_MODEL_H
#define P2P_MODEL_H

#include "mtest.h"

enum { OPS_MAX = 400, LEFT_MAX = 400, COMMS = 3, LONGEST = 6000, SLOTS = 24 };
enum state { FREE, INACTIVE, PENDING, MATCHED };

/* Memory of a request; all of it is kept until the end: MPI may use it after the request has been freed. */
struct buffer {
    struct buffer *next;
    int data[2 * LONGEST];
};

/* A request. It is detached if the program has freed it while it was active. */
struct op {
    enum state state;
    int is_persistent, is_send, is_sync, is_buffered, is_detached;
    int owner, comm, peer, tag, len, is_spread; /* comm: its number, ever */
    int from, got_tag, got_len, got_value;      /* MATCHED receive: its message */
    int value;                                  /* send: of the last start */
    MPI_Comm handle;                            /* the owner's: the communicator, while that is not freed */
    MPI_Request request;
    struct buffer *buffer; /* the owner's */
};

/* A message without a receive. */
struct message {
    int from, to, comm, tag, len, value;
    int op; /* the send, if it is not complete; or -1 */
};

static struct op ops[OPS_MAX];
static int posted[OPS_MAX], n_posted;
static struct message left[LEFT_MAX];
static int n_left, n_values;
static MPI_Comm comms[COMMS], control;
static int comm_number[COMMS], n_comms;
static MPI_Datatype spread;
static struct buffer *buffers, *unused;
static uint64_t state;

static int pick(int below)
{
    return (int)(mtest_random(&state) % (uint32_t)below);
}

static int is_mine(const struct op *op)
{
    return op->owner == mtest_rank;
}

/* ---- The model ---- */

static int fits(const struct op *recv, const struct message *m)
{
    return recv->owner == m->to && recv->comm == m->comm &&
           (recv->peer == MPI_ANY_SOURCE || recv->peer == m->from) &&
           (recv->tag == MPI_ANY_TAG || recv->tag == m->tag);
}

static void drop_posted(int at)
{
    memmove(&posted[at], &posted[at + 1], (size_t)(--n_posted - at) * sizeof posted[0]);
}

static void drop_left(int at)
{
    memmove(&left[at], &left[at + 1], (size_t)(--n_left - at) * sizeof left[0]);
}

static void end_match(struct op *op)
{
    op->state = op->is_detached ? FREE : MATCHED;
}

static void match(struct op *recv, const struct message *m)
{
    recv->from = m->from;
    recv->got_tag = m->tag;
    recv->got_len = m->len;
    recv->got_value = m->value;
    end_match(recv);
    if (m->op >= 0)
        end_match(&ops[m->op]);
}

/* The receive that a message would match: an index of posted, or -1. */
static int find_posted(const struct message *m)
{
    for (int i = 0; i < n_posted; i++)
        if (fits(&ops[posted[i]], m))
            return i;
    return -1;
}

static int find_left(const struct op *recv)
{
    for (int i = 0; i < n_left; i++)
        if (fits(recv, &left[i]))
            return i;
    return -1;
}

static struct message message_of(const struct op *op)
{
    return (struct message){op->owner, op->peer, op->comm, op->tag, op->len, op->value, (int)(op - ops)};
}

static void model_start(struct op *op)
{
    int at;

    op->state = PENDING;
    if (op->is_send) {
        struct message m = message_of(op);
        at = find_posted(&m);
        if (at < 0) {
            left[n_left++] = m;
            return;
        }
        match(&ops[posted[at]], &m);
        drop_posted(at);
        return;
    }
    at = find_left(op);
    if (at < 0) {
        posted[n_posted++] = (int)(op - ops);
        return;
    }
    match(op, &left[at]);
    drop_left(at);
}

static int is_alive(int comm)
{
    for (int i = 0; i < COMMS; i++)
        if (comm_number[i] == comm)
            return 1;
    return 0;
}

/* Messages on a freed communicator could be left over: only those with a receive are sent. */
static int may_start(const struct op *op)
{
    struct message m = message_of(op);

    return op->state == INACTIVE && n_left < LEFT_MAX - 8 &&
           (!op->is_send || is_alive(op->comm) || find_posted(&m) >= 0);
}

#endif
