/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_reduce_pairwise.c: each participant combines a slice of the elements of all vectors, and gives the result
 * to all, to the root, or keeps it (MPI_Reduce_scatter, where slices are the blocks of its members). All PEs of a
 * process combine, a block at a time, which its members get while it is in the cache. Vectors and results in node
 * memory are read where they are. Cost: 2 steps, 2 n (p - 1) / p bytes sent and n combined by each; half the bytes if
 * only the root gets the result, or each participant its own slice.
 */
#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/between/reduction.h"

#include "ampi/coll/engine/fold.h"

#define TAG_SLICE 0
#define TAG_RESULT 1

/* True if results are kept until the end, because a member's buffer may still be another one's input. */
static bool must_hold(const struct ampi_exchange *x)
{
    return ampi_reduction_is_scattered(x) || gpu_is_used();
}

/* True if this process's members get the whole result. */
static bool has_result(const struct ampi_exchange *x)
{
    return x->slot->plan->flow == AMPI_COLL_FLOW_ALLREDUCE || x->own == x->root;
}

/* Between two processes only one slice arrives. It is combined while it is copied, into the member's buffer
 * if possible. */
static int absorb(struct ampi_exchange *x, const struct ampi_exchange_message *message)
{
    struct ampi_reduction *r = x->reduction;
    struct ampi_reduction_piece slice = ampi_reduction_slice(x, x->own);
    void *buffer = has_result(x) ? x->slot->last->recv.buf : r->elems;
    void *into;
    int result;

    if (message->n_bytes != (size_t)(slice.count * r->type->size_bytes))
        return MACHINE_FAILED; /* the sizes differ: it comes again as data, and is reported then */
    into =
        buffer == r->elems ? ampi_reduction_alloc(x, slice.count) : ampi_reduction_at(r, buffer, slice.from);
    ampi_reduction_absorb(x, message, ampi_reduction_at(r, r->elems, slice.from), into, &result);
    if (result == MACHINE_DONE)
        r->sum = into;
    return result;
}

static void send_slices(struct ampi_exchange *x)
{
    if (x->n == 2 && !must_hold(x) && ampi_reduction_has_one_member(x))
        x->reduction->absorb = absorb;
    for (int i = 1; i < x->n; i++) {
        struct ampi_reduction_piece slice = ampi_reduction_slice(x, ampi_exchange_after(x, i));
        ampi_reduction_send(x, ampi_exchange_after(x, i), TAG_SLICE, slice.from, slice.count);
    }
    ampi_exchange_await(x, TAG_SLICE, x->n - 1);
}

/* ---- Combining ---- */

/* Elements from .. to - 1 of the slice. */
static void combine(struct ampi_exchange *x, MPI_Count from, MPI_Count to)
{
    const struct ampi_reduction *r = x->reduction;
    const struct ampi_reduction_piece *own = &r->pieces[0];
    MPI_Count block = ampi_coll_fold_block(x->slot->last, own->count);

    for (; from < to; from += block) {
        MPI_Count count = to - from < block ? to - from : block;
        ampi_reduction_fold(x, from, count);
        if (!must_hold(x))
            ampi_reduction_give(x, &(struct ampi_reduction_piece){own->from + from, count,
                                                                  ampi_reduction_at(r, r->sum, from)});
    }
}

static void combine_share(struct ampi_coll_slot *slot, int part)
{
    struct ampi_exchange *x = ampi_exchange_of(slot);
    MPI_Count from, to;

    ampi_coll_slice(slot, part, x->reduction->pieces[0].count, &from, &to);
    combine(x, from, to);
}

/* The slices have come. */
static void combine_slices(struct ampi_exchange *x)
{
    struct ampi_reduction *r = x->reduction;
    struct ampi_reduction_piece slice = ampi_reduction_slice(x, x->own);

    r->absorb = NULL;
    ampi_exchange_again(x);
    r->pieces = ampi_exchange_alloc(x, (size_t)x->n * sizeof *r->pieces);
    if (r->sum) { /* the slice was absorbed */
        slice.elems = r->sum;
        r->pieces[r->n_pieces++] = slice;
        return;
    }
    r->inputs = ampi_exchange_alloc(x, (size_t)x->n * sizeof *r->inputs);
    r->inputs[x->own] = r->is_mismatch ? NULL : ampi_reduction_at(r, r->elems, slice.from);
    for (const struct ampi_exchange_message *message = x->got; message; message = message->next)
        r->inputs[ampi_exchange_sender(x, message)] = ampi_reduction_elems(x, message, slice.count);
    if (r->is_mismatch)
        return;
    slice.elems = r->sum = ampi_reduction_alloc(x, slice.count);
    r->pieces[r->n_pieces++] = slice;
    if (gpu_is_used())
        combine(x, 0, slice.count);
    else
        ampi_exchange_share(x, combine_share,
                            (size_t)(slice.count * r->type->size_bytes) * (size_t)(x->n + 1));
}

/* ---- Results ---- */

static void send_result(struct ampi_exchange *x, int to)
{
    const struct ampi_reduction *r = x->reduction;

    ampi_reduction_send_elems(x, to, TAG_RESULT, r->sum, r->is_mismatch ? 0 : r->pieces[0].count);
}

/* Results are copied to their place in the only member's buffer at once. */
static void *place_result(struct ampi_exchange *x, const struct ampi_exchange_message *message)
{
    const struct ampi_coll_args *args = x->slot->last;

    if (message->tag != TAG_RESULT || must_hold(x) || !ampi_reduction_has_one_member(x) ||
        message->n_bytes != (size_t)(ampi_reduction_slice(x, ampi_exchange_sender(x, message)).count *
                                     x->reduction->type->size_bytes))
        return NULL;
    return ampi_reduction_at(x->reduction, args->recv.buf,
                             ampi_reduction_slice(x, ampi_exchange_sender(x, message)).from);
}

static void send_results(struct ampi_exchange *x)
{
    bool has_root = x->slot->plan->flow == AMPI_COLL_FLOW_REDUCE;

    x->reduction->place = place_result;
    if (ampi_reduction_is_scattered(x))
        return;
    if (has_root && x->own != x->root) {
        send_result(x, x->root);
        return;
    }
    for (int i = 1; i < x->n && !has_root; i++)
        send_result(x, ampi_exchange_after(x, i));
    ampi_exchange_await(x, TAG_RESULT, x->n - 1);
}

static void take_results(struct ampi_exchange *x)
{
    struct ampi_reduction *r = x->reduction;

    for (const struct ampi_exchange_message *message = x->got; message; message = message->next) {
        struct ampi_reduction_piece piece = ampi_reduction_slice(x, ampi_exchange_sender(x, message));
        piece.elems = ampi_reduction_elems(x, message, piece.count);
        if (piece.elems)
            r->pieces[r->n_pieces++] = piece;
    }
    if (!must_hold(x) && !r->is_mismatch && r->inputs) /* the members have this process's own slice already */
        r->pieces[0] = r->pieces[--r->n_pieces];
}

void ampi_exchange_reduce_pairwise(struct ampi_exchange *x)
{
    switch (x->step) {
    case 0:
        send_slices(x);
        break;
    case 1:
        combine_slices(x);
        break;
    case 2:
        send_results(x);
        break;
    default:
        take_results(x);
    }
}
