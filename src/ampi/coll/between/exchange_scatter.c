/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_scatter.c: a different part from the root to each. Binomial tree: ceil(log2 p) successive
 * messages; a part is copied at each process that it passes. Linear: p - 1 messages from the root, each
 * with only the receiver's part. Only the root chooses between them: the others receive one message, and
 * forward the parts that are not for them.
 */
#include "ampi/coll/between/exchange.h"

/* Sends the entries, which are in the order of places from `place` on, to the places below. */
static void pass_down(struct ampi_exchange *x, int place, int size, const struct ampi_exchange_entry *entries)
{
    int mask = 1;

    while (mask < size)
        mask <<= 1;
    for (mask >>= 1; mask; mask >>= 1) {
        int n = ampi_exchange_subtree(place + mask, x->n);
        ampi_exchange_send_entries(x, (x->root + place + mask) % x->n, 0, entries + mask, n);
    }
}

static void receive(struct ampi_exchange *x)
{
    int place = (x->own - x->root + x->n) % x->n;
    int size = ampi_exchange_subtree(place, x->n);
    struct ampi_exchange_entry *entries = ampi_exchange_alloc(x, (size_t)size * sizeof *entries);
    int n = 0;

    if (x->step == 0) {
        ampi_exchange_await(x, 0, 1);
        return;
    }
    for (size_t at = 0; n < size && ampi_exchange_next_entry(x->got, &at, &entries[n]); n++)
        if (entries[n].target == x->own)
            x->in[x->root] = entries[n].part;
    if (n == size)
        pass_down(x, place, size, entries);
}

void ampi_exchange_scatter_binomial(struct ampi_exchange *x)
{
    struct ampi_exchange_entry *entries;

    if (x->own != x->root) {
        receive(x);
        return;
    }
    entries = ampi_exchange_alloc(x, (size_t)x->n * sizeof *entries);
    for (int i = 0; i < x->n; i++) {
        int target = (x->root + i) % x->n;
        entries[i] = (struct ampi_exchange_entry){x->root, target, x->out[target]};
    }
    pass_down(x, 0, x->n, entries);
}

void ampi_exchange_scatter_linear(struct ampi_exchange *x)
{
    if (x->own == x->root) {
        for (int i = 1; i < x->n; i++) {
            int target = ampi_exchange_after(x, i);
            ampi_exchange_send_part(x, target, 0, &x->out[target]);
        }
    } else if (x->step == 0) {
        ampi_exchange_await(x, 0, 1);
    } else {
        x->in[x->root] = ampi_exchange_part_of(x->got);
    }
}
