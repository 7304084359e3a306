/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bcast.c: MPI_Bcast (MPI 5.0, section 6.4): every receiver's part is copied from the root's buffer. Cost:
 * one copy of the message per receiver; large ones on all PEs, each for its own ranks. Each PE copies a
 * small message from the slot, so that no PE writes to another's ranks.
 */
#include "ampi/coll/plan/coll_calls.h"

#include "ampi/coll/engine/pair.h"
#include "ampi/coll/engine/usage.h"
#include "ampi/coll/engine/items.h"

static struct ampi_coll_block target(const struct ampi_coll_args *args, int source)
{
    (void)source;
    return ampi_coll_has_root(args) && !ampi_coll_is_root(args) ? ampi_coll_whole(&args->recv)
                                                                : (struct ampi_coll_block){0};
}

static void bcast_share(struct ampi_coll_slot *slot, int part)
{
    struct ampi_coll_block data = ampi_coll_whole(&ampi_coll_root_args(slot)->recv);

    if (slot->gpus) {
        ampi_coll_device->bcast(slot, part);
        return;
    }
    ampi_coll_broadcast_block(
        slot, part, data, 0, target,
        ampi_coll_is_stream(ampi_coll_block_bytes(&data) * (size_t)ampi_coll_n_local(slot->state)));
}

/* Delivers a small result to a member that is not the root. */
static void bcast_pair(struct ampi_coll_args *args, const unsigned char *bytes, size_t n_bytes)
{
    struct ampi_coll_block dst = ampi_coll_whole(&args->recv);
    char *to;

    if (ampi_coll_is_root(args) || !ampi_coll_has_root(args))
        return;
    to = ampi_coll_block_bytes(&dst) == n_bytes ? ampi_coll_flat(&dst) : NULL;
    if (BASE_LIKELY(to != NULL))
        ampi_coll_copy_small(to, bytes, n_bytes);
    else
        ampi_coll_move(args, dst, ampi_coll_bytes(bytes, n_bytes));
}

static void bcast_deliver(struct ampi_coll_slot *slot, int part)
{
    const struct ampi_coll_result *result = ampi_coll_result(slot, part);

    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++)
        bcast_pair(ampi_coll_part_args(slot, i), result->bytes, result->n_bytes);
}

static void bcast_middle(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *root = ampi_coll_root_args(slot);

    if (root && root->pack_bytes) {
        slot->result.n_bytes = root->pack_bytes;
        slot->result.root = ampi_coll_member(root->comm);
        slot->result.bytes = slot->packed + (size_t)slot->result.root * root->pack_bytes;
        slot->has_result = true;
    } else if (root) {
        slot->gpus = ampi_coll_device_plan_bcast(slot);
        ampi_coll_share_or_do(slot, AMPI_COLL_BCAST,
                              ampi_coll_total_bytes(&root->recv, 1) * (size_t)slot->state->n_members);
    }
}

static void bcast_pack(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                       struct ampi_coll_packer *out)
{
    if (ampi_coll_is_root(args))
        ampi_coll_put(out, 0, ampi_coll_whole(&args->recv));
}

static void bcast_check(const struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *root = ampi_coll_root_args(slot);

    for (int i = 0; i < ampi_coll_n_local(slot->state); i++) {
        const struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
        if (root && ampi_coll_has_root(args) && !ampi_coll_is_root(args))
            ampi_coll_usage_compare(args, ampi_coll_whole(&args->recv), root, ampi_coll_whole(&root->recv));
    }
}

static const struct ampi_coll_plan bcast_plan = {
    .name = "bcast",
    .has_nccl = true,
    .flow = AMPI_COLL_FLOW_BCAST,
    .pack = bcast_pack,
    .place = target,
    .check_blocks = bcast_check,
    .middle = bcast_middle,
    .share = bcast_share,
    .deliver = bcast_deliver,
    .pair = bcast_pair,
};

int ampi_coll_bcast(const struct ampi_coll_call *call, MPI_Comm comm, int root, struct ampi_coll_args *args)
{
    int error;

    ampi_coll_args_init(args, &bcast_plan);
    ampi_coll_set_none(&args->send);
    if ((error = ampi_coll_enter(call, comm, args)) || (error = ampi_coll_check_root(args, root)))
        return error;
    if (root != MPI_PROC_NULL && (error = ampi_coll_check_buf(args, &args->recv, "broadcast", 1)))
        return error;
    if (ampi_coll_is_root(args)) {
        ampi_coll_pack(args, AMPI_COLL_BCAST, args->recv.buf, args->recv.count, args->recv.type);
        ampi_coll_pair_small(args, args->pack_bytes);
    } else if (ampi_coll_has_root(args)) {
        ampi_coll_pair_small(args, (size_t)(args->recv.count * args->recv.type->size_bytes));
    }
    return ampi_coll_begin(call, args);
}
