/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_scan_doubling.c: prefix sums by recursive doubling: each process gets the combination of the vectors of all
 * processes before it. In round k each process of a block of 2^k sends its block's combination to a process of the
 * neighboring block, from the upper to the lower block only if that one is used in a later round. Cost: ceil(log2 p)
 * steps, n bytes sent and up to 2 n combined in each.
 */
#include "ampi/coll/between/reduction.h"

static int partner_in(int participant, int round)
{
    return participant ^ 1 << round;
}

/* True if the participant has a partner in this round or a later one. */
static bool has_round_from(const struct ampi_exchange *x, int participant, int round)
{
    for (; 1 << round < x->n; round++)
        if (partner_in(participant, round) < x->n)
            return true;
    return false;
}

/* Combines the elements that came with those of earlier rounds: lower processes come in later rounds. */
static void take_before(struct ampi_exchange *x, const void *came)
{
    struct ampi_reduction *r = x->reduction;
    void *before;

    if (!r->before) {
        r->before = came;
        return;
    }
    before = ampi_reduction_alloc(x, r->count);
    ampi_type_copy(before, r->count, r->type, r->before, r->count, r->type);
    ampi_op_apply(r->op, came, before, r->count, r->type);
    r->before = before;
}

static void take(struct ampi_exchange *x)
{
    struct ampi_reduction *r = x->reduction;
    bool is_before = ampi_exchange_sender(x, x->got) < x->own;

    if (is_before) {
        const void *came = ampi_reduction_elems(x, x->got, r->count);
        if (!came)
            return;
        take_before(x, came);
        if (has_round_from(x, x->own, x->step)) {
            ampi_reduction_own(x);
            ampi_op_apply(r->op, came, r->elems, r->count, r->type);
        }
    } else {
        void *came = ampi_reduction_own_elems(x, x->got, r->count);
        if (!came)
            return;
        ampi_op_apply(r->op, r->elems, came, r->count, r->type);
        r->elems = came;
        r->is_own = true;
    }
}

void ampi_exchange_scan_doubling(struct ampi_exchange *x)
{
    int partner;

    if (x->got)
        take(x);
    while (1 << x->step < x->n && partner_in(x->own, x->step) >= x->n)
        x->step++; /* no partner in this round */
    if (1 << x->step >= x->n)
        return;
    partner = partner_in(x->own, x->step);
    if (partner > x->own || has_round_from(x, partner, x->step + 1))
        ampi_reduction_send(x, partner, x->step, 0, x->reduction->count);
    if (partner < x->own || has_round_from(x, x->own, x->step + 1))
        ampi_exchange_await(x, x->step, 1);
}
