/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_nccl_plan.c: the data of NCCL operations, before and after. See coll_nccl.h.
 *
 * A process takes part with one buffer. If it has a single member with buffers that NCCL can use, these are
 * used directly. Otherwise its members' contributions are collected in memory of the library, and the
 * result is distributed from there.
 */
#include "ampi/coll/between/coll_nccl.h"
#include "ampi/coll/device/coll_device.h"

#include "ampi/coll/engine/fold.h"
#include "ampi/coll/between/reduction.h"
#include "ampi/coll/between/coll_remote.h"
#include "ampi/op/op_device.h"

static const struct ampi_coll_remote *remote_of(const struct ampi_exchange *x)
{
    return x->slot->state->remote;
}

static int n_local_of(const struct ampi_exchange *x)
{
    return ampi_remote_n_members(remote_of(x), remote_of(x)->own);
}

/* Member i of this process. */
static struct ampi_coll_args *local_args(const struct ampi_exchange *x, int i)
{
    return x->slot->args[ampi_remote_member(remote_of(x), remote_of(x)->first[remote_of(x)->own] + i)];
}

static void *scratch_of(struct ampi_exchange *x, size_t n_bytes)
{
    return ampi_coll_device_scratch(x, n_bytes ? n_bytes : 1);
}

/* The address of a block's data if it is consecutive memory that NCCL can use; else NULL. */
static void *usable(const struct ampi_exchange *x, struct ampi_coll_block block)
{
    void *first;

    if (!block.type || block.count <= 0 || !ampi_type_is_block(block.type, block.count))
        return NULL;
    first = ampi_type_address(block.buf, block.type->true_lb_bytes);
    return gpu_nccl_can_use(x->device, first) ? first : NULL;
}

/* ---- Supported operations ---- */

bool ampi_coll_nccl_has(const struct ampi_exchange *x, enum ampi_coll_kind *kind_out, size_t *n_bytes_out)
{
    const struct ampi_coll_args *last = x->slot->last;
    enum ampi_coll_flow flow = x->slot->plan->flow;
    struct gpu_combine combine;

    if (!last->has_buffers || x->slot->state->shared->is_inter || x->n < 2)
        return false;
    if (flow == AMPI_COLL_FLOW_BCAST || flow == AMPI_COLL_FLOW_ALL) {
        bool is_bcast = flow == AMPI_COLL_FLOW_BCAST;
        *kind_out = is_bcast ? AMPI_COLL_BCAST : AMPI_COLL_ALLGATHER;
        *n_bytes_out = ampi_coll_total_bytes(&last->recv, is_bcast ? 1 : x->slot->state->n_members);
        return *n_bytes_out > 0;
    }
    if (!last->op->is_predefined || !last->send.type || !ampi_type_is_block(last->send.type, 2))
        return false;
    ampi_op_set_gpu_kernel(last->op, last->send.type, &combine);
    *kind_out = flow == AMPI_COLL_FLOW_REDUCE           ? AMPI_COLL_REDUCE
                : flow == AMPI_COLL_FLOW_REDUCE_SCATTER ? AMPI_COLL_REDUCE_SCATTER
                                                        : AMPI_COLL_ALLREDUCE;
    *n_bytes_out = (size_t)(last->send.count * last->send.type->size_bytes);
    return *n_bytes_out > 0 && gpu_nccl_can(combine.op, combine.type) &&
           (*kind_out != AMPI_COLL_REDUCE_SCATTER || remote_of(x)->is_blocked);
}

/* ---- Broadcasts ---- */

/* The member whose buffer is sent or received; NULL: memory of the library. */
static bool plan_bcast(struct ampi_exchange *x)
{
    struct ampi_coll_nccl_op *op = x->nccl;
    void *buf = NULL;

    for (int i = 0; i < n_local_of(x) && !buf; i++) {
        struct ampi_coll_args *args = local_args(x, i);
        struct ampi_coll_block block = ampi_coll_whole(&args->recv);
        if (x->own == x->root && !ampi_coll_is_root(args))
            continue;
        op->packed = x->own == x->root ? args : NULL;
        if (ampi_coll_block_bytes(&block) == op->n_bytes && (buf = usable(x, block)))
            op->direct = args;
    }
    if (buf)
        op->packed = NULL;
    else
        buf = scratch_of(x, op->n_bytes);
    op->call = (struct gpu_nccl_call){
        .kind = GPU_NCCL_BCAST, .send = buf, .recv = buf, .count = op->n_bytes, .root = x->root};
    return buf != NULL;
}

static void fill_bcast(struct ampi_exchange *x)
{
    struct ampi_coll_nccl_op *op = x->nccl;

    if (op->packed)
        ampi_coll_move(op->packed, ampi_coll_bytes(op->call.recv, op->n_bytes),
                       ampi_coll_whole(&op->packed->recv));
}

static void give_bcast(const struct ampi_exchange *x, struct ampi_coll_args *args)
{
    const struct ampi_coll_nccl_op *op = x->nccl;

    if (args != op->direct && !ampi_coll_is_root(args))
        ampi_coll_move(args, ampi_coll_whole(&args->recv), ampi_coll_bytes(op->call.recv, op->n_bytes));
}

/* ---- Allgathers ---- */

/* The only member's buffer, if NCCL's output layout equals the member's. */
static void *direct_allgather(const struct ampi_exchange *x)
{
    struct ampi_coll_args *args = local_args(x, 0);
    struct ampi_coll_block all = {args->recv.buf, args->recv.count * x->slot->state->n_members,
                                  args->recv.type, NULL};

    return n_local_of(x) == 1 && remote_of(x)->is_blocked && !args->recv.counts ? usable(x, all) : NULL;
}

static bool plan_allgather(struct ampi_exchange *x)
{
    const struct ampi_coll_remote *remote = remote_of(x);
    const struct ampi_coll_buf *recv = &x->slot->last->recv;
    struct ampi_coll_nccl_op *op = x->nccl;
    size_t *counts = ampi_exchange_alloc(x, (size_t)x->n * sizeof *counts);
    size_t at = 0, own_at = 0;
    void *buf = direct_allgather(x), *send;

    op->offsets = ampi_exchange_alloc(x, (size_t)x->slot->state->n_members * sizeof *op->offsets);
    for (int proc = 0; proc < x->n; proc++) {
        size_t begin = at;
        own_at = proc == x->own ? at : own_at;
        for (int i = remote->first[proc]; i < remote->first[proc + 1]; i++) {
            struct ampi_coll_block block = ampi_coll_block(recv, ampi_remote_member(remote, i));
            op->offsets[ampi_remote_member(remote, i)] = at;
            at += ampi_coll_block_bytes(&block);
        }
        counts[proc] = at - begin;
    }
    if (buf)
        op->direct = local_args(x, 0);
    else
        buf = scratch_of(x, op->n_bytes);
    if (!buf)
        return false;
    send = n_local_of(x) == 1 ? usable(x, ampi_coll_contribution(local_args(x, 0))) : NULL;
    op->call = (struct gpu_nccl_call){.kind = GPU_NCCL_ALLGATHER,
                                      .send = send ? send : (char *)buf + own_at,
                                      .recv = buf,
                                      .count = op->n_bytes,
                                      .counts = counts};
    return true;
}

static void fill_allgather(struct ampi_exchange *x)
{
    const struct ampi_coll_remote *remote = remote_of(x);
    struct ampi_coll_nccl_op *op = x->nccl;

    for (int i = 0; i < n_local_of(x); i++) {
        struct ampi_coll_args *args = local_args(x, i);
        struct ampi_coll_block from = ampi_coll_contribution(args);
        size_t at = op->offsets[ampi_remote_member(remote, remote->first[remote->own] + i)];
        struct ampi_coll_block own =
            ampi_coll_block(&x->slot->last->recv, ampi_remote_member(remote, remote->first[remote->own] + i));
        if (op->call.send ==
                (char *)op->call.recv + op->offsets[ampi_remote_member(remote, remote->first[remote->own])] &&
            (op->direct != args || !ampi_coll_is_in_place(&args->send)))
            ampi_coll_move(args, ampi_coll_bytes((char *)op->call.recv + at, ampi_coll_block_bytes(&own)),
                           from);
    }
}

static void give_allgather(const struct ampi_exchange *x, struct ampi_coll_args *args)
{
    const struct ampi_coll_nccl_op *op = x->nccl;

    for (int source = 0; source < x->slot->state->n_members && args != op->direct; source++) {
        struct ampi_coll_block to = ampi_coll_block(&args->recv, source);
        if (source != args->comm->rank || !ampi_coll_is_in_place(&args->send))
            ampi_coll_move(
                args, to,
                ampi_coll_bytes((char *)op->call.recv + op->offsets[source], ampi_coll_block_bytes(&to)));
    }
}

/* ---- Reductions ---- */

/* A vector of the reduction's type, as an argument for NCCL. */
static void *elems_of(const struct ampi_reduction *r, void *first)
{
    return ampi_type_address(first, -r->type->true_lb_bytes);
}

/* The only member's result buffer; NULL: it has none, or NCCL cannot write there. */
static void *result_of(const struct ampi_exchange *x, MPI_Count count)
{
    struct ampi_coll_args *args = local_args(x, 0);

    if (n_local_of(x) > 1 || (x->slot->plan->flow == AMPI_COLL_FLOW_REDUCE && !ampi_coll_is_root(args)))
        return NULL;
    return usable(x, (struct ampi_coll_block){args->recv.buf, count, args->recv.type, NULL});
}

static bool plan_reduction(struct ampi_exchange *x)
{
    struct ampi_coll_args *last = x->slot->last;
    struct ampi_reduction *r = ampi_exchange_alloc(x, sizeof *r);
    enum ampi_coll_flow flow = x->slot->plan->flow;
    struct ampi_coll_nccl_op *op = x->nccl;
    bool is_scattered = flow == AMPI_COLL_FLOW_REDUCE_SCATTER;
    MPI_Count from = 0, to = last->send.count;
    void *send = NULL, *recv = NULL;
    struct gpu_combine combine;
    size_t *counts = NULL;

    *r = (struct ampi_reduction){.op = last->op,
                                 .type = last->send.type,
                                 .count = last->send.count,
                                 .n_bytes = op->n_bytes,
                                 .is_own = true,
                                 .is_block = true};
    if (!ampi_coll_has_same_sizes(x->slot))
        return false;
    if (is_scattered) {
        counts = ampi_exchange_alloc(x, (size_t)x->n * sizeof *counts);
        for (int i = 0; i < x->n; i++) {
            ampi_reduction_blocks(x, i, &from, &to);
            counts[i] = ampi_op_elems(r->type, to - from);
        }
        ampi_reduction_blocks(x, x->own, &from, &to);
    }
    if (n_local_of(x) == 1)
        send = usable(x, (struct ampi_coll_block){ampi_coll_input(last), r->count, r->type, NULL});
    if (!(is_scattered && ampi_coll_is_in_place(&last->send)))
        recv = to > from ? result_of(x, to - from) : NULL;
    x->reduction = r;
    if (!send) {
        send = scratch_of(x, op->n_bytes);
        r->elems = send ? elems_of(r, send) : NULL; /* to be filled */
        if (send && !recv)
            recv = (char *)send + from * r->type->size_bytes;
    }
    if (send && !recv && (flow != AMPI_COLL_FLOW_REDUCE || x->own == x->root))
        recv = scratch_of(x, (size_t)((to - from) * r->type->size_bytes));
    if (!send || (!recv && (flow != AMPI_COLL_FLOW_REDUCE || x->own == x->root))) {
        x->reduction = NULL;
        return false;
    }
    ampi_op_set_gpu_kernel(r->op, r->type, &combine);
    op->call = (struct gpu_nccl_call){.kind = is_scattered                    ? GPU_NCCL_REDUCE_SCATTER
                                              : flow == AMPI_COLL_FLOW_REDUCE ? GPU_NCCL_REDUCE
                                                                              : GPU_NCCL_ALLREDUCE,
                                      .send = send,
                                      .recv = recv,
                                      .count = ampi_op_elems(r->type, r->count),
                                      .counts = counts,
                                      .root = x->root,
                                      .op = combine.op,
                                      .type = combine.type};
    return true;
}

static void fill_reduction(struct ampi_exchange *x)
{
    struct ampi_reduction *r = x->reduction;
    struct ampi_coll_args *last = x->slot->last;

    if (!r->elems)
        return;
    if (n_local_of(x) > 1)
        ampi_reduction_combine_local(x);
    else
        ampi_coll_move(last, (struct ampi_coll_block){r->elems, r->count, r->type, NULL},
                       (struct ampi_coll_block){ampi_coll_input(last), r->count, r->type, NULL});
}

/* reduction.c distributes results from a complete vector. */
static void give_reduction(struct ampi_exchange *x)
{
    struct ampi_reduction *r = x->reduction;
    MPI_Count from = 0, to;

    if (x->slot->plan->flow == AMPI_COLL_FLOW_REDUCE_SCATTER)
        ampi_reduction_blocks(x, x->own, &from, &to);
    r->elems = ampi_reduction_at(r, elems_of(r, x->nccl->call.recv), -from);
    ampi_reduction_over(x);
}

/* ---- All of them ---- */

bool ampi_coll_nccl_plan(struct ampi_exchange *x)
{
    switch (x->nccl->kind) {
    case AMPI_COLL_BCAST:
        return plan_bcast(x);
    case AMPI_COLL_ALLGATHER:
        return plan_allgather(x);
    default:
        return plan_reduction(x);
    }
}

void ampi_coll_nccl_fill(struct ampi_exchange *x)
{
    switch (x->nccl->kind) {
    case AMPI_COLL_BCAST:
        fill_bcast(x);
        break;
    case AMPI_COLL_ALLGATHER:
        fill_allgather(x);
        break;
    default:
        fill_reduction(x);
    }
}

static void give_share(struct ampi_coll_slot *slot, int part)
{
    const struct ampi_exchange *x = &slot->between->x;

    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++) {
        struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
        if (x->nccl->kind == AMPI_COLL_BCAST)
            give_bcast(x, args);
        else
            give_allgather(x, args);
    }
}

static void give_middle(struct ampi_coll_slot *slot)
{
    const struct ampi_exchange *x = &slot->between->x;

    if (x->nccl->direct && n_local_of(x) == 1)
        return;
    ampi_coll_share_or_do(slot, AMPI_COLL_BCAST, x->nccl->n_bytes * (size_t)n_local_of(x));
}

static const struct ampi_coll_plan give_plan = {
    .name = "result of NCCL", .middle = give_middle, .share = give_share};

/* All members have got their error. */
static const struct ampi_coll_plan failed_plan = {.name = "failure of NCCL"};

void ampi_coll_nccl_give(struct ampi_exchange *x)
{
    struct ampi_coll_nccl_op *op = x->nccl;

    if (BASE_UNLIKELY(op->error)) {
        ampi_coll_device_fail(x->slot, op->error);
        x->slot->plan = &failed_plan;
    } else if (x->reduction) {
        give_reduction(x);
    } else {
        x->slot->plan = &give_plan;
    }
}
