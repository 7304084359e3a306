/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_allreduce_doubling.c: every process gets the combination of all vectors, by recursive doubling.
 * Cost: log2 p steps (two more if p is not a power of two), n bytes sent and combined in each.
 */
#include "ampi/coll/between/reduction.h"

#define TAG_RESULT 100

void ampi_exchange_allreduce_doubling(struct ampi_exchange *x)
{
    struct ampi_survivors s = ampi_survivors_of(x->n);
    struct ampi_reduction *r = x->reduction;
    int survivor = ampi_survivor_number(&s, x->own);
    bool has_partner = x->own < 2 * s.n_pairs;
    int round = x->step - has_partner;

    if (x->step > 0 && survivor >= 0) {
        ampi_reduction_combine(x, x->got, 0, r->count);
    } else if (x->step > 0) {
        ampi_reduction_replace(x, x->got, 0, r->count);
        return;
    }
    if (survivor < 0) {
        ampi_reduction_send(x, x->own - 1, 0, 0, r->count);
        ampi_exchange_await(x, TAG_RESULT, 1);
    } else if (round < 0) {
        ampi_exchange_await(x, 0, 1);
    } else if (1 << round < s.n) {
        ampi_reduction_send(x, ampi_survivor_participant(&s, survivor ^ 1 << round), 1 + round, 0, r->count);
        ampi_exchange_await(x, 1 + round, 1);
    } else if (has_partner) {
        ampi_reduction_send(x, x->own + 1, TAG_RESULT, 0, r->count);
    }
}
