/* SPDX-License-Identifier: BSD-3-Clause */
/* A random program of partitioned sends and receives has the results that a model predicts: pairs that the order of
 * creation decides, sides that start rounds apart, partitions marked ready in any order and by all three functions,
 * requests freed between rounds, partitions without elements. Every rank makes the same random choices and keeps the same
 * model; in each step one rank acts. With "apart" ranks may be at different steps.
 *
 * usage: part_model [seed [steps [apart]]]
 */
#include "mtest.h"

#if MPI_VERSION >= 4
enum { ENDS_MAX = 96, PARTS_MAX = 24, LONGEST = 12000, AHEAD_MAX = 4 };

/* One side of a channel. */
struct end {
    int is_used, is_gone, is_send, owner, peer_rank, tag, n_parts, len; /* len: ints of all partitions */
    int peer;                         /* the other side; -1: not made yet, or freed */
    int is_active;                    /* is_gone: was freed, and its peer was not */
    int round;                        /* number of starts */
    int is_ready[PARTS_MAX], n_ready; /* send: partitions of this round */
    MPI_Request request;
    int *buf;
    int seen; /* receive: partitions that MPI_Parrived has seen, as bits */
};

static struct end ends[ENDS_MAX];
static int order[ENDS_MAX], n_order; /* the ends without a peer, in the order of creation */
static uint64_t state;
static int is_apart;

static int pick(int below)
{
    return (int)(mtest_random(&state) % (uint32_t)below);
}

static int is_mine(const struct end *end)
{
    return end->owner == mtest_rank;
}

static int content(int send, int round, int i)
{
    return send * 100003 + round * 10007 + i * 3 + 1;
}

/* ---- Creation ---- */

static int is_pair(const struct end *a, const struct end *b)
{
    return a->is_send != b->is_send && a->owner == b->peer_rank && b->owner == a->peer_rank &&
           a->tag == b->tag;
}

/* Partitions of a side: a divisor of the ints. */
static int pick_parts(int len)
{
    static const int divisors[] = {1, 2, 3, 4, 6, 12, 24};

    return len == 0 ? 1 + pick(4) : divisors[pick(7)];
}

static void pair_up(int at)
{
    for (int i = 0; i < n_order; i++)
        if (is_pair(&ends[order[i]], &ends[at])) {
            ends[at].peer = order[i];
            ends[order[i]].peer = at;
            memmove(&order[i], &order[i + 1], (size_t)(--n_order - i) * sizeof order[0]);
            return;
        }
    order[n_order++] = at;
}

/* The two sides of a channel have the same length, so it depends on the key alone. */
static int len_of(int from, int to, int tag)
{
    static const int lens[] = {24, 24, 240, 0, 12000, 2400};

    return lens[(from * 5 + to * 3 + tag) % 6];
}

static void step_create(void)
{
    int at = 0;
    struct end *end;

    while (at < ENDS_MAX && ends[at].is_used)
        at++;
    if (at == ENDS_MAX)
        return;
    end = &ends[at];
    *end = (struct end){.is_used = 1,
                        .is_send = pick(2),
                        .owner = pick(mtest_size),
                        .peer_rank = pick(mtest_size),
                        .tag = pick(2),
                        .peer = -1};
    end->len = end->is_send ? len_of(end->owner, end->peer_rank, end->tag)
                            : len_of(end->peer_rank, end->owner, end->tag);
    end->n_parts = pick_parts(end->len);
    /* Wait for the other sides of some, so that most become pairs. */
    if (n_order > 0 && pick(3)) {
        const struct end *like = &ends[order[pick(n_order)]];
        end->is_send = !like->is_send;
        end->owner = like->peer_rank;
        end->peer_rank = like->owner;
        end->tag = like->tag;
        end->len = like->len;
        end->n_parts = pick_parts(end->len);
    }
    if (is_mine(end)) {
        end->buf = mtest_alloc(LONGEST * sizeof *end->buf);
        if (end->is_send)
            MTEST_OK(MPI_Psend_init(end->buf, end->n_parts, end->len / end->n_parts, MPI_INT, end->peer_rank,
                                    end->tag, MPI_COMM_WORLD, MPI_INFO_NULL, &end->request));
        else
            MTEST_OK(MPI_Precv_init(end->buf, end->n_parts, end->len / end->n_parts, MPI_INT, end->peer_rank,
                                    end->tag, MPI_COMM_WORLD, MPI_INFO_NULL, &end->request));
    }
    pair_up(at);
}

/* ---- Rounds ---- */

/* All partitions of this receive's round are ready. */
static int is_sent(const struct end *recv)
{
    const struct end *send = recv->peer >= 0 ? &ends[recv->peer] : NULL;

    return send && (send->round > recv->round ||
                    (send->round == recv->round && (!send->is_active || send->n_ready == send->n_parts)));
}

/* No send is started whose data might stay without a receive at the end. */
static int may_start(const struct end *end)
{
    if (!end->is_used || end->is_gone || end->is_active || end->peer < 0 || ends[end->peer].is_gone)
        return 0;
    return !end->is_send || (end->round < ends[end->peer].round + (end->len <= 240 ? AHEAD_MAX : 1));
}

static void start(struct end *end)
{
    if (!may_start(end))
        return;
    end->is_active = 1;
    end->round++;
    end->n_ready = end->seen = 0;
    memset(end->is_ready, 0, sizeof end->is_ready);
    if (!is_mine(end))
        return;
    for (int i = 0; i < end->len && !end->is_send; i++)
        end->buf[i] = -1;
    if (end->round % 2)
        MTEST_OK(MPI_Start(&end->request));
    else
        MTEST_OK(MPI_Startall(1, &end->request));
}

static void fill(struct end *end, int part)
{
    int each = end->len / end->n_parts;

    for (int i = part * each; i < (part + 1) * each && is_mine(end); i++)
        end->buf[i] = content((int)(end - ends), end->round, i);
    end->is_ready[part] = 1;
    end->n_ready++;
}

/* Marks one partition, or a list, or a range of those that are not ready. */
static void step_ready(struct end *end)
{
    int way = pick(3), first = pick(PARTS_MAX), most = 1 + pick(6), list[PARTS_MAX], n = 0;

    if (!end->is_send || !end->is_active)
        return;
    for (int k = 0; k < end->n_parts && n < (way == 0 ? 1 : most); k++) {
        int part = (first + k) % end->n_parts;
        if (!end->is_ready[part])
            list[n++] = part;
        else if (way == 2 && n > 0)
            break;
        if (way == 2 && n > 0 && part == end->n_parts - 1)
            break; /* a range does not begin again at 0 */
    }
    if (n == 0)
        return;
    for (int i = 0; i < n; i++)
        fill(end, list[i]);
    if (!is_mine(end))
        return;
    if (way == 0)
        MTEST_OK(MPI_Pready(list[0], end->request));
    else if (way == 1)
        MTEST_OK(MPI_Pready_list(n, list, end->request));
    else
        MTEST_OK(MPI_Pready_range(list[0], list[n - 1], end->request));
}

static void check_part(const struct end *end, int part)
{
    int each = end->len / end->n_parts;

    for (int i = part * each; i < (part + 1) * each; i++)
        if (end->buf[i] != content(end->peer, end->round, i)) {
            MTEST_CHECK(0, "receive %d round %d partition %d of %d: element %d is %d, expected %d",
                        (int)(end - ends), end->round, part, end->n_parts, i, end->buf[i],
                        content(end->peer, end->round, i));
            return;
        }
}

/* Are the partitions of the send that overlap this one of the receive ready? */
static int may_have_arrived(const struct end *recv, int part)
{
    const struct end *send = recv->peer >= 0 ? &ends[recv->peer] : NULL;
    int each = recv->len / recv->n_parts, theirs;

    if (!send || is_sent(recv))
        return send != NULL;
    if (send->round < recv->round || each == 0)
        return 0;
    theirs = send->len / send->n_parts;
    for (int i = part * each / theirs; i * theirs < (part + 1) * each; i++)
        if (!send->is_ready[i])
            return 0;
    return 1;
}

static void step_arrived(struct end *end)
{
    int part = pick(end->n_parts ? end->n_parts : 1), flag = 0;

    if (end->is_send || !end->is_used || end->is_gone || !is_mine(end))
        return;
    MTEST_OK(MPI_Parrived(end->request, part, &flag));
    if (!end->is_active) {
        MTEST_CHECK(flag, "a partition of an inactive receive has not arrived");
        return;
    }
    MTEST_CHECK(!flag || is_apart || may_have_arrived(end, part),
                "receive %d round %d: partition %d has arrived, but is not ready", (int)(end - ends),
                end->round, part);
    MTEST_CHECK(flag || !(end->seen & 1 << part), "a partition that had arrived has not");
    if (flag) {
        end->seen |= 1 << part;
        check_part(end, part);
    }
}

/* Completes what must be complete; nothing else is. */
static void step_end(struct end *end)
{
    int way = pick(2), flag = 0, count = -1;
    MPI_Status status;

    if (!end->is_used || !end->is_active)
        return;
    if (end->is_send ? end->n_ready < end->n_parts : !is_sent(end)) {
        if (is_mine(end) && (end->is_send || !is_apart))
            MTEST_OK(MPI_Test(&end->request, &flag, MPI_STATUS_IGNORE));
        MTEST_CHECK(!flag, "%s %d is complete before its last partition is ready",
                    end->is_send ? "send" : "receive", (int)(end - ends));
        return;
    }
    /* A send of much data may wait for its receive. */
    if (end->is_send && end->len > 240 && ends[end->peer].round < end->round)
        return;
    end->is_active = 0;
    if (!is_mine(end))
        return;
    if (way)
        MTEST_OK(MPI_Wait(&end->request, &status));
    for (flag = 0; !flag && !way;)
        MTEST_OK(MPI_Test(&end->request, &flag, &status));
    if (end->is_send)
        return;
    MPI_Get_count(&status, MPI_INT, &count);
    MTEST_CHECK(status.MPI_SOURCE == end->peer_rank && status.MPI_TAG == end->tag && count == end->len,
                "receive %d: source %d, tag %d, count %d; expected %d, %d, %d", (int)(end - ends),
                status.MPI_SOURCE, status.MPI_TAG, count, end->peer_rank, end->tag, end->len);
    for (int part = 0; part < end->n_parts; part++)
        check_part(end, part);
}

/* Frees one side, which has done as many rounds as the other; that may still be under way. */
static void step_free(struct end *end)
{
    struct end *other = end->peer >= 0 ? &ends[end->peer] : NULL;

    if (!end->is_used || end->is_gone || end->is_active || !other || other->round != end->round)
        return;
    if (is_mine(end)) {
        MTEST_OK(MPI_Request_free(&end->request));
        free(end->buf);
    }
    end->is_gone = 1;
    if (other->is_gone)
        end->is_used = other->is_used = 0;
}

static void sync(void)
{
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void step(void)
{
    int what = pick(100);
    struct end *end = &ends[pick(pick(2) ? ENDS_MAX : 8)];

    if (what < 6)
        step_create();
    else if (what < 30)
        start(end);
    else if (what < 70)
        step_ready(end);
    else if (what < 80)
        step_arrived(end);
    else if (what < 98)
        step_end(end);
    else
        step_free(end);
    if (pick(50) == 0 || !is_apart)
        sync();
}

/* Ends all rounds, and frees all. */
static void finish(void)
{
    int n_busy = 1;

    while (n_busy > 0) {
        n_busy = 0;
        for (int i = 0; i < ENDS_MAX; i++) {
            struct end *end = &ends[i], *other = end->peer >= 0 ? &ends[end->peer] : NULL;
            if (!end->is_used)
                continue;
            if (other && !end->is_active && end->round < other->round)
                start(end);
            while (end->is_send && end->is_active && end->n_ready < end->n_parts)
                step_ready(end);
            step_end(end);
            n_busy += end->is_active || (other && end->round != other->round);
            sync();
        }
    }
    for (int i = 0; i < ENDS_MAX; i++) {
        step_free(&ends[i]);
        if (ends[i].is_used && ends[i].peer < 0 && is_mine(&ends[i])) {
            MTEST_OK(MPI_Request_free(&ends[i].request));
            free(ends[i].buf);
        }
    }
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int steps = argc > 2 ? atoi(argv[2]) : 20000;
    is_apart = argc > 3;

    for (int i = 0; i < steps; i++)
        step();
    finish();
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
