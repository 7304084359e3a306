/* SPDX-License-Identifier: BSD-3-Clause
 *
 * allgather.c: MPI_Allgather and MPI_Allgatherv (MPI 5.0, section 6.7): every rank's block is copied to every
 * receiver. Cost: one copy of all data per receiver; large ones on all PEs, each for its own ranks as
 * receivers.
 */
#include "ampi/coll/plan/coll_calls.h"

#include "ampi/coll/engine/pair.h"
#include "ampi/coll/engine/usage.h"
#include "ampi/coll/engine/items.h"

/* Receivers that are served together: they share the look-up of a contribution. */
#define TILE 16

static void receive_all(const struct ampi_coll_slot *slot, int first, int end)
{
    for (int s = 0; s < slot->state->n_members; s++) {
        struct ampi_coll_block from = {0};
        const struct ampi_coll_args *source = NULL;
        for (int i = first; i < end; i++) {
            struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
            struct ampi_coll_args *its_source =
                s < args->comm->peer->n_ranks ? slot->args[ampi_coll_peer_first(args->comm) + s] : NULL;
            if (!its_source || (its_source == args && ampi_coll_is_in_place(&args->send)))
                continue;
            if (its_source != source)
                from = ampi_coll_contribution(source = its_source);
            ampi_coll_move(args, ampi_coll_block(&args->recv, s), from);
        }
    }
}

/* From this size on, received data does not stay in the cache together with its source. */
#define SPREAD_FROM ((size_t)512 << 10)

static struct ampi_coll_block target(const struct ampi_coll_args *args, int source)
{
    struct ampi_coll_block none = {0};
    bool is_own = source == args->comm->rank && ampi_coll_is_in_place(&args->send);

    return is_own ? none : ampi_coll_block(&args->recv, source);
}

static void allgather_share(struct ampi_coll_slot *slot, int part)
{
    const struct ampi_coll_args *any = slot->last;
    const struct ampi_comm_shared *shared = slot->state->shared;

    size_t each_bytes = shared->is_inter ? 0 : ampi_coll_total_bytes(&any->recv, slot->state->n_members);

    if (each_bytes >= SPREAD_FROM) {
        for (int s = 0; s < slot->state->n_members; s++)
            ampi_coll_broadcast_block(
                slot, part, ampi_coll_contribution(slot->args[s]), s, target,
                ampi_coll_is_stream(each_bytes * (size_t)ampi_coll_n_local(slot->state)));
        return;
    }
    for (int i = ampi_coll_part_from(slot, part), end = ampi_coll_part_to(slot, part); i < end; i += TILE)
        receive_all(slot, i, i + TILE < end ? i + TILE : end);
}

/* All contributions are consecutive in the slot: where the blocks of a contiguous buffer are, too, they are one copy. */
static void deliver_all(struct ampi_coll_slot *slot, struct ampi_coll_args *args)
{
    const struct ampi_coll_buf *recv = &args->recv;
    const unsigned char *first = ampi_coll_packed(slot, ampi_coll_peer_first(args->comm));
    size_t n_bytes = slot->result.n_bytes;

    if (!recv->counts && ampi_type_is_block(recv->type, 2) &&
        (size_t)(recv->count * recv->type->size_bytes) == n_bytes) {
        memcpy(ampi_type_address(recv->buf, recv->type->true_lb_bytes), first,
               n_bytes * (size_t)args->comm->peer->n_ranks);
        return;
    }
    for (int s = 0, n = args->comm->peer->n_ranks, n_run; s < n; s += n_run) {
        struct ampi_coll_block block = ampi_coll_block(recv, s);
        n_run = recv->counts && ampi_coll_block_bytes(&block) == n_bytes && ampi_type_is_block(recv->type, 2)
                    ? ampi_coll_find_run(recv, s, n)
                    : 1;
        block.count *= n_run;
        ampi_coll_move(args, block, ampi_coll_bytes(first + (size_t)s * n_bytes, (size_t)n_run * n_bytes));
    }
}

static void allgather_pair(struct ampi_coll_args *args, const unsigned char *others, size_t n_bytes)
{
    int rank = args->comm->rank;

    if (!ampi_coll_is_in_place(&args->send))
        ampi_coll_move(args, ampi_coll_block(&args->recv, rank), ampi_coll_whole(&args->send));
    ampi_coll_move(args, ampi_coll_block(&args->recv, !rank), ampi_coll_bytes(others, n_bytes));
}

static void allgather_deliver(struct ampi_coll_slot *slot, int part)
{
    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++)
        deliver_all(slot, ampi_coll_part_args(slot, i));
}

static void allgather_middle(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *last = slot->last;

    if (ampi_coll_all_packed(slot)) {
        slot->has_result = true;
        return;
    }
    ampi_coll_share_or_do(slot, AMPI_COLL_ALLGATHER,
                          ampi_coll_total_bytes(&last->recv, last->comm->peer->n_ranks) *
                              (size_t)slot->state->n_members);
}

static void allgather_pack(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                           struct ampi_coll_packer *out)
{
    ampi_coll_put(out, 0, ampi_coll_contribution(args));
}

/* On intercommunicators the two sides do not know each other's sizes. */
static size_t allgather_between_bytes(const struct ampi_coll_slot *slot)
{
    return slot->state->shared->is_inter ? 0
                                         : ampi_coll_total_bytes(&slot->last->recv, slot->state->n_members);
}

static void allgather_check(const struct ampi_coll_slot *slot)
{
    for (int i = 0; i < ampi_coll_n_local(slot->state); i++) {
        const struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
        int first = ampi_coll_peer_first(args->comm);
        for (int s = 0; s < args->comm->peer->n_ranks; s++)
            if (slot->args[first + s])
                ampi_coll_usage_compare(args, ampi_coll_block(&args->recv, s), slot->args[first + s],
                                        ampi_coll_contribution(slot->args[first + s]));
    }
}

static const struct ampi_coll_plan allgather_plan = {
    .name = "allgather",
    .has_nccl = true,
    .pack = allgather_pack,
    .place = target,
    .between_bytes = allgather_between_bytes,
    .check_blocks = allgather_check,
    .middle = allgather_middle,
    .share = allgather_share,
    .deliver = allgather_deliver,
    .pair = allgather_pair,
};

int ampi_coll_allgather(const struct ampi_coll_call *call, MPI_Comm comm, struct ampi_coll_args *args)
{
    struct ampi_coll_block own;
    int error;

    ampi_coll_args_init(args, &allgather_plan);
    if ((error = ampi_coll_enter(call, comm, args)) ||
        (error = ampi_coll_check_buf(args, &args->recv, "receive", args->comm->peer->n_ranks)))
        return error;
    if (ampi_coll_is_in_place(&args->send)) {
        if (args->comm->shared->is_inter)
            return ampi_coll_raise_in_place(args);
    } else {
        if ((error = ampi_coll_check_buf(args, &args->send, "send", 1)))
            return error;
        if (!args->comm->shared->is_inter) {
            struct ampi_coll_block place = ampi_coll_block(&args->recv, args->comm->rank);
            if (ampi_coll_is_same(ampi_coll_whole(&args->send), place))
                return ampi_coll_raise_same(args);
            ampi_coll_check_own(args, ampi_coll_whole(&args->send), place);
        }
    }
    own = ampi_coll_contribution(args);
    ampi_coll_pack(args, AMPI_COLL_ALLGATHER, own.buf, own.count, own.type);
    ampi_coll_pair_small(args, args->pack_bytes);
    return ampi_coll_begin(call, args);
}
