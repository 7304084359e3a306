/* SPDX-License-Identifier: BSD-3-Clause
 *
 * alltoall.c: the plan of MPI_Alltoall, MPI_Alltoallv and MPI_Alltoallw (MPI 5.0, section 6.8): block r of
 * rank s becomes block s of rank r. The functions are in coll.bindings. Cost: one copy of all data; large
 * ones on all PEs, each for its own ranks as receivers. In place: one exchange of the two blocks of each pair
 * of ranks.
 */
#include "ampi/coll/plan/coll_calls.h"

#include "ampi/coll/engine/pair.h"
#include "ampi/coll/engine/usage.h"
#include "ampi/coll/engine/items.h"

/* In place there is only one block for each pair of ranks, at both of them: the sum of their ranks
 * determines which one exchanges it, so that the PEs get equal shares. */
static void swap_all(struct ampi_coll_slot *slot, struct ampi_coll_args *args)
{
    int rank = args->comm->rank;

    for (int s = 0; s < args->comm->peer->n_ranks; s++)
        if (slot->args[s]->is_remote)
            ampi_coll_move(args, ampi_coll_block(&args->recv, s),
                           ampi_coll_block(&slot->args[s]->send, rank));
        else if (s != rank && ((s + rank) % 2 ? rank > s : rank < s))
            ampi_coll_swap(args, ampi_coll_block(&args->recv, s), slot->args[s],
                           ampi_coll_block(&slot->args[s]->recv, rank));
}

/* Receivers that are served together: each source's blocks for them, and their counts and displacements, are adjacent
 * or near. */
#define TILE 32

/* ampi_coll_move, faster for small blocks of host memory. */
static inline __attribute__((always_inline)) void move(struct ampi_coll_args *to, struct ampi_coll_block dst,
                                                       struct ampi_coll_block src)
{
    size_t n_bytes = ampi_coll_block_bytes(&dst);

    if (n_bytes != 0 && n_bytes == ampi_coll_block_bytes(&src) && dst.buf != src.buf && !gpu_is_used() &&
        ampi_type_is_block(dst.type, dst.count) && ampi_type_is_block(src.type, src.count))
        ampi_coll_copy_small(ampi_type_address(dst.buf, dst.type->true_lb_bytes),
                             ampi_type_address(src.buf, src.type->true_lb_bytes), n_bytes);
    else
        ampi_coll_move(to, dst, src);
}

static void receive_all(const struct ampi_coll_slot *slot, int part)
{
    int end = ampi_coll_part_to(slot, part);

    for (int first = ampi_coll_part_from(slot, part); first < end; first += TILE) {
        int n = 0;
        struct {
            struct ampi_coll_args *args, **sources;
            int n_sources, rank;
        } to[TILE];
        for (int i = first; i < end && i < first + TILE; i++) {
            struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
            if (ampi_coll_is_in_place(&args->send))
                continue;
            to[n].args = args;
            to[n].sources = slot->args + ampi_coll_peer_first(args->comm);
            to[n].n_sources = args->comm->peer->n_ranks;
            to[n++].rank = args->comm->rank;
        }
        for (int s = 0; s < slot->state->n_members; s++)
            for (int i = 0; i < n; i++)
                if (s < to[i].n_sources && !ampi_coll_is_in_place(&to[i].sources[s]->send))
                    move(to[i].args, ampi_coll_block(&to[i].args->recv, s),
                         ampi_coll_block(&to[i].sources[s]->send, to[i].rank));
    }
}

/* Copies one source's blocks of n_bytes for up to TILE receivers. Constant sizes need no call when this is
 * inlined. */
static inline __attribute__((always_inline)) void
copy_blocks(char *const *to, size_t to_skip, const char *from, const int *ranks, int n, size_t n_bytes)
{
    for (int i = 0; i < n; i++)
        memcpy(to[i] + to_skip, from + (size_t)ranks[i] * n_bytes, n_bytes);
}

static inline char *flat_start(const struct ampi_coll_buf *buf)
{
    const struct ampi_type *type = buf->is_w ? ampi_type_of(buf->types[0]) : buf->type;

    return ampi_type_address(buf->buf, type->true_lb_bytes);
}

/* For blocks of equal size that are consecutive at all members. */
static void receive_flat(struct ampi_coll_slot *slot, int part, size_t n_bytes)
{
    int end = ampi_coll_part_to(slot, part);

    for (int first = ampi_coll_part_from(slot, part); first < end; first += TILE) {
        int n = end - first < TILE ? end - first : TILE;
        char *to[TILE];
        int ranks[TILE];
        for (int i = 0; i < n; i++) {
            const struct ampi_coll_args *args = ampi_coll_part_args(slot, first + i);
            to[i] = flat_start(&args->recv);
            ranks[i] = args->comm->rank;
        }
        for (int s = 0; s < slot->state->n_members; s++) {
            const char *from = flat_start(&slot->args[s]->send);
            size_t skip = (size_t)s * n_bytes;
            if (n_bytes == 8)
                copy_blocks(to, skip, from, ranks, n, 8);
            else if (n_bytes == 64)
                copy_blocks(to, skip, from, ranks, n, 64);
            else
                copy_blocks(to, skip, from, ranks, n, n_bytes);
        }
    }
}

/* flat_block_bytes for v and w forms. */
static size_t flat_bytes_listed(const struct ampi_coll_buf *buf, int n)
{
    struct ampi_coll_block first = ampi_coll_block(buf, 0);
    bool is_flat = first.count && first.buf == buf->buf && ampi_type_is_block(first.type, 2) &&
                   ampi_coll_find_run(buf, 0, n) == n;

    return is_flat ? ampi_coll_block_bytes(&first) : 0;
}

/* The size of a buffer's blocks if all have the same size and are consecutive; 0: they are not. */
static inline size_t flat_block_bytes(const struct ampi_coll_buf *buf, int n)
{
    if (buf->counts)
        return flat_bytes_listed(buf, n);
    return ampi_type_is_block(buf->type, 2) ? (size_t)(buf->count * buf->type->size_bytes) : 0;
}

/* Sets args->flat_bytes. Each member looks at its own arrays. */
static void find_flat(struct ampi_coll_args *args)
{
    int n = args->comm->peer->n_ranks;
    size_t n_bytes = flat_block_bytes(&args->recv, n);

    if (n_bytes && flat_block_bytes(&args->send, n) == n_bytes)
        args->flat_bytes = n_bytes;
}

/* The block size if it is the same at all members, and all blocks are consecutive; else 0. */
static size_t flat_bytes(const struct ampi_coll_slot *slot)
{
    size_t n_bytes = slot->last->flat_bytes;

    if (!n_bytes || ampi_coll_device_any(slot))
        return 0;
    for (int i = 0; i < slot->state->n_members; i++)
        if (slot->args[i]->flat_bytes != n_bytes)
            return 0;
    return n_bytes;
}

static void alltoall_share(struct ampi_coll_slot *slot, int part)
{
    if (slot->result.n_bytes) {
        receive_flat(slot, part, slot->result.n_bytes);
        return;
    }
    for (int i = ampi_coll_part_from(slot, part); i < ampi_coll_part_to(slot, part); i++) {
        struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
        if (ampi_coll_is_in_place(&args->send))
            swap_all(slot, args);
    }
    receive_all(slot, part);
}

static void alltoall_middle(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *last = slot->last;

    slot->result.n_bytes = flat_bytes(slot);
    ampi_coll_share_or_do(slot, AMPI_COLL_ALLTOALL,
                          ampi_coll_total_bytes(&last->recv, last->comm->peer->n_ranks) *
                              (size_t)slot->state->n_members);
}

/* Packs the blocks for the other process's members. */
static void alltoall_pack(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                          struct ampi_coll_packer *out)
{
    const struct ampi_coll_buf *buf = ampi_coll_is_in_place(&args->send) ? &args->recv : &args->send;

    for (int i = 0; i < ampi_coll_n_peers_in(slot, args, out->proc); i++) {
        int rank = ampi_coll_peer_in(slot, args, out->proc, i);
        if (rank >= 0)
            ampi_coll_put(out, (uint64_t)rank, ampi_coll_block(buf, rank));
    }
}

/* In place the block holds the data for the other member until that has been sent. */
static struct ampi_coll_block alltoall_place(const struct ampi_coll_args *args, int source)
{
    return ampi_coll_is_in_place(&args->send) ? (struct ampi_coll_block){0}
                                              : ampi_coll_block(&args->recv, source);
}

/* In the v and w forms no member knows all counts. */
static size_t alltoall_between_bytes(const struct ampi_coll_slot *slot)
{
    const struct ampi_coll_buf *recv = &slot->last->recv;

    return slot->state->shared->is_inter || recv->n_blocks ? SIZE_MAX : ampi_coll_total_bytes(recv, 1);
}

static void alltoall_check(const struct ampi_coll_slot *slot)
{
    for (int i = 0; i < ampi_coll_n_local(slot->state); i++) {
        const struct ampi_coll_args *args = ampi_coll_part_args(slot, i);
        int first = ampi_coll_peer_first(args->comm);
        for (int s = 0; s < args->comm->peer->n_ranks; s++) {
            const struct ampi_coll_args *from = slot->args[first + s];
            if (from)
                ampi_coll_usage_compare(
                    args, ampi_coll_block(&args->recv, s), from,
                    ampi_coll_block(ampi_coll_is_in_place(&from->send) ? &from->recv : &from->send,
                                    args->comm->rank));
        }
    }
}

/* In a pair the packed contribution is the block for the other member. */
static void pack_for_other(struct ampi_coll_args *args)
{
    const struct ampi_coll_buf *buf = ampi_coll_is_in_place(&args->send) ? &args->recv : &args->send;
    struct ampi_coll_block block;

    if (args->recv.n_blocks || buf->n_blocks ||
        (size_t)(buf->count * buf->type->size_bytes) > AMPI_COLL_PAIR_BYTES)
        return;
    block = ampi_coll_block(buf, !args->comm->rank);
    ampi_coll_pack(args, AMPI_COLL_ALLTOALL, block.buf, block.count, block.type);
    ampi_coll_pair_small(args, args->pack_bytes);
}

static void alltoall_pair(struct ampi_coll_args *args, const unsigned char *others, size_t n_bytes)
{
    int rank = args->comm->rank;

    if (!ampi_coll_is_in_place(&args->send))
        ampi_coll_move(args, ampi_coll_block(&args->recv, rank), ampi_coll_block(&args->send, rank));
    ampi_coll_move(args, ampi_coll_block(&args->recv, !rank), ampi_coll_bytes(others, n_bytes));
}

static const struct ampi_coll_plan alltoall_plan = {
    .name = "alltoall",
    .flow = AMPI_COLL_FLOW_ALLTOALL,
    .pack = alltoall_pack,
    .between_bytes = alltoall_between_bytes,
    .unpack = ampi_coll_unpack_blocks,
    .place = alltoall_place,
    .check_blocks = alltoall_check,
    .middle = alltoall_middle,
    .share = alltoall_share,
    .pair = alltoall_pair,
};

int ampi_coll_alltoall(const struct ampi_coll_call *call, MPI_Comm comm, struct ampi_coll_args *args)
{
    int error, n_peers;

    ampi_coll_args_init(args, &alltoall_plan);
    args->flat_bytes = 0;
    if ((error = ampi_coll_enter(call, comm, args)))
        return error;
    n_peers = args->comm->peer->n_ranks;
    if ((error = ampi_coll_check_buf(args, &args->recv, "receive", n_peers)))
        return error;
    if (ampi_coll_is_in_place(&args->send)) {
        if (args->comm->shared->is_inter)
            return ampi_coll_raise_in_place(args);
    } else {
        if ((error = ampi_coll_check_buf(args, &args->send, "send", n_peers)))
            return error;
        if (!args->send.n_blocks &&
            ampi_coll_is_same(ampi_coll_whole(&args->send), ampi_coll_whole(&args->recv)))
            return ampi_coll_raise_same(args);
        if (!args->comm->shared->is_inter) {
            ampi_coll_check_own(args, ampi_coll_block(&args->send, args->comm->rank),
                                ampi_coll_block(&args->recv, args->comm->rank));
            find_flat(args);
        }
    }
    if (args->comm->shared->coll->is_pair)
        pack_for_other(args);
    return ampi_coll_begin(call, args);
}
