/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_gather.c: all parts to the root. Binomial tree: ceil(log2 p) successive messages; a part is
 * copied at each process that it passes. Linear: p - 1 messages to the root, each with only the sender's
 * part.
 */
#include "ampi/coll/between/exchange.h"

static void take(struct ampi_exchange *x)
{
    for (const struct ampi_exchange_message *message = x->got; message; message = message->next) {
        struct ampi_exchange_entry entry;
        for (size_t at = 0; ampi_exchange_next_entry(message, &at, &entry);)
            x->in[entry.source] = entry.part;
    }
}

/* Sends the parts of the subtree to the parent. */
static void pass_on(struct ampi_exchange *x, int place, int size)
{
    struct ampi_exchange_entry *entries = ampi_exchange_alloc(x, (size_t)size * sizeof *entries);

    for (int i = 0; i < size; i++) {
        int source = (x->own + i) % x->n;
        entries[i] = (struct ampi_exchange_entry){source, x->root, x->in[source]};
    }
    ampi_exchange_send_entries(x, (x->root + place - (place & -place)) % x->n, 0, entries, size);
}

void ampi_exchange_gather_binomial(struct ampi_exchange *x)
{
    int place = (x->own - x->root + x->n) % x->n;
    int size = ampi_exchange_subtree(place, x->n);
    int n_below = 0;

    for (int mask = 1; mask < size; mask <<= 1)
        n_below++;
    if (x->step == 0) {
        x->in[x->own] = x->out[x->root];
        if (n_below) {
            ampi_exchange_await(x, 0, n_below);
            return;
        }
    }
    take(x);
    if (place > 0)
        pass_on(x, place, size);
}

void ampi_exchange_gather_linear(struct ampi_exchange *x)
{
    if (x->own != x->root) {
        ampi_exchange_send_part(x, x->root, 0, &x->out[x->root]);
    } else if (x->step == 0) {
        ampi_exchange_await(x, 0, x->n - 1);
    } else {
        for (const struct ampi_exchange_message *message = x->got; message; message = message->next)
            x->in[ampi_exchange_sender(x, message)] = ampi_exchange_part_of(message);
    }
}
