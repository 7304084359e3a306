/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_reduce_binomial.c: the root gets the combination of all vectors, up a binomial tree. If the
 * operation is not commutative, the tree's root is the first process, which forwards the result. Cost:
 * ceil(log2 p) successive messages (or one more), n bytes each; n combined with each.
 */
#include "ampi/coll/between/reduction.h"

#define TAG_RESULT 100

/* Combines all vectors from the subtrees: the nearest subtree first, to keep the order. */
static void combine_all(struct ampi_exchange *x, int size)
{
    for (int mask = 1; mask < size; mask <<= 1) {
        int from = (x->own + mask) % x->n;
        const struct ampi_exchange_message *message = x->got;
        while (ampi_exchange_sender(x, message) != from)
            message = message->next;
        ampi_reduction_combine(x, message, 0, x->reduction->count);
    }
}

/* ---- Vectors that are lent: one after the other, so that each is combined while it is copied ---- */

/* The memory for the combined vector: the root's buffer, unless the root's own contribution is there. */
static void *home_of(struct ampi_exchange *x)
{
    const struct ampi_reduction *r = x->reduction;
    void *buffer = x->own == x->root && ampi_reduction_has_one_member(x) ? x->slot->last->recv.buf : NULL;

    return buffer && buffer != r->elems ? buffer : ampi_reduction_alloc(x, r->count);
}

static int absorb(struct ampi_exchange *x, const struct ampi_exchange_message *message)
{
    if (message->n_bytes != x->reduction->n_bytes)
        return MACHINE_FAILED; /* the sizes differ: it comes again as data, and is reported then */
    return ampi_reduction_absorb_whole(x, message, x->reduction->is_own ? NULL : home_of(x));
}

/* Waits for the next subtree's vector; false: all have come. */
static bool await_next(struct ampi_exchange *x, int n_below)
{
    x->reduction->absorb = absorb;
    if (x->step > 0 && x->step <= n_below)
        ampi_reduction_combine_rest(x, x->got);
    if (x->step >= n_below)
        return false;
    ampi_exchange_await(x, x->step, 1);
    return true;
}

void ampi_exchange_reduce_binomial(struct ampi_exchange *x)
{
    MPI_Count count = x->reduction->count;
    int top = x->reduction->op->is_commutative ? x->root : 0;
    int place = (x->own - top + x->n) % x->n;
    int size = ampi_exchange_subtree(place, x->n);
    int n_below = 0, last;

    for (int mask = 1; mask < size; mask <<= 1)
        n_below++;
    last = x->reduction->is_lent ? n_below : n_below > 0; /* the step in which all vectors have arrived */
    if (x->reduction->is_lent && x->step <= last) {
        if (await_next(x, n_below))
            return;
    } else if (x->step < last) {
        ampi_exchange_await(x, AMPI_EXCHANGE_ANY_TAG, n_below);
        return;
    } else if (x->step == last) {
        combine_all(x, size);
    }
    if (x->step > last) { /* this is the operation's root, but not the tree's */
        ampi_reduction_replace(x, x->got, 0, count);
        return;
    }
    if (place > 0)
        ampi_reduction_send(x, (top + place - (place & -place)) % x->n, __builtin_ctz((unsigned)place), 0,
                            count);
    else if (x->own != x->root)
        ampi_reduction_send(x, x->root, TAG_RESULT, 0, count);
    x->reduction->absorb = NULL;
    if (x->own == x->root && place > 0)
        ampi_exchange_await(x, TAG_RESULT, 1);
}
