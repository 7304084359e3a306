/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_reduce_ring.c: the slices of the vector travel around the ring of the participants. Each one combines a
 * slice with its own elements and passes it on; after p - 1 hops the slice is complete, and travels on to all
 * others (not in MPI_Reduce_scatter, where slices are the blocks of their last participant).
 *
 * A slice travels in SEGMENTS segments, which are passed on as they arrive. A participant queues its first p-th of
 * the vector at once. So its links out and in are busy together, although participants start at different times.
 * Cost: 2 SEGMENTS (p - 1) messages, 2 n (p - 1) / p bytes sent and n (p - 1) / p combined by each; half of them in
 * MPI_Reduce_scatter; traffic between neighbors only. Elements are combined in an order that begins with the rank
 * behind the slice's: for commutative operations.
 */
#include "ampi/coll/between/reduction.h"

#define SEGMENTS 16

static int n_hops(const struct ampi_exchange *x)
{
    return ampi_reduction_is_scattered(x) ? x->n - 1 : 2 * (x->n - 1);
}

/* The slice that a participant sends in a hop. The last combining hop goes to the slice's own participant in
 * MPI_Reduce_scatter, else to the one before it. */
static int slice_in(const struct ampi_exchange *x, int participant, int hop)
{
    return (participant + 2 * x->n - hop - ampi_reduction_is_scattered(x)) % x->n;
}

static struct ampi_reduction_piece segment_of(const struct ampi_exchange *x, int slice, int segment)
{
    struct ampi_reduction_piece whole = ampi_reduction_slice(x, slice);
    MPI_Count from = whole.count * segment / SEGMENTS;

    return (struct ampi_reduction_piece){whole.from + from, whole.count * (segment + 1) / SEGMENTS - from,
                                         NULL};
}

static void begin(struct ampi_exchange *x)
{
    struct ampi_reduction *r = x->reduction;

    ampi_exchange_run_ahead(x);
    r->pieces = ampi_exchange_alloc(x, (size_t)(SEGMENTS * x->n) * sizeof *r->pieces);
    for (int i = 0; i < SEGMENTS; i++) {
        struct ampi_reduction_piece piece = segment_of(x, slice_in(x, x->own, 0), i);
        ampi_reduction_send(x, ampi_exchange_after(x, 1), i, piece.from, piece.count);
    }
}

/* A segment has come; its tag tells the hop and the number. */
static void pass_on(struct ampi_exchange *x, const struct ampi_exchange_message *message)
{
    struct ampi_reduction *r = x->reduction;
    int hop = message->tag / SEGMENTS, segment = message->tag % SEGMENTS;
    struct ampi_reduction_piece piece = segment_of(x, slice_in(x, ampi_exchange_before(x, 1), hop), segment);

    if (hop < x->n - 1)
        piece.elems = ampi_reduction_add(x, message, piece.from, piece.count);
    else
        piece.elems = ampi_reduction_elems(x, message, piece.count);
    if (hop >= x->n - 2 && piece.elems)
        r->pieces[r->n_pieces++] = piece;
    if (hop + 1 < n_hops(x))
        ampi_reduction_send_elems(x, ampi_exchange_after(x, 1), message->tag + SEGMENTS, piece.elems,
                                  piece.elems ? piece.count : 0);
}

/* Each step but the first has one message. */
void ampi_exchange_reduce_ring(struct ampi_exchange *x)
{
    if (x->step == 0)
        begin(x);
    else
        pass_on(x, x->got);
    if (x->step < SEGMENTS * n_hops(x))
        ampi_exchange_await(x, AMPI_EXCHANGE_ANY_TAG, 1);
}
