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

void ampi_exchange_reduce_binomial(struct ampi_exchange *x)
{
    MPI_Count count = x->reduction->count;
    int top = x->reduction->op->is_commutative ? x->root : 0;
    int place = (x->own - top + x->n) % x->n;
    int size = ampi_exchange_subtree(place, x->n);
    int n_below = 0;
    int step = x->step;

    for (int mask = 1; mask < size; mask <<= 1)
        n_below++;
    if (n_below && step == 0) {
        ampi_exchange_await(x, 0, n_below);
        return;
    }
    if (n_below && step == 1)
        combine_all(x, size);
    if (step == (n_below ? 2 : 1)) { /* this is the operation's root, but not the tree's */
        ampi_reduction_replace(x, x->got, 0, count);
        return;
    }
    if (place > 0)
        ampi_reduction_send(x, (top + place - (place & -place)) % x->n, 0, 0, count);
    else if (x->own != x->root)
        ampi_reduction_send(x, x->root, TAG_RESULT, 0, count);
    if (x->own == x->root && place > 0)
        ampi_exchange_await(x, TAG_RESULT, 1);
}
