/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_bcast_binomial.c: the root's part to all processes down a binomial tree. Cost: ceil(log2 p)
 * successive messages of n bytes, forwarded without a copy.
 */
#include "ampi/coll/between/exchange.h"

void ampi_exchange_bcast_binomial(struct ampi_exchange *x)
{
    int place = (x->own - x->root + x->n) % x->n;
    int size = ampi_exchange_subtree(place, x->n);
    int mask = 1;

    if (x->own != x->root && x->step == 0) {
        ampi_exchange_await(x, 0, 1);
        return;
    }
    x->in[x->root] = x->own == x->root ? x->out[x->own] : ampi_exchange_part_of(x->got);
    while (mask < size)
        mask <<= 1;
    for (mask >>= 1; mask; mask >>= 1) /* the largest subtree first */
        ampi_exchange_send_part(x, (x->own + mask) % x->n, 0, &x->in[x->root]);
}
