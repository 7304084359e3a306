/* SPDX-License-Identifier: BSD-3-Clause
 *
 * scatter.c: MPI_Scatter and MPI_Scatterv (MPI 5.0, section 6.6): every rank's block is copied from its
 * position at the root. Cost: one copy of all data; large ones on all PEs, each for its own ranks' blocks.
 */
#include "ampi/coll/plan/coll_calls.h"

#include "ampi/coll/engine/pair.h"
#include "ampi/coll/engine/usage.h"
#include "ampi/coll/engine/items.h"

static void move_own(const struct ampi_coll_args *root, struct ampi_coll_args *args)
{
    if (ampi_coll_has_root(args) && !ampi_coll_is_in_place(&args->recv))
        ampi_coll_move(args, ampi_coll_whole(&args->recv), ampi_coll_block(&root->send, args->comm->rank));
    /* MPI_Scatterv may send less: ampi_coll_refuse_length. The receiver's own call decides, because a stand-in
     * for a root has n_blocks for MPI_Scatter, too. */
    if (BASE_UNLIKELY(args->error == MPI_ERR_COUNT) && args->send.n_blocks)
        args->error = MPI_SUCCESS;
}

static void scatter_share(struct ampi_coll_slot *slot, int part)
{
    const struct ampi_coll_args *root = ampi_coll_root_args(slot);

    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++) {
        struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
        if (!args->is_moved)
            move_own(root, args);
        args->is_moved = false; /* persistent operations begin again with the same arguments */
    }
}

/* Copies the blocks of the root's process, while other processes copy theirs. */
static void scatter_early(const struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *root = ampi_coll_root_args(slot);

    for (int i = 0; i < ampi_coll_n_local(slot->state); i++) {
        struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
        move_own(root, args);
        args->is_moved = true;
    }
}

static void scatter_deliver(struct ampi_coll_slot *slot, int part)
{
    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++) {
        struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
        if (ampi_coll_has_root(args) && !ampi_coll_is_in_place(&args->recv))
            ampi_coll_move(args, ampi_coll_whole(&args->recv),
                           ampi_coll_bytes(ampi_coll_packed(slot, args->comm->rank), slot->result.n_bytes));
    }
}

/* Consecutive small blocks are copied into the slot as one. */
static bool take_all(struct ampi_coll_slot *slot, const struct ampi_coll_args *root)
{
    const struct ampi_coll_buf *send = &root->send;
    size_t n_bytes;

    if (send->counts || !ampi_type_is_block(send->type, 2) ||
        ampi_coll_device_has_data(send->buf, 1, send->type))
        return false;
    n_bytes = (size_t)(send->count * send->type->size_bytes);
    if (n_bytes > base_min_u64(ampi_coll_selections[AMPI_COLL_SCATTER].pack_to, AMPI_COLL_PACK_BYTES))
        return false;
    memcpy(slot->packed, ampi_type_address(send->buf, send->type->true_lb_bytes),
           n_bytes * (size_t)root->comm->peer->n_ranks);
    slot->result.n_bytes = n_bytes;
    slot->has_result = true;
    return true;
}

static void scatter_middle(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *root = ampi_coll_root_args(slot);

    if (root && (root->is_remote || !take_all(slot, root))) {
        /* A stand-in has no blocks behind the last one for a member of this process. */
        int n_blocks = root->is_remote ? root->send.n_blocks : root->comm->peer->n_ranks;
        ampi_coll_share_or_do(slot, AMPI_COLL_SCATTER, ampi_coll_total_bytes(&root->send, n_blocks));
    }
}

/* Packs the blocks of the other process's members. */
static void scatter_pack(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                         struct ampi_coll_packer *out)
{
    if (!ampi_coll_is_root(args))
        return;
    for (int i = 0; i < ampi_coll_n_peers_in(slot, args, out->proc); i++) {
        int rank = ampi_coll_peer_in(slot, args, out->proc, i);
        if (rank >= 0)
            ampi_coll_put(out, (uint64_t)rank, ampi_coll_block(&args->send, rank));
    }
}

static struct ampi_coll_block scatter_place(const struct ampi_coll_args *args, int source)
{
    (void)source;
    return ampi_coll_is_in_place(&args->recv) ? (struct ampi_coll_block){0} : ampi_coll_whole(&args->recv);
}

static size_t scatter_between_bytes(const struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *root = ampi_coll_root_args(slot);

    return ampi_coll_total_bytes(&root->send, root->comm->peer->n_ranks);
}

static void scatter_check(const struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *root = ampi_coll_root_args(slot);

    for (int i = 0; i < ampi_coll_n_local(slot->state); i++) {
        const struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
        if (root && ampi_coll_has_root(args) && !ampi_coll_is_in_place(&args->recv))
            ampi_coll_usage_compare(args, ampi_coll_whole(&args->recv), root,
                                    ampi_coll_block(&root->send, args->comm->rank));
    }
}

/* In a pair the root's packed contribution is the block for the other member. */
static void pack_for_other(struct ampi_coll_args *args)
{
    struct ampi_coll_block block;

    if (args->send.n_blocks)
        return;
    if (!ampi_coll_is_root(args)) {
        ampi_coll_pair_small(args, (size_t)(args->recv.count * args->recv.type->size_bytes));
        return;
    }
    if ((size_t)(args->send.count * args->send.type->size_bytes) > AMPI_COLL_PAIR_BYTES)
        return;
    block = ampi_coll_block(&args->send, !args->comm->rank);
    ampi_coll_pack(args, AMPI_COLL_SCATTER, block.buf, block.count, block.type);
    ampi_coll_pair_small(args, args->pack_bytes);
}

static void scatter_pair(struct ampi_coll_args *args, const unsigned char *others, size_t n_bytes)
{
    if (!ampi_coll_is_root(args))
        ampi_coll_move(args, ampi_coll_whole(&args->recv), ampi_coll_bytes(others, n_bytes));
    else if (!ampi_coll_is_in_place(&args->recv))
        ampi_coll_move(args, ampi_coll_whole(&args->recv), ampi_coll_block(&args->send, args->comm->rank));
}

static const struct ampi_coll_plan scatter_plan = {
    .name = "scatter",
    .flow = AMPI_COLL_FLOW_SCATTER,
    .between_bytes = scatter_between_bytes,
    .pack = scatter_pack,
    .unpack = ampi_coll_unpack_blocks,
    .place = scatter_place,
    .early = scatter_early,
    .check_blocks = scatter_check,
    .middle = scatter_middle,
    .share = scatter_share,
    .deliver = scatter_deliver,
    .pair = scatter_pair,
};

int ampi_coll_scatter(const struct ampi_coll_call *call, MPI_Comm comm, int root, struct ampi_coll_args *args)
{
    bool is_in_place;
    int error;

    ampi_coll_args_init(args, &scatter_plan);
    if ((error = ampi_coll_enter(call, comm, args)) || (error = ampi_coll_check_root(args, root)))
        return error;
    is_in_place = ampi_coll_is_root(args) && ampi_coll_is_in_place(&args->recv) && root >= 0;
    if (ampi_coll_is_root(args) &&
        (error = ampi_coll_check_buf(args, &args->send, "send", args->comm->peer->n_ranks)))
        return error;
    if (root >= 0 && !is_in_place && (error = ampi_coll_check_buf(args, &args->recv, "receive", 1)))
        return error;
    if (ampi_coll_is_root(args) && root >= 0 && !is_in_place) {
        struct ampi_coll_block own = ampi_coll_block(&args->send, args->comm->rank);
        if (ampi_coll_is_same(ampi_coll_whole(&args->recv), own))
            return ampi_coll_raise_same(args);
        ampi_coll_check_own(args, own, ampi_coll_whole(&args->recv));
    }
    if (args->comm->shared->coll->is_pair)
        pack_for_other(args);
    return ampi_coll_begin(call, args);
}
