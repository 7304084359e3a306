/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reduction.c: what reductions between processes have in common: the vector, before and after. See
 * reduction.h.
 */
#include "ampi/coll/between/reduction.h"
#include "ampi/coll/device/coll_device.h"

#include "ampi/coll/engine/fold.h"
#include "ampi/coll/between/coll_remote.h"
#include "ampi/object/error.h"
#include "base/log.h"

/* The note of a message: how many bytes the sender's vector has; or that some did not fit. */
#define NOTE_MISMATCH UINT64_MAX

/* Room for elements of the vector's type, as buffers are given to MPI. */
static void *new_elems(struct ampi_exchange *x, MPI_Count count)
{
    MPI_Count lo;
    size_t n_bytes = ampi_coll_elems_bytes(x->reduction->type, count, &lo);

    return ampi_type_address(ampi_exchange_alloc_data(x, n_bytes), -lo);
}

/* Copies elements, or combines those of `in` with those of `inout`, wherever they are. */
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
    const struct ampi_reduction *r = x->reduction;
    const void *elems = ampi_reduction_at(r, r->elems, from);
    size_t n_bytes = (size_t)(count * r->type->size_bytes);
    struct ampi_coll_block packed;

    if (r->is_mismatch) {
        ampi_exchange_send(x, to, tag, NOTE_MISMATCH, NULL, 0);
    } else if (r->is_block) {
        ampi_exchange_send(x, to, tag, r->n_bytes, ampi_type_address(elems, r->type->true_lb_bytes), n_bytes);
    } else {
        packed = ampi_coll_bytes(ampi_exchange_alloc(x, n_bytes), n_bytes);
        ampi_type_copy(packed.buf, packed.count, packed.type, elems, count, r->type);
        ampi_exchange_send(x, to, tag, r->n_bytes, packed.buf, n_bytes);
    }
}

void *ampi_reduction_elems(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                           MPI_Count count)
{
    struct ampi_reduction *r = x->reduction;
    struct ampi_coll_block packed = ampi_coll_bytes(message->bytes, message->n_bytes);
    void *elems;

    r->is_mismatch |= message->note != r->n_bytes;
    if (r->is_mismatch || count == 0)
        return NULL;
    if (r->is_block)
        return ampi_type_address(message->bytes, -r->type->true_lb_bytes);
    elems = new_elems(x, count);
    ampi_type_copy(elems, count, r->type, packed.buf, packed.count, packed.type);
    return elems;
}

void ampi_reduction_own(struct ampi_exchange *x)
{
    struct ampi_reduction *r = x->reduction;
    void *old = r->elems;

    if (r->is_own)
        return;
    r->elems = r->home ? r->home : new_elems(x, r->count);
    r->is_own = true;
    copy(x, r->elems, old, r->count);
}

void ampi_reduction_combine(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                            MPI_Count from, MPI_Count count)
{
    struct ampi_reduction *r = x->reduction;
    bool is_before = ampi_exchange_sender(x, message) < x->own;
    bool is_whole = count == r->count;
    void *came = ampi_reduction_elems(x, message, count);

    if (!came)
        return;
    if (is_before || (r->op->is_commutative && !is_whole)) {
        ampi_reduction_own(x);
        apply(x, came, ampi_reduction_at(r, r->elems, from), count);
        return;
    }
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

void ampi_reduction_replace(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                            MPI_Count from, MPI_Count count)
{
    struct ampi_reduction *r = x->reduction;
    struct ampi_coll_block came = ampi_coll_bytes(message->bytes, message->n_bytes);

    r->is_mismatch |= message->note != r->n_bytes;
    if (r->is_mismatch || count == 0)
        return;
    if (!r->is_own && count == r->count) {
        r->elems = r->home ? r->home : new_elems(x, count);
        r->is_own = true;
    }
    ampi_reduction_own(x);
    if (BASE_UNLIKELY(x->device >= 0)) /* then elements are consecutive */
        copy(x, ampi_reduction_at(r, r->elems, from),
             ampi_type_address(message->bytes, -r->type->true_lb_bytes), count);
    else
        ampi_type_copy(ampi_reduction_at(r, r->elems, from), count, r->type, came.buf, came.count, came.type);
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
    int first = remote->members[remote->first[participant]];
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

    return slot->args[remote->members[remote->first[remote->own] + i]];
}

static int n_local_of(const struct ampi_coll_slot *slot)
{
    return ampi_remote_n_members(slot->state->remote, slot->state->remote->own);
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

void ampi_reduction_combine_local(struct ampi_exchange *x)
{
    struct ampi_reduction *r = x->reduction;
    MPI_Count block = ampi_coll_fold_block(x->slot->last, r->count);
    struct ampi_coll_args **members;

    if (gpu_is_used() && ampi_coll_gpu_any(x->slot)) {
        members = ampi_exchange_alloc(x, (size_t)n_local_of(x->slot) * sizeof(struct ampi_coll_args *));
        for (int i = 0; i < n_local_of(x->slot); i++)
            members[i] = local_args(x->slot, i);
        ampi_coll_device_fold_of(x->slot, members, n_local_of(x->slot), r->count, r->elems);
        return;
    }
    for (MPI_Count from = 0; from < r->count; from += block)
        combine_local(x, ampi_reduction_at(r, r->elems, from), from,
                      r->count - from < block ? r->count - from : block);
}

bool ampi_reduction_fits(const struct ampi_coll_slot *slot)
{
    /* On intercommunicators not everybody knows the operation; and a user's function runs on its rank's
     * stack, which the steps of an exchange do not. */
    if (slot->state->shared->is_inter || !slot->last->op->is_predefined)
        return false;
    return slot->state->remote->is_blocked ||
           (slot->plan->flow != AMPI_COLL_FLOW_SCAN && slot->last->op->is_commutative);
}

/* All processes come to the same choice: it depends on what all ranks gave alike. */
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
    if (!ampi_exchange_is_direct(x->algorithm) || r->n_bytes < AMPI_EXCHANGE_DIRECT_BYTES ||
        !ampi_coll_device_has_kernel(r->op, r->type))
        x->device = -1;
    if (r->is_mismatch)
        return;
    if (n_local_of(x->slot) > 1) {
        r->elems = new_elems(x, r->count);
        r->is_own = true;
        ampi_reduction_combine_local(x);
        return;
    }
    r->elems = ampi_coll_input(last);
    if (x->slot->plan->flow == AMPI_COLL_FLOW_ALLREDUCE &&
        ampi_device_has(last->recv.buf, r->count, r->type) == (x->device >= 0)) {
        r->home = last->recv.buf;
        r->is_own = r->elems == r->home;
    }
    if (x->device < 0 && ampi_device_has(r->elems, r->count, r->type)) {
        struct ampi_coll_block input = {r->elems, r->count, r->type};
        r->elems = r->home ? r->home : new_elems(x, r->count);
        r->is_own = true;
        ampi_coll_move(last, (struct ampi_coll_block){r->elems, r->count, r->type}, input);
    }
}

/* ---- After: handing out, as the middle stage and its share ---- */

static const struct ampi_reduction *reduction_of(const struct ampi_coll_slot *slot)
{
    return slot->wire->x.reduction;
}

/* Elements from .. from + count - 1 into a member's buffer. */
static void give(struct ampi_coll_args *args, const struct ampi_reduction *r, MPI_Count from, MPI_Count count)
{
    void *elems = ampi_reduction_at(r, r->elems, from);

    if (args->recv.buf != elems && count > 0)
        ampi_coll_move(args, (struct ampi_coll_block){args->recv.buf, count, args->recv.type},
                       (struct ampi_coll_block){elems, count, r->type});
}

static void give_share(struct ampi_coll_slot *slot, int part)
{
    const struct ampi_reduction *r = reduction_of(slot);
    bool is_scattered = slot->last->plan->flow == AMPI_COLL_FLOW_REDUCE_SCATTER;

    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++) {
        struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
        MPI_Count from = 0;
        int rank = args->comm->rank;
        for (int k = 0; is_scattered && args->recv.counts && k < rank; k++)
            from += ampi_coll_count(&args->recv, k);
        if (is_scattered)
            give(args, r, args->recv.counts ? from : rank * args->recv.count,
                 ampi_coll_count(&args->recv, rank));
        else if (slot->last->plan->flow != AMPI_COLL_FLOW_REDUCE || ampi_coll_is_root(args))
            give(args, r, 0, r->count);
    }
}

/* Carries the running result from member to member. In place is safe: a contribution is copied before the
 * result takes its place. */
static void give_scan(struct ampi_coll_slot *slot)
{
    struct ampi_exchange *x = &slot->wire->x;
    const struct ampi_reduction *r = x->reduction;
    bool is_exclusive = slot->last->plan->is_exclusive;
    void *sum = r->before, *next = new_elems(x, r->count);

    for (int i = 0; i < n_local_of(slot); i++) {
        struct ampi_coll_args *args = local_args(slot, i);
        void *old = sum;
        ampi_coll_gpu_copy(args, next, r->type, ampi_coll_input(args), r->type, r->count);
        if (is_exclusive && sum)
            ampi_coll_gpu_copy(args, args->recv.buf, args->recv.type, sum, r->type, r->count);
        if (sum)
            ampi_op_apply(r->op, sum, next, r->count, r->type);
        if (!is_exclusive)
            ampi_coll_gpu_copy(args, args->recv.buf, args->recv.type, next, r->type, r->count);
        sum = next;
        next = old ? old : new_elems(x, r->count);
    }
}

static void give_middle(struct ampi_coll_slot *slot)
{
    const struct ampi_reduction *r = reduction_of(slot);

    if (r->is_mismatch)
        for (int i = 0; i < n_local_of(slot); i++)
            local_args(slot, i)->error = MPI_ERR_COUNT;
    else if (r->count == 0)
        return;
    else if (slot->last->plan->flow == AMPI_COLL_FLOW_SCAN)
        give_scan(slot);
    else
        ampi_coll_share_or_do(slot, AMPI_COLL_BCAST, r->n_bytes * (size_t)n_local_of(slot));
}

static const struct ampi_coll_plan give_plan = {
    .name = "result of a reduction", .middle = give_middle, .share = give_share};

void ampi_reduction_over(struct ampi_exchange *x)
{
    x->slot->plan = &give_plan;
}
