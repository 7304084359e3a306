/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_scan_doubling.c: each gets what the vectors of the processes before it combine to, by recursive
 * doubling: in round k the processes of a block of 2^k exchange what theirs combine to with one of the next
 * block. Cost: ceil(log2 p) steps, n bytes sent and up to 2 n combined in each.
 */
#include "ampi/coll/between/reduction.h"

static void take(struct ampi_exchange *x)
{
    struct ampi_reduction *r = x->reduction;
    void *came = ampi_reduction_elems(x, x->got, r->count);

    if (came && ampi_exchange_sender(x, x->got) < x->own) {
        ampi_reduction_own(x);
        ampi_op_apply(r->op, came, r->elems, r->count, r->type);
        if (r->before)
            ampi_op_apply(r->op, came, r->before, r->count, r->type);
        else
            r->before = came;
    } else if (came) {
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
    while (1 << x->step < x->n && (x->own ^ 1 << x->step) >= x->n)
        x->step++; /* nobody there in this round */
    if (1 << x->step >= x->n)
        return;
    partner = x->own ^ 1 << x->step;
    ampi_reduction_send(x, partner, x->step, 0, x->reduction->count);
    ampi_exchange_await(x, x->step, 1);
}
