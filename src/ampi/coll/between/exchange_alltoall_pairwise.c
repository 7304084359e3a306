/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_alltoall_pairwise.c: a different part from each to each, directly: in round i each process sends
 * to the one i places further. Up to WINDOW rounds overlap. In the sparse form a process has parts for some
 * others only. Cost: p - 1 messages of n bytes sent by each, no additional copy.
 */
#include "ampi/coll/between/exchange.h"

/* Overlapping rounds: more messages to one process at a time would only queue up there. */
#define WINDOW 8

static void take(struct ampi_exchange *x)
{
    for (const struct ampi_exchange_message *message = x->got; message; message = message->next)
        x->in[ampi_exchange_sender(x, message)] = ampi_exchange_part_of(message);
}

void ampi_exchange_alltoall_pairwise(struct ampi_exchange *x)
{
    int from = 1 + x->step * WINDOW;
    int to = from + WINDOW < x->n ? from + WINDOW : x->n;

    take(x);
    if (from >= x->n)
        return;
    for (int i = from; i < to; i++)
        ampi_exchange_send_part(x, ampi_exchange_after(x, i), x->step, &x->out[ampi_exchange_after(x, i)]);
    ampi_exchange_await(x, x->step, to - from);
}

void ampi_exchange_sparse(struct ampi_exchange *x)
{
    take(x);
    if (x->step > 0)
        return;
    for (int i = 1; i < x->n; i++)
        if (x->is_target[ampi_exchange_after(x, i)])
            ampi_exchange_send_part(x, ampi_exchange_after(x, i), 0, &x->out[ampi_exchange_after(x, i)]);
    if (x->n_sources)
        ampi_exchange_await(x, 0, x->n_sources);
}
