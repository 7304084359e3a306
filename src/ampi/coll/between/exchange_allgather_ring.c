/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_allgather_ring.c: every part to every process; each forwards to the next one the data from the
 * previous one. Cost: p - 1 steps, (p - 1) n bytes sent by each, no additional copy; traffic between
 * neighbors only.
 */
#include "ampi/coll/between/exchange.h"

void ampi_exchange_allgather_ring(struct ampi_exchange *x)
{
    int source = ampi_exchange_before(x, x->step);

    if (x->step == 0)
        x->in[x->own] = x->out[x->own];
    else
        x->in[source] = ampi_exchange_part_of(x->got);
    if (x->step == x->n - 1)
        return;
    ampi_exchange_send_part(x, ampi_exchange_after(x, 1), x->step, &x->in[source]);
    ampi_exchange_await(x, x->step, 1);
}
