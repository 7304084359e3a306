/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reduce_scatter.c: MPI_Reduce_scatter_block and MPI_Reduce_scatter (MPI 5.0, section 6.10): a reduction
 * whose result is scattered in blocks. Each receiver's block is combined directly into its buffer. In
 * place, where inputs and results share memory, and for users' functions and small blocks, which are combined many
 * at a time, it is combined into memory of the PE and delivered from there. Cost: one read of all
 * contributions; large ones on all PEs, each for its own ranks as receivers.
 */
#include "ampi/coll/plan/coll_calls.h"

#include <string.h>

#include "ampi/coll/engine/fold.h"
#include "ampi/coll/engine/items.h"
#include "base/log.h"

/* Blocks up to this size are combined many at a time if a process has at least this many members: single blocks would
 * cost a call for each contribution. Larger blocks gain nothing, and need memory. */
#define SMALL_BLOCK_BYTES 1024
#define SMALL_MEMBERS 4

/* In args->recv the counts are those of the receivers' blocks; args->send.count is their sum. */
static MPI_Count block_from(const struct ampi_coll_args *args, int rank)
{
    MPI_Count from = 0;

    if (!args->recv.counts)
        return rank * args->recv.count;
    for (int i = 0; i < rank; i++)
        from += ampi_coll_count(&args->recv, i);
    return from;
}

/* Combines elements from .. from + count - 1 of the result for a member's side into `to`. */
static void fold_range(const struct ampi_coll_slot *slot, int part, const struct ampi_coll_args *args,
                       MPI_Count from, MPI_Count count, void *to)
{
    MPI_Count block = ampi_coll_fold_block(slot->last, count);

    for (MPI_Count done = 0; done < count; done += block)
        ampi_coll_fold(slot, part, ampi_coll_peers(args->comm), from + done,
                       count - done < block ? count - done : block,
                       ampi_type_address(to, done * args->recv.type->extent_bytes));
}

/* ---- Directly into the receivers' buffers, which no other member reads ---- */

static void receive_blocks(const struct ampi_coll_slot *slot, int part)
{
    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++) {
        struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
        int rank = args->comm->rank;
        fold_range(slot, part, args, block_from(args, rank), ampi_coll_count(&args->recv, rank),
                   args->recv.buf);
    }
}

/* ---- Through memory of the part, until all members have read the contributions ---- */

static MPI_Count count_part(const struct ampi_coll_slot *slot, int part)
{
    MPI_Count count = 0;

    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++) {
        const struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
        count += ampi_coll_count(&args->recv, args->comm->rank);
    }
    return count;
}

/* True if both members have the same counts. If not, which is an error of the program, each gets the block
 * that its own counts describe. */
static bool has_same_counts(const struct ampi_coll_args *a, const struct ampi_coll_args *b)
{
    const struct ampi_coll_buf *x = &a->recv, *y = &b->recv;
    size_t each_bytes = x->has_large_counts ? sizeof(MPI_Count) : sizeof(int);

    if (!x->counts || !y->counts)
        return x->counts == y->counts && x->count == y->count;
    return x->has_large_counts == y->has_large_counts &&
           memcmp(x->counts, y->counts, (size_t)a->comm->local->n_ranks * each_bytes) == 0;
}

/* The blocks of receivers with consecutive ranks are one range, which is combined at once. */
static void hold_blocks(const struct ampi_coll_slot *slot, int part)
{
    struct ampi_coll_scratch *held = base_malloc(sizeof *held, "a reduction in place");
    const struct ampi_type *type = slot->last->recv.type;
    int end = ampi_coll_part_to(slot, part);
    MPI_Count done = 0;

    ampi_coll_scratch_init(held, type, count_part(slot, part));
    for (int i = ampi_coll_part_from(slot, part); i < end;) {
        const struct ampi_coll_args *first = ampi_coll_part_args(slot, i);
        MPI_Count count = 0;
        int n = 0;
        for (; i < end; i++, n++) {
            const struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
            if (args->comm->local != first->comm->local || args->comm->rank != first->comm->rank + n ||
                !has_same_counts(args, first))
                break;
            count += ampi_coll_count(&args->recv, args->comm->rank);
        }
        fold_range(slot, part, first, block_from(first, first->comm->rank), count,
                   ampi_type_address(held->elems, done * type->extent_bytes));
        done += count;
    }
    slot->parts[part].held = held;
}

static void reduce_scatter_deliver(struct ampi_coll_slot *slot, int part)
{
    struct ampi_coll_scratch *held = slot->parts[part].held;
    MPI_Count done = 0;

    if (slot->gpus) {
        ampi_coll_device->scatter_end(slot, part);
        return;
    }
    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++) {
        struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
        MPI_Count count = ampi_coll_count(&args->recv, args->comm->rank);
        ampi_coll_device_copy(args, args->recv.buf, args->recv.type,
                              ampi_type_address(held->elems, done * args->recv.type->extent_bytes),
                              args->recv.type, count);
        done += count;
    }
    ampi_coll_scratch_fini(held);
    free(held);
}

/* ---- GPU buffers: the same, by kernels ---- */

static void scatter_blocks(struct ampi_coll_slot *slot, int part)
{
    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++) {
        const struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
        int rank = args->comm->rank;
        ampi_coll_device->scatter_result(slot, part, args, block_from(args, rank),
                                         ampi_coll_count(&args->recv, rank), slot->has_result);
    }
}

/* ---- The plan ---- */

static void reduce_scatter_share(struct ampi_coll_slot *slot, int part)
{
    slot->parts[part].held = NULL;
    if (slot->gpus)
        scatter_blocks(slot, part);
    else if (slot->has_result)
        hold_blocks(slot, part);
    else
        receive_blocks(slot, part);
}

static bool has_small_blocks(const struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *last = slot->last;

    return slot->state->n_members >= SMALL_MEMBERS &&
           last->send.count * last->send.type->size_bytes <=
               (MPI_Count)SMALL_BLOCK_BYTES * last->comm->local->n_ranks;
}

static void reduce_scatter_middle(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *last = slot->last;

    if (!ampi_coll_check_sizes(slot) || last->send.count == 0)
        return;
    slot->gpus = ampi_coll_device_plan_scatter(slot);
    slot->has_result = !last->op->is_predefined || (!slot->gpus && has_small_blocks(slot));
    for (int i = 0; i < slot->state->n_members; i++)
        slot->has_result |= ampi_coll_is_in_place(&slot->args[i]->send);
    slot->needs_share =
        ampi_coll_must_share(slot, AMPI_COLL_REDUCE_SCATTER) || (slot->gpus && slot->state->n_parts > 1);
    for (int part = 0; part < slot->state->n_parts && !slot->needs_share; part++) {
        slot->parts[part].op = last->op;
        reduce_scatter_share(slot, part);
    }
}

static const struct ampi_coll_plan reduce_scatter_plan = {
    .name = "reduce_scatter",
    .has_nccl = true,
    .flow = AMPI_COLL_FLOW_REDUCE_SCATTER,
    .pack = ampi_coll_put_input,
    .unpack = ampi_coll_unpack_input,
    .middle = reduce_scatter_middle,
    .share = reduce_scatter_share,
    .deliver = reduce_scatter_deliver,
};

/* The total number of elements; the counts of the blocks have to be checked before they are added up. */
static int count_elems(const struct ampi_coll_args *args, const struct ampi_coll_buf *recv,
                       MPI_Count *count_out)
{
    int n_ranks = args->comm->local->n_ranks;
    bool is_array = recv->n_blocks != 0;
    MPI_Count count = 0;
    bool is_too_much = false;

    if (is_array && !recv->counts)
        return ampi_coll_raise(args->comm, MPI_ERR_ARG, "the array of receive counts is NULL");
    for (int i = 0; i < (is_array ? n_ranks : 1); i++) {
        if (BASE_UNLIKELY(ampi_coll_count(recv, i) < 0))
            return ampi_coll_raise(args->comm, MPI_ERR_COUNT, "receive count %d is %lld", i,
                                   (long long)ampi_coll_count(recv, i));
        is_too_much |= __builtin_add_overflow(count, ampi_coll_count(recv, i), &count);
    }
    if (!is_array)
        is_too_much = __builtin_mul_overflow(count, n_ranks, &count);
    *count_out = count;
    return is_too_much
               ? ampi_coll_raise(args->comm, MPI_ERR_COUNT, "the total of the receive counts exceeds 64 bits")
               : MPI_SUCCESS;
}

int ampi_coll_reduce_scatter(const struct ampi_coll_call *call, MPI_Comm comm, const void *send, MPI_Op op,
                             struct ampi_coll_args *args)
{
    struct ampi_coll_buf *recv = &args->recv;
    MPI_Count block_count = recv->count;
    MPI_Count count = 0;
    int error;

    ampi_coll_args_init(args, &reduce_scatter_plan);
    if ((error = ampi_coll_enter(call, comm, args)) || (error = count_elems(args, recv, &count)))
        return error;
    ampi_coll_set_one(&args->send, send, count, recv->handle);
    /* The number of elements that the receive buffer must have room for, while it is checked. */
    recv->count = send == MPI_IN_PLACE ? count : ampi_coll_count(recv, args->comm->rank);
    recv->n_blocks = 0;
    if ((error = ampi_coll_check_reduction(args, op, true, true)))
        return error;
    recv->count = block_count;
    recv->n_blocks = recv->counts ? args->comm->local->n_ranks : 0;
    return ampi_coll_begin(call, args);
}
