/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_allgather.c: every part to every process.
 */
#include "ampi/coll/between/exchange.h"

/* ---- Ring ----
 * Each process forwards to the next one the data from the previous one. Cost: p - 1 steps, (p - 1) n bytes sent by each, no
 * additional copy; traffic between neighbors only. */

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

/* ---- Bruck ----
 * Doubles each process's data in each step; with empty parts it is the dissemination barrier. Cost: ceil(log2 p) steps,
 * (p - 1) n bytes sent by each, one additional copy of forwarded data. */

static void take(struct ampi_exchange *x)
{
    for (const struct ampi_exchange_message *message = x->got; message; message = message->next) {
        struct ampi_exchange_entry entry;
        for (size_t at = 0; ampi_exchange_next_entry(message, &at, &entry);)
            x->in[entry.source] = entry.part;
    }
}

void ampi_exchange_allgather_bruck(struct ampi_exchange *x)
{
    int distance = 1 << x->step;
    int n = distance < x->n - distance ? distance : x->n - distance;
    struct ampi_exchange_entry *entries;

    take(x);
    if (distance >= x->n)
        return;
    x->in[x->own] = x->out[x->own];
    entries = ampi_exchange_alloc(x, (size_t)n * sizeof *entries);
    for (int i = 0; i < n; i++) {
        int source = ampi_exchange_after(x, i);
        entries[i] = (struct ampi_exchange_entry){source, 0, x->in[source]};
    }
    ampi_exchange_send_entries(x, ampi_exchange_before(x, distance), x->step, entries, n);
    ampi_exchange_await(x, x->step, 1);
}
