/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_allreduce_halving.c: vectors are combined piece by piece (Rabenseifner): in round k two
 * neighbors at a distance of 2^k exchange halves of their remaining range, and each combines one; in the
 * end each has a piece of the result. Then the pieces are collected, by all processes (the rounds
 * backwards) or by the root. Cost: all: 2 log2 p steps, 2 n (p - 1) / p bytes sent and n combined by each;
 * the root: log2 p + 1 steps, half the bytes. Two steps and n bytes more if p is not a power of two.
 */
#include "ampi/coll/between/reduction.h"

#define TAG_COLLECT 40
#define TAG_RESULT 100

struct range {
    MPI_Count from;
    MPI_Count to;
};

/* The elements of a survivor after some rounds. */
static struct range range_after(const struct ampi_reduction *r, int survivor, int n_rounds)
{
    struct range range = {0, r->count};

    for (int round = 0; round < n_rounds; round++) {
        MPI_Count middle = range.from + (range.to - range.from) / 2;
        if (survivor >> round & 1)
            range.from = middle;
        else
            range.to = middle;
    }
    return range;
}

static void send_range(struct ampi_exchange *x, int to, int tag, struct range range)
{
    ampi_reduction_send(x, to, tag, range.from, range.to - range.from);
}

static int n_rounds_of(const struct ampi_survivors *s)
{
    return __builtin_ctz((unsigned)s->n);
}

/* Runs up to the end of the halving; true: it was reached. *round_out: steps of the survivor so far. */
static bool halve(struct ampi_exchange *x, const struct ampi_survivors *s, int survivor, int *round_out)
{
    struct ampi_reduction *r = x->reduction;
    int round = x->step - (x->own < 2 * s->n_pairs);
    int partner;

    *round_out = round;
    if (round < 0) {
        ampi_exchange_await(x, 0, 1);
        return false;
    }
    if (round > n_rounds_of(s))
        return true;
    if (x->step > 0) {
        struct range kept = range_after(r, survivor, round);
        ampi_reduction_combine(x, x->got, kept.from, kept.to - kept.from);
    }
    if (round == n_rounds_of(s))
        return true;
    partner = survivor ^ 1 << round;
    send_range(x, ampi_survivor_participant(s, partner), 1 + round, range_after(r, partner, round + 1));
    ampi_exchange_await(x, 1 + round, 1);
    return false;
}

void ampi_exchange_allreduce_halving(struct ampi_exchange *x)
{
    struct ampi_survivors s = ampi_survivors_of(x->n);
    struct ampi_reduction *r = x->reduction;
    int survivor = ampi_survivor_number(&s, x->own);
    int round, level;

    if (survivor < 0) {
        if (x->step > 0) {
            ampi_reduction_replace(x, x->got, 0, r->count);
            return;
        }
        ampi_reduction_send(x, x->own - 1, 0, 0, r->count);
        ampi_exchange_await(x, TAG_RESULT, 1);
        return;
    }
    if (!halve(x, &s, survivor, &round))
        return;
    level = 2 * n_rounds_of(&s) - round; /* pieces of this round's size are complete */
    if (level < n_rounds_of(&s)) {
        struct range other = range_after(r, survivor ^ 1 << level, level + 1);
        ampi_reduction_replace(x, x->got, other.from, other.to - other.from);
    }
    if (level > 0) {
        send_range(x, ampi_survivor_participant(&s, survivor ^ 1 << (level - 1)), TAG_COLLECT + level,
                   range_after(r, survivor, level));
        ampi_exchange_await(x, TAG_COLLECT + level, 1);
    } else if (x->own < 2 * s.n_pairs) {
        ampi_reduction_send(x, x->own + 1, TAG_RESULT, 0, r->count);
    }
}

/* The root collects all pieces. */
static void collect(struct ampi_exchange *x, const struct ampi_survivors *s)
{
    for (const struct ampi_exchange_message *message = x->got; message; message = message->next) {
        int survivor = ampi_survivor_number(s, ampi_exchange_sender(x, message));
        struct range range = range_after(x->reduction, survivor, n_rounds_of(s));
        ampi_reduction_replace(x, message, range.from, range.to - range.from);
    }
}

void ampi_exchange_reduce_halving(struct ampi_exchange *x)
{
    struct ampi_survivors s = ampi_survivors_of(x->n);
    struct ampi_reduction *r = x->reduction;
    int survivor = ampi_survivor_number(&s, x->own);
    int round;

    if (survivor < 0) {
        if (x->step > 0) {
            collect(x, &s);
            return;
        }
        ampi_reduction_send(x, x->own - 1, 0, 0, r->count);
        if (x->own == x->root)
            ampi_exchange_await(x, TAG_COLLECT, s.n);
        return;
    }
    if (!halve(x, &s, survivor, &round))
        return;
    if (round > n_rounds_of(&s))
        collect(x, &s);
    else if (x->own == x->root)
        ampi_exchange_await(x, TAG_COLLECT, s.n - 1);
    else
        send_range(x, x->root, TAG_COLLECT, range_after(r, survivor, round));
}
