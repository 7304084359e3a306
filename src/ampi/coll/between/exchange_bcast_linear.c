/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_bcast_linear.c: the root's part to all processes, by the root. Between few processes of one node, where all copy
 * from the root's memory at the same time and nobody waits for a process that may have no core. Cost: p - 1 messages of
 * n bytes by the root.
 */
#include "ampi/coll/between/exchange.h"

void ampi_exchange_bcast_linear(struct ampi_exchange *x)
{
    if (x->own == x->root) {
        x->in[x->root] = x->out[x->own];
        for (int i = 1; i < x->n; i++)
            ampi_exchange_send_part(x, ampi_exchange_after(x, i), 0, &x->in[x->root]);
    } else if (x->step == 0) {
        ampi_exchange_await(x, 0, 1);
    } else {
        x->in[x->root] = ampi_exchange_part_of(x->got);
    }
}
