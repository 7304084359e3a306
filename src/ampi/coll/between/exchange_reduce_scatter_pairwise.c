/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_reduce_scatter_pairwise.c: each gets its own part of what all vectors combine to: everybody sends
 * it the elements that it needs. Cost: p - 1 messages of n / p bytes sent by each, n combined; all at once.
 */
#include "ampi/coll/between/reduction.h"

static const struct ampi_exchange_message *message_of(const struct ampi_exchange *x, int sender)
{
    const struct ampi_exchange_message *message = x->got;

    while (ampi_exchange_sender(x, message) != sender)
        message = message->next;
    return message;
}

void ampi_exchange_reduce_scatter_pairwise(struct ampi_exchange *x)
{
    MPI_Count from, to;

    if (x->step == 0) {
        for (int i = 1; i < x->n; i++) {
            ampi_reduction_blocks(x, ampi_exchange_after(x, i), &from, &to);
            ampi_reduction_send(x, ampi_exchange_after(x, i), 0, from, to - from);
        }
        ampi_exchange_await(x, 0, x->n - 1);
        return;
    }
    ampi_reduction_blocks(x, x->own, &from, &to);
    for (int i = x->own - 1; i >= 0; i--)
        ampi_reduction_combine(x, message_of(x, i), from, to - from);
    for (int i = x->own + 1; i < x->n; i++)
        ampi_reduction_combine(x, message_of(x, i), from, to - from);
}
