/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_alltoall_bruck.c: a different part from each to each. A part that has to travel d places moves
 * by 2^k places in those steps k in which d has bit k (Bruck). Cost: ceil(log2 p) steps, about p/2 n bytes
 * sent by each in each, and as many copied: for short parts.
 */
#include "ampi/coll/between/exchange.h"

static bool moves(const struct ampi_exchange *x, const struct ampi_exchange_entry *entry)
{
    int distance = (entry->target - entry->source + x->n) % x->n;

    return distance >> x->step & 1;
}

/* x->entries are the p parts in this process: as many leave as arrive. */
static void begin(struct ampi_exchange *x)
{
    x->entries = ampi_exchange_alloc(x, (size_t)x->n * sizeof *x->entries);
    for (int i = 0; i < x->n; i++)
        x->entries[i] = (struct ampi_exchange_entry){x->own, i, x->out[i]};
}

/* Parts that have arrived replace the parts that left in the previous step. */
static void take(struct ampi_exchange *x)
{
    size_t at = 0;

    x->step--;
    for (int i = 0; i < x->n; i++)
        if (moves(x, &x->entries[i]))
            ampi_exchange_next_entry(x->got, &at, &x->entries[i]);
    x->step++;
}

void ampi_exchange_alltoall_bruck(struct ampi_exchange *x)
{
    struct ampi_exchange_entry *leaving;
    int n = 0;

    if (x->step == 0)
        begin(x);
    else
        take(x);
    if (1 << x->step >= x->n) {
        for (int i = 0; i < x->n; i++)
            x->in[x->entries[i].source] = x->entries[i].part;
        return;
    }
    leaving = ampi_exchange_alloc(x, (size_t)x->n * sizeof *leaving);
    for (int i = 0; i < x->n; i++)
        if (moves(x, &x->entries[i]))
            leaving[n++] = x->entries[i];
    ampi_exchange_send_entries(x, ampi_exchange_after(x, 1 << x->step), x->step, leaving, n);
    ampi_exchange_await(x, x->step, 1);
}
