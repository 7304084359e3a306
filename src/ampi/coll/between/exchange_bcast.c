/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_bcast.c: the root's part to all processes; in pieces: exchange_bcast_scatter.c.
 */
#include "ampi/coll/between/exchange.h"

/* ---- Binomial tree ----
 * Cost: ceil(log2 p) successive messages of n bytes, forwarded without a copy. */

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

/* ---- Linear, by the root ----
 * Between few processes of one node, where all copy from the root's memory at the same time and nobody waits for a process
 * that may have no core. Cost: p - 1 messages of n bytes by the root. */

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

/* ---- Chain ---- From each process to the next one, in SEGMENTS that are passed on as they arrive: for few processes
 * on several nodes, whose links are slower than the processes. Each link carries the data once in each direction.
 * Cost: SEGMENTS messages, n bytes sent by each, one copy of n; the last process is p - 2 segments behind. */

#define SEGMENTS 64

/* Alignment of segments, in bytes. */
#define SEGMENT_ALIGN 64u

static size_t segment_from(size_t n_bytes, int segment)
{
    size_t each = base_round_up(n_bytes / SEGMENTS + 1, SEGMENT_ALIGN);

    return base_min_u64(each * (size_t)segment, n_bytes);
}

/* To the next process, unless that is the root. The tag is the segment's number, the cookie the size of all data. */
static void send_segment(struct ampi_exchange *x, int segment, const unsigned char *bytes)
{
    size_t n_bytes = x->in[x->root].n_bytes, from = segment_from(n_bytes, segment);

    if (ampi_exchange_after(x, 1) != x->root)
        ampi_exchange_send(x, ampi_exchange_after(x, 1), segment, n_bytes, bytes,
                           segment_from(n_bytes, segment + 1) - from);
}

static void send_all(struct ampi_exchange *x)
{
    x->in[x->root] = x->out[x->own];
    for (int i = 0; i < SEGMENTS; i++)
        send_segment(x, i, x->in[x->root].bytes + segment_from(x->in[x->root].n_bytes, i));
}

static void pass_on(struct ampi_exchange *x, const struct ampi_exchange_message *message)
{
    struct ampi_exchange_block *all = &x->in[x->root];

    if (!all->bytes)
        *all = (struct ampi_exchange_block){.bytes = ampi_exchange_alloc_data(x, message->cookie),
                                            .n_bytes = message->cookie};
    send_segment(x, message->tag, message->bytes);
    ampi_exchange_copy(x, (unsigned char *)(uintptr_t)all->bytes + segment_from(all->n_bytes, message->tag),
                       message->bytes, message->n_bytes);
}

/* Each step but the first has one message. The first segment comes first, because it names the algorithm. */
void ampi_exchange_bcast_chain(struct ampi_exchange *x)
{
    ampi_exchange_run_ahead(x);
    if (x->own == x->root) {
        send_all(x);
        return;
    }
    if (x->step > 0)
        pass_on(x, x->got);
    if (x->step < SEGMENTS)
        ampi_exchange_await(x, x->step == 0 ? 0 : AMPI_EXCHANGE_ANY_TAG, 1);
}
