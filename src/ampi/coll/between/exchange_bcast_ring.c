/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_bcast_ring.c: the root's part to everybody, cut into p pieces: the root deals them out, then they
 * go round the ring (van de Geijn). Piece number i is that of the process i places behind the root; the
 * root's own starts there. Cost: p steps, about 2 n bytes sent by the root and n by each other, whatever p
 * is.
 */
#include "ampi/coll/between/exchange.h"

/* Pieces begin at multiples of this. */
#define PIECE_ALIGN 64u

static size_t piece_from(const struct ampi_exchange *x, size_t n_bytes, int piece)
{
    size_t each = base_round_up((n_bytes + (size_t)x->n - 1) / (size_t)x->n, PIECE_ALIGN);

    return base_min_u64(each * (size_t)piece, n_bytes);
}

static void send_piece(struct ampi_exchange *x, int to, int tag, int piece)
{
    const struct ampi_exchange_part *all = &x->in[x->root];
    size_t from = piece_from(x, all->n_bytes, piece);

    ampi_exchange_send(x, to, tag, all->n_bytes, all->bytes + from,
                       piece_from(x, all->n_bytes, piece + 1) - from);
}

/* A piece goes where it belongs; the first one tells how large all is. */
static void take_piece(struct ampi_exchange *x, int piece)
{
    struct ampi_exchange_part *all = &x->in[x->root];
    size_t from;

    if (!all->bytes)
        *all = (struct ampi_exchange_part){ampi_exchange_alloc_data(x, x->got->note), x->got->note};
    from = piece_from(x, all->n_bytes, piece);
    ampi_exchange_copy(x, (unsigned char *)(uintptr_t)all->bytes + from, x->got->bytes, x->got->n_bytes);
}

/* Step 0 deals out; in step k >= 1 each sends the piece that it got in step k - 1. Tag k is what comes in
 * step k; the root, which has all, only sends. The one before the root needs to pass nothing on. */
void ampi_exchange_bcast_ring(struct ampi_exchange *x)
{
    int place = (x->own - x->root + x->n) % x->n;
    int next = ampi_exchange_after(x, 1);
    bool has_next = place != x->n - 1;

    if (x->own == x->root) {
        x->in[x->root] = x->out[x->own];
        for (int i = 1; i < x->n; i++)
            send_piece(x, (x->root + i) % x->n, 0, i);
        for (int k = 1; k < x->n; k++) /* what the next one gets in step k */
            send_piece(x, next, k, (x->n - k + 1) % x->n);
        return;
    }
    if (x->step > 0)
        take_piece(x, (place - x->step + 1 + x->n) % x->n);
    if (x->step > 0 && x->step < x->n && has_next)
        send_piece(x, next, x->step, (place - x->step + 1 + x->n) % x->n);
    if (x->step < x->n)
        ampi_exchange_await(x, x->step, 1);
}
