/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reduce.c: MPI_Reduce and MPI_Allreduce (MPI 5.0, sections 6.9.1 and 6.9.6). The elements are combined in
 * cache-sized blocks, each of which is written to all receivers while it is in the cache. Cost: one read of
 * all contributions and one write per receiver; large ones on all PEs, each for a slice of the elements. In
 * place is safe because a PE reads a block of all ranks before it writes that block.
 */
#include "ampi/coll/plan/coll_calls.h"

#include "ampi/coll/engine/fold.h"
#include "ampi/coll/engine/pair.h"
#include "ampi/coll/engine/items.h"

/* Combines elements from .. to - 1 of the sources' contributions, block_elems at a time, into the targets'
 * buffers; GPUs process those of their part. */
static void combine(struct ampi_coll_slot *slot, int part, struct ampi_coll_span sources,
                    struct ampi_coll_span targets, MPI_Count from, MPI_Count to, MPI_Count block_elems)
{
    const struct ampi_type *type = slot->last->send.type;
    bool is_stream =
        ampi_coll_is_stream((size_t)(slot->last->send.count * type->size_bytes) * (size_t)targets.n);
    struct ampi_coll_scratch scratch;

    if (slot->gpus) {
        ampi_coll_device->reduce(slot, part, sources, targets);
        return;
    }
    if (ampi_coll_device_combine(slot, part, sources, targets, from, to))
        return;
    if (block_elems > to - from)
        block_elems = to - from;
    if (block_elems <= 0)
        return;
    ampi_coll_scratch_init(&scratch, type, block_elems);
    for (; from < to; from += block_elems) {
        MPI_Count count = to - from < block_elems ? to - from : block_elems;
        ampi_coll_fold(slot, part, sources, from, count, scratch.elems);
        for (int i = targets.first; i < targets.first + targets.n; i++) {
            struct ampi_coll_args *args = slot->args[i];
            struct ampi_coll_block dst = {ampi_type_address(args->recv.buf, from * type->extent_bytes), count,
                                          args->recv.type, NULL};
            if (!args->is_remote)
                ampi_coll_copy_block(args, dst, (struct ampi_coll_block){scratch.elems, count, type, NULL},
                                     is_stream);
        }
    }
    ampi_coll_scratch_fini(&scratch);
}

/* Combines elements from .. to - 1 for all members that get a result. */
static void combine_all(struct ampi_coll_slot *slot, int part, MPI_Count from, MPI_Count to,
                        MPI_Count block_elems)
{
    bool is_inter = slot->state->shared->is_inter;

    for (int side = 0; side <= (is_inter ? 1 : 0); side++)
        combine(slot, part, ampi_coll_side(slot, is_inter ? !side : 0), ampi_coll_side(slot, side), from, to,
                block_elems);
}

static void combine_at_root(struct ampi_coll_slot *slot, int part, MPI_Count from, MPI_Count to,
                            MPI_Count block_elems)
{
    const struct ampi_comm *comm = ampi_coll_root_args(slot)->comm;

    combine(slot, part, ampi_coll_peers(comm), (struct ampi_coll_span){ampi_coll_member(comm), 1}, from, to,
            block_elems);
}

typedef void (*combine_fn)(struct ampi_coll_slot *slot, int part, MPI_Count from, MPI_Count to,
                           MPI_Count block_elems);

/* Decides which PEs or GPUs do the work. root: the only receiver; NULL: all members. */
static void decide(struct ampi_coll_slot *slot, enum ampi_coll_kind kind, const struct ampi_coll_args *root,
                   combine_fn fn)
{
    const struct ampi_coll_args *last = slot->last;
    MPI_Count count = last->send.count;

    if (!ampi_coll_check_sizes(slot) || count == 0)
        return;
    slot->gpus = ampi_coll_device_plan(slot, root);
    if (slot->gpus ? ampi_coll_device->must_share(slot) : ampi_coll_must_share(slot, kind))
        slot->needs_share = true;
    else
        fn(slot, ampi_coll_own_part(slot), 0, count, ampi_coll_fold_block(last, count));
}

static void share(struct ampi_coll_slot *slot, int part, combine_fn fn)
{
    MPI_Count from, to;

    ampi_coll_slice(slot, part, slot->last->send.count, &from, &to);
    fn(slot, part, from, to, ampi_coll_fold_block(slot->last, to - from));
}

/* ---- MPI_Allreduce ---- */

static void allreduce_middle(struct ampi_coll_slot *slot)
{
    if (ampi_coll_all_packed(slot))
        ampi_coll_fold_packed(slot);
    else
        decide(slot, AMPI_COLL_ALLREDUCE, NULL, combine_all);
}

static void allreduce_share(struct ampi_coll_slot *slot, int part)
{
    share(slot, part, combine_all);
}

static void allreduce_deliver(struct ampi_coll_slot *slot, int part)
{
    const struct ampi_coll_result *result = ampi_coll_result(slot, part);

    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++)
        ampi_coll_copy_result(&ampi_coll_part_args(slot, i)->recv, result);
}

static const struct ampi_coll_plan allreduce_plan = {
    .name = "allreduce",
    .has_nccl = true,
    .flow = AMPI_COLL_FLOW_ALLREDUCE,
    .pack = ampi_coll_put_input,
    .unpack = ampi_coll_unpack_input,
    .middle = allreduce_middle,
    .share = allreduce_share,
    .deliver = allreduce_deliver,
    .pair = ampi_coll_fold_pair,
};

BASE_UNCHECKED_FRAME int ampi_coll_allreduce(const struct ampi_coll_call *call, MPI_Comm comm,
                                             const void *send, void *recv, MPI_Count count, MPI_Datatype type,
                                             MPI_Op op)
{
    struct ampi_coll_args args;
    int error;

    ampi_coll_args_init(&args, &allreduce_plan);
    ampi_coll_set_one(&args.send, send, count, type);
    ampi_coll_set_one(&args.recv, recv, count, type);
    if ((error = ampi_coll_enter(call, comm, &args)) ||
        (error = ampi_coll_check_reduction(&args, op, true, true)))
        return error;
    ampi_coll_pack_input(&args, AMPI_COLL_ALLREDUCE);
    ampi_coll_pair_small(&args, args.pack_bytes);
    return ampi_coll_begin(call, &args);
}

/* ---- MPI_Reduce ---- */

static void reduce_middle(struct ampi_coll_slot *slot)
{
    struct ampi_coll_args *root = ampi_coll_root_args(slot);

    if (!root)
        return;
    if (!slot->last->op)
        slot->last =
            root; /* on intercommunicators the others of the root's group know neither operation nor type */
    if (ampi_coll_all_packed(slot)) {
        ampi_coll_fold_packed(slot);
        ampi_coll_set_root(slot, root);
    } else {
        decide(slot, AMPI_COLL_REDUCE, root, combine_at_root);
    }
}

static void reduce_pack(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                        struct ampi_coll_packer *out)
{
    if (ampi_coll_has_root(args))
        ampi_coll_put_input(slot, args, out);
}

static void reduce_share(struct ampi_coll_slot *slot, int part)
{
    share(slot, part, combine_at_root);
}

static void reduce_deliver(struct ampi_coll_slot *slot, int part)
{
    const struct ampi_coll_result *result = ampi_coll_result(slot, part);

    ampi_coll_copy_result(&slot->args[result->root]->recv, result);
}

static void reduce_pair(struct ampi_coll_args *args, const unsigned char *others, size_t n_bytes)
{
    if (ampi_coll_is_root(args))
        ampi_coll_fold_pair(args, others, n_bytes);
}

static const struct ampi_coll_plan reduce_plan = {
    .name = "reduce",
    .has_nccl = true,
    .flow = AMPI_COLL_FLOW_REDUCE,
    .pack = reduce_pack,
    .unpack = ampi_coll_unpack_input,
    .middle = reduce_middle,
    .share = reduce_share,
    .deliver = reduce_deliver,
    .pair = reduce_pair,
};

BASE_UNCHECKED_FRAME int ampi_coll_reduce(const struct ampi_coll_call *call, MPI_Comm comm, int root,
                                          const void *send, void *recv, MPI_Count count, MPI_Datatype type,
                                          MPI_Op op)
{
    struct ampi_coll_args args;
    int error;

    ampi_coll_args_init(&args, &reduce_plan);
    ampi_coll_set_one(&args.send, send, count, type);
    ampi_coll_set_one(&args.recv, recv, count, type);
    if ((error = ampi_coll_enter(call, comm, &args)) || (error = ampi_coll_check_root(&args, root)) ||
        (error = ampi_coll_check_reduction(&args, op, ampi_coll_has_root(&args), ampi_coll_is_root(&args))))
        return error;
    if (!args.comm->shared->is_inter)
        ampi_coll_pack_input(&args, AMPI_COLL_REDUCE);
    ampi_coll_pair_small(&args, args.pack_bytes);
    return ampi_coll_begin(call, &args);
}
