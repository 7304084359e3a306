/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gather.c: MPI_Gather and MPI_Gatherv (MPI 5.0, section 6.5): every rank's block is copied to its position
 * at the root. Cost: one copy of all data; large ones on all PEs, each for its own ranks' blocks.
 */
#include "ampi/coll/plan/coll_calls.h"

#include "ampi/coll/engine/pair.h"
#include "ampi/coll/engine/usage.h"
#include "ampi/coll/engine/items.h"

static void gather_share(struct ampi_coll_slot *slot, int part)
{
    struct ampi_coll_args *root = ampi_coll_root_args(slot);

    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++) {
        const struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
        if (ampi_coll_has_root(args) && !ampi_coll_is_in_place(&args->send))
            ampi_coll_move(root, ampi_coll_block(&root->recv, args->comm->rank),
                           ampi_coll_whole(&args->send));
    }
}

/* Copies blocks received from other processes. */
static void gather_remote(struct ampi_coll_slot *slot)
{
    struct ampi_coll_args *root = ampi_coll_root_args(slot);
    int first = ampi_coll_peer_first(root->comm);

    for (int i = 0; i < root->comm->peer->n_ranks; i++) {
        const struct ampi_coll_args *args = slot->args[first + i];
        if (args && args->is_remote)
            ampi_coll_move(root, ampi_coll_block(&root->recv, i), ampi_coll_whole(&args->send));
    }
}

static void gather_pack(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                        struct ampi_coll_packer *out)
{
    if (ampi_coll_has_root(args))
        ampi_coll_put(out, 0, ampi_coll_whole(&args->send));
}

static struct ampi_coll_block gather_place(const struct ampi_coll_args *args, int source)
{
    return ampi_coll_is_root(args) ? ampi_coll_block(&args->recv, source) : (struct ampi_coll_block){0};
}

static void gather_deliver(struct ampi_coll_slot *slot, int part)
{
    const struct ampi_coll_result *result = ampi_coll_result(slot, part);
    struct ampi_coll_args *root = slot->args[result->root];
    int first = ampi_coll_peer_first(root->comm);

    for (int i = 0; i < root->comm->peer->n_ranks; i++)
        ampi_coll_move(root, ampi_coll_block(&root->recv, i),
                       ampi_coll_bytes(ampi_coll_packed(slot, first + i), result->n_bytes));
}

static void gather_middle(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *root = ampi_coll_root_args(slot);

    if (!root)
        return;
    if (slot->state->remote)
        gather_remote(slot);
    if (ampi_coll_all_packed(slot)) {
        ampi_coll_set_root(slot, root);
        slot->has_result = true;
    } else {
        ampi_coll_share_or_do(slot, AMPI_COLL_GATHER,
                              ampi_coll_total_bytes(&root->recv, root->comm->peer->n_ranks));
    }
}

/* Only the root knows the counts of MPI_Gatherv. On intercommunicators it does not know its own side's share. */
static size_t gather_between_bytes(const struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *args = slot->last;
    const struct ampi_coll_buf *block =
        ampi_coll_is_root(args) || ampi_coll_is_in_place(&args->send) ? &args->recv : &args->send;

    if (args->recv.n_blocks != 0 || slot->state->shared->is_inter)
        return SIZE_MAX;
    return ampi_coll_total_bytes(block, slot->state->n_members);
}

static void gather_check(const struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *root = ampi_coll_root_args(slot);

    for (int i = 0; i < slot->state->n_members && root && !root->is_remote; i++) {
        const struct ampi_coll_args *args = slot->args[i];
        if (args && ampi_coll_has_root(args) && !ampi_coll_is_in_place(&args->send))
            ampi_coll_usage_compare(root, ampi_coll_block(&root->recv, args->comm->rank), args,
                                    ampi_coll_whole(&args->send));
    }
}

static void gather_pair(struct ampi_coll_args *args, const unsigned char *others, size_t n_bytes)
{
    int rank = args->comm->rank;

    if (!ampi_coll_is_root(args))
        return;
    if (!ampi_coll_is_in_place(&args->send))
        ampi_coll_move(args, ampi_coll_block(&args->recv, rank), ampi_coll_whole(&args->send));
    ampi_coll_move(args, ampi_coll_block(&args->recv, !rank), ampi_coll_bytes(others, n_bytes));
}

static const struct ampi_coll_plan gather_plan = {
    .name = "gather",
    .flow = AMPI_COLL_FLOW_GATHER,
    .between_bytes = gather_between_bytes,
    .pack = gather_pack,
    .place = gather_place,
    .check_blocks = gather_check,
    .middle = gather_middle,
    .share = gather_share,
    .deliver = gather_deliver,
    .pair = gather_pair,
};

int ampi_coll_gather(const struct ampi_coll_call *call, MPI_Comm comm, int root, struct ampi_coll_args *args)
{
    bool is_in_place;
    int error;

    ampi_coll_args_init(args, &gather_plan);
    if ((error = ampi_coll_enter(call, comm, args)) || (error = ampi_coll_check_root(args, root)))
        return error;
    is_in_place = ampi_coll_is_root(args) && ampi_coll_is_in_place(&args->send) && root >= 0;
    if (ampi_coll_is_root(args) &&
        (error = ampi_coll_check_buf(args, &args->recv, "receive", args->comm->peer->n_ranks)))
        return error;
    if (root >= 0 && !is_in_place && (error = ampi_coll_check_buf(args, &args->send, "send", 1)))
        return error;
    if (ampi_coll_is_root(args) && root >= 0 && !is_in_place) {
        struct ampi_coll_block place = ampi_coll_block(&args->recv, args->comm->rank);
        if (ampi_coll_is_same(ampi_coll_whole(&args->send), place))
            return ampi_coll_raise_same(args);
        ampi_coll_check_own(args, ampi_coll_whole(&args->send), place);
    }
    if (root >= 0) {
        struct ampi_coll_block own =
            is_in_place ? ampi_coll_block(&args->recv, args->comm->rank) : ampi_coll_whole(&args->send);
        ampi_coll_pack(args, AMPI_COLL_GATHER, own.buf, own.count, own.type);
        if (!args->recv.n_blocks) /* their counts may differ */
            ampi_coll_pair_small(args, args->pack_bytes);
    }
    return ampi_coll_begin(call, args);
}
