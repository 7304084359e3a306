/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_alltoall.c: a different part from each to each.
 */
#include "ampi/coll/between/exchange.h"

/* ---- Pairwise ----
 * Directly: in round i each process sends to the one i places further. Up to WINDOW rounds overlap. In the sparse form a
 * process has parts for some others only. Cost: p - 1 messages of n bytes sent by each, no additional copy. */

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

/* ---- Bruck ----
 * A part that has to travel d places moves by 2^k places in those steps k in which d has bit k. Cost: ceil(log2 p) steps,
 * about p/2 n bytes sent by each in each, and as many copied: for short parts. */

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
static void replace_left(struct ampi_exchange *x)
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
        replace_left(x);
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
