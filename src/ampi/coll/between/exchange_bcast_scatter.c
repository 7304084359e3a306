/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_bcast_scatter.c: broadcast as scatter and allgather. The root's data is cut into p pieces. A binomial tree
 * distributes them, each branch taking half of the remaining pieces; then each participant collects the other pieces by
 * recursive doubling.
 * Cost: 2 ceil(log2 p) steps, 2 n (p - 1) / p bytes sent and received by each, one copy of n.
 *
 * Places are participants numbered from the root. Place i gets piece i from the tree; before round k it has pieces i ..
 * i + 2^k - 1 (modulo p), which place i - 2^k lacks. The root has all pieces and only sends.
 */
#include "ampi/coll/between/exchange.h"

/* Alignment of pieces, in bytes. */
#define PIECE_ALIGN 64u

#define TAG_SCATTER 0
#define TAG_COLLECT 1

static size_t piece_from(const struct ampi_exchange *x, size_t n_bytes, int piece)
{
    size_t each = base_round_up((n_bytes + (size_t)x->n - 1) / (size_t)x->n, PIECE_ALIGN);

    return base_min_u64(each * (size_t)piece, n_bytes);
}

/* Sends pieces from .. to - 1. The cookie is their offset; in the tree (TAG_SCATTER) it is the size of all data. */
static void send_pieces(struct ampi_exchange *x, int place, int tag, int from, int to)
{
    const struct ampi_exchange_block *all = &x->in[x->root];
    size_t at = piece_from(x, all->n_bytes, from);

    ampi_exchange_send(x, (x->root + place) % x->n, tag, tag == TAG_SCATTER ? all->n_bytes : at,
                       all->bytes + at, piece_from(x, all->n_bytes, to) - at);
}

/* Sends to the children in the tree, the largest subtree first. */
static void scatter(struct ampi_exchange *x, int place)
{
    int size = ampi_exchange_subtree(place, x->n), mask = 1;

    while (mask < size)
        mask <<= 1;
    for (mask >>= 1; mask; mask >>= 1)
        send_pieces(x, place + mask, TAG_SCATTER, place + mask,
                    place + mask + ampi_exchange_subtree(place + mask, x->n));
}

/* Stores the pieces received from the parent: those of this place and of its subtree. */
static void store_scattered(struct ampi_exchange *x, int place)
{
    struct ampi_exchange_block *all = &x->in[x->root];

    *all = (struct ampi_exchange_block){.bytes = ampi_exchange_alloc_data(x, x->got->cookie),
                                        .n_bytes = x->got->cookie};
    ampi_exchange_copy(x, (unsigned char *)(uintptr_t)all->bytes + piece_from(x, all->n_bytes, place),
                       x->got->bytes, x->got->n_bytes);
}

static void take_collected(struct ampi_exchange *x)
{
    unsigned char *all = (unsigned char *)(uintptr_t)x->in[x->root].bytes;

    for (const struct ampi_exchange_message *message = x->got; message; message = message->next)
        ampi_exchange_copy(x, all + message->cookie, message->bytes, message->n_bytes);
}

/* Number of pieces sent from one place to another in a round: those that the sender has, at most those that the receiver
 * lacks. */
static int n_pieces_in(const struct ampi_exchange *x, int round)
{
    return 1 << round < x->n - (1 << round) ? 1 << round : x->n - (1 << round);
}

/* Sends pieces place .. place + n - 1 (modulo p) in one run, or two. */
static int n_runs(const struct ampi_exchange *x, int place, int n)
{
    return place + n > x->n ? 2 : 1;
}

static void collect(struct ampi_exchange *x, int place, int round)
{
    int distance = 1 << round, n = n_pieces_in(x, round);
    int to = (place - distance + x->n) % x->n, from = (place + distance) % x->n;

    if (to != 0) { /* the root lacks nothing */
        bool is_cut = n_runs(x, place, n) > 1;
        send_pieces(x, to, TAG_COLLECT + round, place, is_cut ? x->n : place + n);
        if (is_cut)
            send_pieces(x, to, TAG_COLLECT + round, 0, place + n - x->n);
    }
    if (place != 0)
        ampi_exchange_await(x, TAG_COLLECT + round, n_runs(x, from, n));
}

void ampi_exchange_bcast_scatter(struct ampi_exchange *x)
{
    int place = (x->own - x->root + x->n) % x->n;
    int round = x->step - 1; /* of the allgather; the root does not wait between its rounds */

    if (place == 0) {
        x->in[x->root] = x->out[x->own];
        scatter(x, place);
        for (round = 0; 1 << round < x->n; round++)
            collect(x, place, round);
        return;
    }
    if (round < 0) {
        ampi_exchange_await(x, TAG_SCATTER, 1);
        return;
    }
    if (round == 0) {
        store_scattered(x, place);
        scatter(x, place);
    } else {
        take_collected(x);
    }
    if (1 << round < x->n)
        collect(x, place, round);
}
