/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_reduce_chain.c: the root gets the combination of all vectors, from each process to the one before it, in
 * SEGMENTS that are combined and passed on as soon as they have come: for few processes on several nodes, whose links are
 * slower than the processes. Each link carries a vector once in each direction.
 * Cost: SEGMENTS messages, n bytes sent and n combined by each; the root is p - 2 segments behind. Elements are combined
 * in an order that begins with the rank behind the root: for commutative operations.
 */
#include "ampi/coll/between/reduction.h"

#define SEGMENTS 64

static MPI_Count segment_from(const struct ampi_exchange *x, int segment)
{
    return x->reduction->count * segment / SEGMENTS;
}

static MPI_Count segment_count(const struct ampi_exchange *x, int segment)
{
    return segment_from(x, segment + 1) - segment_from(x, segment);
}

static void send_all(struct ampi_exchange *x)
{
    for (int i = 0; i < SEGMENTS; i++)
        ampi_reduction_send(x, ampi_exchange_before(x, 1), i, segment_from(x, i), segment_count(x, i));
}

/* A segment has come; its tag is its number. */
static void pass_on(struct ampi_exchange *x, const struct ampi_exchange_message *message)
{
    struct ampi_reduction *r = x->reduction;
    struct ampi_reduction_piece piece = {segment_from(x, message->tag), segment_count(x, message->tag), NULL};

    piece.elems = ampi_reduction_add(x, message, piece.from, piece.count);
    if (x->own != x->root)
        ampi_reduction_send_elems(x, ampi_exchange_before(x, 1), message->tag, piece.elems,
                                  piece.elems ? piece.count : 0);
    else if (piece.elems)
        r->pieces[r->n_pieces++] = piece;
}

/* Each step but the first has one message. */
void ampi_exchange_reduce_chain(struct ampi_exchange *x)
{
    ampi_exchange_run_ahead(x);
    if (ampi_exchange_after(x, 1) == x->root) { /* the chain's end */
        send_all(x);
        return;
    }
    if (x->step > 0)
        pass_on(x, x->got);
    else
        x->reduction->pieces = ampi_exchange_alloc(x, SEGMENTS * sizeof *x->reduction->pieces);
    if (x->step < SEGMENTS)
        ampi_exchange_await(x, AMPI_EXCHANGE_ANY_TAG, 1);
}
