/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reduction.c: common functions of reductions between processes: the vector, before and after. See
 * reduction.h.
 */
#include "ampi/coll/between/reduction.h"
#include "ampi/coll/device/coll_device.h"

#include "ampi/coll/engine/fold.h"
#include "ampi/coll/between/coll_remote.h"

void *ampi_reduction_alloc(struct ampi_exchange *x, MPI_Count count)
{
    MPI_Count lo;
    size_t n_bytes = ampi_coll_elems_bytes(x->reduction->type, count, &lo);

    return ampi_type_address(ampi_exchange_alloc_data(x, n_bytes), -lo);
}

/* Copies elements, or combines those of `in` with those of `inout`, in any memory. */
static void copy(struct ampi_exchange *x, void *to, const void *from, MPI_Count count)
{
    const struct ampi_reduction *r = x->reduction;

    if (BASE_UNLIKELY(x->device >= 0))
        ampi_coll_gpu_copy(x->slot->last, to, r->type, from, r->type, count);
    else
        ampi_type_copy(to, count, r->type, from, count, r->type);
}

static void apply(struct ampi_exchange *x, const void *in, void *inout, MPI_Count count)
{
    const struct ampi_reduction *r = x->reduction;

    if (BASE_UNLIKELY(x->device >= 0))
        ampi_coll_device_apply(x, r->op, in, inout, count, r->type);
    else
        ampi_op_apply(r->op, in, inout, count, r->type);
}

/* ---- For algorithms ---- */

void ampi_reduction_send(struct ampi_exchange *x, int to, int tag, MPI_Count from, MPI_Count count)
{
    ampi_reduction_send_elems(x, to, tag, ampi_reduction_at(x->reduction, x->reduction->elems, from), count);
}

void ampi_reduction_send_elems(struct ampi_exchange *x, int to, int tag, const void *elems, MPI_Count count)
{
    const struct ampi_reduction *r = x->reduction;
    size_t n_bytes = (size_t)(count * r->type->size_bytes);
    struct ampi_coll_block packed;

    if (r->is_mismatch) {
        ampi_exchange_send(x, to, tag, AMPI_REDUCTION_MISMATCH, NULL, 0);
    } else if (r->is_block) {
        ampi_exchange_send(x, to, tag, r->n_bytes, ampi_type_address(elems, r->type->true_lb_bytes), n_bytes);
    } else {
        packed = ampi_coll_bytes(ampi_exchange_alloc(x, n_bytes), n_bytes);
        ampi_type_copy(packed.buf, packed.count, packed.type, elems, count, r->type);
        ampi_exchange_send(x, to, tag, r->n_bytes, packed.buf, n_bytes);
    }
}

/* True if a message has elements, as many as expected. Counts that add up to the same may differ in MPI_Reduce_scatter. */
static bool has_elems(struct ampi_reduction *r, const struct ampi_exchange_message *message, MPI_Count count)
{
    r->is_mismatch |=
        message->cookie != r->n_bytes || message->n_bytes != (size_t)(count * r->type->size_bytes);
    return !r->is_mismatch && count > 0;
}

const void *ampi_reduction_elems(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                                 MPI_Count count)
{
    struct ampi_reduction *r = x->reduction;
    struct ampi_coll_block packed = ampi_coll_bytes(message->bytes, message->n_bytes);
    void *elems;

    if (!has_elems(r, message, count))
        return NULL;
    if (r->is_block)
        return ampi_type_address(message->bytes, -r->type->true_lb_bytes);
    elems = ampi_reduction_alloc(x, count);
    ampi_type_copy(elems, count, r->type, packed.buf, packed.count, packed.type);
    return elems;
}

void *ampi_reduction_own_elems(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                               MPI_Count count)
{
    const void *elems = ampi_reduction_elems(x, message, count);
    void *own;

    if (!elems || !message->ref.n_bytes || !x->reduction->is_block) /* otherwise the exchange owns them
                                                                     * already */
        return (void *)(uintptr_t)elems;
    own = ampi_reduction_alloc(x, count);
    copy(x, own, elems, count);
    return own;
}

void ampi_reduction_own(struct ampi_exchange *x)
{
    struct ampi_reduction *r = x->reduction;
    void *old = r->elems;

    if (r->is_own)
        return;
    r->elems = r->home ? r->home : ampi_reduction_alloc(x, r->count);
    r->is_own = true;
    copy(x, r->elems, old, r->count);
}

void ampi_reduction_combine(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                            MPI_Count from, MPI_Count count)
{
    struct ampi_reduction *r = x->reduction;
    bool is_before = ampi_exchange_sender(x, message) < x->own;
    bool is_whole = count == r->count;
    void *came;

    if (is_before || (r->op->is_commutative && (!is_whole || r->is_own))) {
        const void *in = ampi_reduction_elems(x, message, count);
        if (!in)
            return;
        ampi_reduction_own(x);
        apply(x, in, ampi_reduction_at(r, r->elems, from), count);
        return;
    }
    came = ampi_reduction_own_elems(x, message, count);
    if (!came)
        return;
    if (!is_whole)
        ampi_reduction_own(x);
    apply(x, ampi_reduction_at(r, r->elems, from), came, count);
    if (is_whole) { /* the message's memory lives as long as the operation */
        r->elems = came;
        r->is_own = true;
    } else {
        copy(x, ampi_reduction_at(r, r->elems, from), came, count);
    }
}

const void *ampi_reduction_add(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                               MPI_Count from, MPI_Count count)
{
    const struct ampi_reduction *r = x->reduction;
    void *sum = ampi_reduction_own_elems(x, message, count);

    if (sum)
        apply(x, ampi_reduction_at(r, r->elems, from), sum, count);
    return sum;
}

void ampi_reduction_replace(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                            MPI_Count from, MPI_Count count)
{
    struct ampi_reduction *r = x->reduction;
    struct ampi_coll_block came = ampi_coll_bytes(message->bytes, message->n_bytes);

    if (!has_elems(r, message, count))
        return;
    if (!r->is_own && count == r->count) {
        r->elems = r->home ? r->home : ampi_reduction_alloc(x, count);
        r->is_own = true;
    }
    ampi_reduction_own(x);
    if (BASE_UNLIKELY(x->device >= 0)) /* elements are consecutive then */
        copy(x, ampi_reduction_at(r, r->elems, from),
             ampi_type_address(message->bytes, -r->type->true_lb_bytes), count);
    else
        ampi_type_copy(ampi_reduction_at(r, r->elems, from), count, r->type, came.buf, came.count, came.type);
}

void ampi_reduction_fold(struct ampi_exchange *x, MPI_Count from, MPI_Count count)
{
    const struct ampi_reduction *r = x->reduction;
    void *sum = ampi_reduction_at(r, r->sum, from);

    copy(x, sum, ampi_reduction_at(r, r->inputs[x->n - 1], from), count);
    for (int i = x->n - 2; i >= 0; i--)
        apply(x, ampi_reduction_at(r, r->inputs[i], from), sum, count);
}

/* Slices begin at multiples of this many elements. */
#define CUT_ELEMS 64

static MPI_Count cut(const struct ampi_exchange *x, int i)
{
    MPI_Count count = x->reduction->count, units = (count + CUT_ELEMS - 1) / CUT_ELEMS;
    MPI_Count from = units * i / x->n * CUT_ELEMS;

    return from < count ? from : count;
}

struct ampi_reduction_piece ampi_reduction_slice(const struct ampi_exchange *x, int participant)
{
    MPI_Count from = cut(x, participant), to = cut(x, participant + 1);

    if (ampi_reduction_is_scattered(x))
        ampi_reduction_blocks(x, participant, &from, &to);
    return (struct ampi_reduction_piece){from, to - from, NULL};
}

struct ampi_survivors ampi_survivors_of(int n_participants)
{
    int n = 1;

    while (2 * n <= n_participants)
        n *= 2;
    return (struct ampi_survivors){n, n_participants - n};
}

void ampi_reduction_blocks(const struct ampi_exchange *x, int participant, MPI_Count *from_out,
                           MPI_Count *to_out)
{
    const struct ampi_coll_remote *remote = x->slot->state->remote;
    const struct ampi_coll_buf *recv = &x->slot->last->recv;
    int first = ampi_remote_member(remote, remote->first[participant]);
    int n = ampi_remote_n_members(remote, participant);
    MPI_Count from = 0, to;

    for (int i = 0; recv->counts && i < first; i++)
        from += ampi_coll_count(recv, i);
    from = recv->counts ? from : first * recv->count;
    to = recv->counts ? from : from + n * recv->count;
    for (int i = 0; recv->counts && i < n; i++)
        to += ampi_coll_count(recv, first + i);
    *from_out = from;
    *to_out = to;
}

/* ---- Before: this process's contributions ---- */

static struct ampi_coll_args *local_args(const struct ampi_coll_slot *slot, int i)
{
    const struct ampi_coll_remote *remote = slot->state->remote;

    return slot->args[ampi_remote_member(remote, remote->first[remote->own] + i)];
}

static int n_local_of(const struct ampi_coll_slot *slot)
{
    return ampi_remote_n_members(slot->state->remote, slot->state->remote->own);
}

bool ampi_reduction_has_one_member(const struct ampi_exchange *x)
{
    return n_local_of(x->slot) == 1;
}

/* Combines elements from .. from + count - 1 of all local contributions, in rank order. */
static void combine_local(const struct ampi_exchange *x, void *out, MPI_Count from, MPI_Count count)
{
    const struct ampi_reduction *r = x->reduction;
    int n = n_local_of(x->slot);

    ampi_type_copy(out, count, r->type,
                   ampi_reduction_at(r, ampi_coll_input(local_args(x->slot, n - 1)), from), count, r->type);
    for (int i = n - 2; i >= 0; i--)
        ampi_op_apply(r->op, ampi_reduction_at(r, ampi_coll_input(local_args(x->slot, i)), from), out, count,
                      r->type);
}

/* A PE's share of the elements, in blocks that stay in the cache. */
static void combine_share(struct ampi_coll_slot *slot, int part)
{
    const struct ampi_exchange *x = ampi_exchange_of(slot);
    const struct ampi_reduction *r = x->reduction;
    MPI_Count block = ampi_coll_fold_block(slot->last, r->count), from, to;

    ampi_coll_slice(slot, part, r->count, &from, &to);
    for (; from < to; from += block)
        combine_local(x, ampi_reduction_at(r, r->elems, from), from, to - from < block ? to - from : block);
}

void ampi_reduction_combine_local(struct ampi_exchange *x)
{
    struct ampi_reduction *r = x->reduction;
    struct ampi_coll_args **members;

    if (gpu_is_used() && ampi_coll_gpu_any(x->slot)) {
        members = ampi_exchange_alloc(x, (size_t)n_local_of(x->slot) * sizeof(struct ampi_coll_args *));
        for (int i = 0; i < n_local_of(x->slot); i++)
            members[i] = local_args(x->slot, i);
        ampi_coll_device_fold_of(x->slot, members, n_local_of(x->slot), r->count, r->elems);
        return;
    }
    for (int part = 0; part < x->slot->state->n_parts; part++)
        combine_share(x->slot, part);
}

bool ampi_reduction_fits(const struct ampi_coll_slot *slot)
{
    /* On intercommunicators not all members know the operation; and a user's function runs on its rank's
     * stack, unlike the steps of an exchange. */
    if (slot->state->shared->is_inter || !slot->last->op->is_predefined)
        return false;
    return slot->state->remote->is_blocked ||
           (slot->plan->flow != AMPI_COLL_FLOW_SCAN && slot->last->op->is_commutative);
}

/* All processes make the same choice: it depends on arguments that are equal at all ranks. */
static void choose(struct ampi_exchange *x, size_t n_bytes)
{
    bool is_blocked = x->slot->state->remote->is_blocked;

    switch (x->slot->plan->flow) {
    case AMPI_COLL_FLOW_REDUCE:
        ampi_exchange_choose(x, AMPI_COLL_REDUCE, n_bytes);
        break;
    case AMPI_COLL_FLOW_REDUCE_SCATTER:
        if (is_blocked)
            ampi_exchange_choose(x, AMPI_COLL_REDUCE_SCATTER, n_bytes);
        else
            ampi_exchange_take(x, AMPI_BETWEEN_ALLREDUCE_DOUBLING);
        break;
    case AMPI_COLL_FLOW_SCAN:
        ampi_exchange_choose(x, AMPI_COLL_SCAN, n_bytes);
        break;
    default:
        ampi_exchange_choose(x, AMPI_COLL_ALLREDUCE, n_bytes);
    }
}

void ampi_reduction_start(struct ampi_exchange *x)
{
    struct ampi_coll_args *last = x->slot->last;
    struct ampi_reduction *r = ampi_exchange_alloc(x, sizeof *r);

    x->reduction = r;
    *r = (struct ampi_reduction){.op = last->op, .type = last->send.type, .count = last->send.count};
    r->n_bytes = (size_t)(r->count * r->type->size_bytes);
    r->is_block = ampi_type_is_block(r->type, 2);
    r->is_mismatch = !ampi_coll_check_sizes(x->slot);
    choose(x, r->n_bytes);
    r->is_stable = x->algorithm == AMPI_BETWEEN_REDUCE_PAIRWISE || x->algorithm == AMPI_BETWEEN_REDUCE_RING ||
                   x->algorithm == AMPI_BETWEEN_REDUCE_CHAIN || x->algorithm == AMPI_BETWEEN_SCAN_CHAIN;
    if (!ampi_exchange_is_direct(x->algorithm) || r->n_bytes < AMPI_EXCHANGE_DIRECT_BYTES ||
        !ampi_coll_device_has_kernel(r->op, r->type))
        x->device = -1;
    r->is_lent = ampi_reduction_can_lend(x);
    if (r->is_mismatch)
        return;
    if (n_local_of(x->slot) > 1) {
        r->elems = ampi_reduction_alloc(x, r->count);
        r->is_own = true;
        if (gpu_is_used()) {
            ampi_reduction_combine_local(x);
        } else {
            x->prepare = combine_share;
            x->prepare_bytes = r->n_bytes * (size_t)n_local_of(x->slot);
        }
        return;
    }
    r->elems = ampi_coll_input(last);
    if (x->slot->plan->flow == AMPI_COLL_FLOW_ALLREDUCE &&
        ampi_device_has(last->recv.buf, r->count, r->type) == (x->device >= 0)) {
        r->home = last->recv.buf;
        r->is_own = r->elems == r->home;
    }
    if (x->slot->plan->flow == AMPI_COLL_FLOW_REDUCE && !gpu_is_used())
        r->is_own = ampi_coll_is_root(last) && r->elems == last->recv.buf;
    if (x->device < 0 && ampi_device_has(r->elems, r->count, r->type)) {
        struct ampi_coll_block input = {r->elems, r->count, r->type, NULL};
        r->elems = r->home ? r->home : ampi_reduction_alloc(x, r->count);
        r->is_own = true;
        ampi_coll_move(last, (struct ampi_coll_block){r->elems, r->count, r->type, NULL}, input);
    }
}

/* ---- After: distributing the result, as the middle stage and its share ---- */

static const struct ampi_reduction *reduction_of(const struct ampi_coll_slot *slot)
{
    return slot->between->x.reduction;
}

/* Finds a member's elements in the result. */
static void find_result(const struct ampi_coll_args *args, const struct ampi_reduction *r,
                        MPI_Count *from_out, MPI_Count *to_out)
{
    MPI_Count from = 0;
    int rank = args->comm->rank;

    if (args->plan->flow != AMPI_COLL_FLOW_REDUCE_SCATTER) {
        *from_out = 0;
        *to_out = args->plan->flow != AMPI_COLL_FLOW_REDUCE || ampi_coll_is_root(args) ? r->count : 0;
        return;
    }
    for (int i = 0; args->recv.counts && i < rank; i++)
        from += ampi_coll_count(&args->recv, i);
    *from_out = args->recv.counts ? from : rank * args->recv.count;
    *to_out = *from_out + ampi_coll_count(&args->recv, rank);
}

/* Stores a member's elements of a piece in its buffer. */
static void give(struct ampi_coll_args *args, const struct ampi_reduction *r,
                 const struct ampi_reduction_piece *piece)
{
    MPI_Count first, from, to;
    void *elems, *dst;

    find_result(args, r, &first, &to);
    from = first > piece->from ? first : piece->from;
    to = to < piece->from + piece->count ? to : piece->from + piece->count;
    if (from >= to)
        return;
    elems = ampi_reduction_at(r, piece->elems, from - piece->from);
    dst = ampi_type_address(args->recv.buf, (from - first) * args->recv.type->extent_bytes);
    if (dst != elems)
        ampi_coll_move(args, (struct ampi_coll_block){dst, to - from, args->recv.type, NULL},
                       (struct ampi_coll_block){elems, to - from, r->type, NULL});
}

void ampi_reduction_give(const struct ampi_exchange *x, const struct ampi_reduction_piece *piece)
{
    for (int i = 0; i < n_local_of(x->slot); i++)
        give(local_args(x->slot, i), x->reduction, piece);
}

/* Stores a piece in the buffers of a part's members, block by block, so that each block is in the cache for all of them. */
static void give_piece(struct ampi_coll_slot *slot, int part, const struct ampi_reduction_piece *piece)
{
    const struct ampi_reduction *r = reduction_of(slot);
    MPI_Count block = ampi_coll_fold_block(slot->last, piece->count);

    for (MPI_Count from = 0; from < piece->count; from += block) {
        struct ampi_reduction_piece run = {piece->from + from,
                                           piece->count - from < block ? piece->count - from : block,
                                           ampi_reduction_at(r, piece->elems, from)};
        for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++)
            give(ampi_coll_part_args(slot, i), r, &run);
    }
}

/* Passes the running result of a block of elements from member to member: `sum` is the result of the processes before
 * this one, NULL: there are none. In place is safe: a contribution is copied before the result takes its place. */
static void scan_block(struct ampi_coll_slot *slot, MPI_Count from, MPI_Count count, const void *sum,
                       struct ampi_coll_scratch scratch[2])
{
    const struct ampi_reduction *r = reduction_of(slot);
    bool is_exclusive = slot->last->plan->is_exclusive;

    for (int i = 0; i < n_local_of(slot); i++) {
        struct ampi_coll_args *args = local_args(slot, i);
        void *next = scratch[i % 2].elems;
        void *to =
            ampi_type_address(args->recv.buf, args->recv.type ? from * args->recv.type->extent_bytes : 0);
        ampi_coll_gpu_copy(args, next, r->type, ampi_reduction_at(r, ampi_coll_input(args), from), r->type,
                           count);
        if (is_exclusive && sum)
            ampi_coll_gpu_copy(args, to, args->recv.type, sum, r->type, count);
        if (sum)
            ampi_op_apply(r->op, sum, next, count, r->type);
        if (!is_exclusive)
            ampi_coll_gpu_copy(args, to, args->recv.type, next, r->type, count);
        sum = next;
    }
}

static void scan_share(struct ampi_coll_slot *slot, int part)
{
    const struct ampi_reduction *r = reduction_of(slot);
    MPI_Count block = ampi_coll_fold_block(slot->last, r->count), from, to;
    struct ampi_coll_scratch scratch[2];

    ampi_coll_slice(slot, part, r->count, &from, &to);
    if (block > to - from)
        block = to - from;
    if (block <= 0)
        return;
    for (int i = 0; i < 2; i++)
        ampi_coll_scratch_init(&scratch[i], r->type, block);
    for (; from < to; from += block)
        scan_block(slot, from, to - from < block ? to - from : block,
                   r->before ? ampi_reduction_at(r, r->before, from) : NULL, scratch);
    for (int i = 0; i < 2; i++)
        ampi_coll_scratch_fini(&scratch[i]);
}

static void give_share(struct ampi_coll_slot *slot, int part)
{
    const struct ampi_reduction *r = reduction_of(slot);

    if (slot->last->plan->flow == AMPI_COLL_FLOW_SCAN) {
        scan_share(slot, part);
        return;
    }
    if (!r->pieces)
        give_piece(slot, part, &(struct ampi_reduction_piece){0, r->count, r->elems});
    for (int i = 0; i < r->n_pieces; i++)
        give_piece(slot, part, &r->pieces[i]);
}

static void give_middle(struct ampi_coll_slot *slot)
{
    const struct ampi_reduction *r = reduction_of(slot);

    if (r->is_mismatch)
        for (int i = 0; i < n_local_of(slot); i++)
            local_args(slot, i)->error = MPI_ERR_COUNT;
    else if (r->count == 0 || r->is_given)
        return;
    else if (slot->last->plan->flow == AMPI_COLL_FLOW_SCAN && gpu_is_used())
        for (int part = 0; part < slot->state->n_parts; part++)
            scan_share(slot, part);
    else
        ampi_coll_share_or_do(slot, AMPI_COLL_BCAST, r->n_bytes * (size_t)n_local_of(slot));
}

static const struct ampi_coll_plan give_plan = {
    .name = "result of a reduction", .middle = give_middle, .share = give_share};

void ampi_reduction_over(struct ampi_exchange *x)
{
    x->slot->plan = &give_plan;
}
