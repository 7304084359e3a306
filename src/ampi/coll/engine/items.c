/* SPDX-License-Identifier: BSD-3-Clause
 *
 * items.c: packs items, and makes stand-ins from them. See items.h.
 */
#include "ampi/coll/engine/items.h"

#include "ampi/coll/engine/fold.h"
#include "ampi/coll/engine/usage.h"

#define ITEM_ALIGN 16u

/* ---- Packing ---- */

/* Items from this size on are cut in slices for the PEs. */
#define SLICE_FROM ((size_t)32 << 10)
#define SLICE_ALIGN ((size_t)4096)

/* Adds an item, and returns the address for its data; NULL: only sizes are added up. */
static unsigned char *put_item(struct ampi_coll_packer *out, uint64_t index, size_t n_bytes, int leaf)
{
    unsigned char *data = out->data ? out->data + out->data_bytes : NULL;

    if (out->at)
        *(struct ampi_coll_item *)(out->at + out->n_bytes) =
            (struct ampi_coll_item){n_bytes, (uint32_t)index, (uint32_t)leaf};
    out->n_bytes += sizeof(struct ampi_coll_item);
    out->data_bytes += base_round_up(n_bytes, ITEM_ALIGN);
    out->n_items++;
    out->n_all++;
    return data;
}

void ampi_coll_put_bytes(struct ampi_coll_packer *out, uint64_t index, const void *bytes, size_t n_bytes)
{
    unsigned char *data = put_item(out, index, n_bytes, 0);

    out->is_scattered = true;
    if (data && n_bytes && out->share == 0)
        memcpy(data, bytes, n_bytes);
}

/* Packs a PE's share of an item: a slice of a large item; of a small one all or nothing. */
static void put_share(const struct ampi_coll_packer *out, unsigned char *data, struct ampi_coll_block block,
                      size_t n_bytes)
{
    const struct ampi_comm *comm = out->args->comm;
    const char *from = n_bytes >= SLICE_FROM ? ampi_coll_flat(&block) : NULL;
    size_t each = base_round_up(n_bytes / (size_t)out->n_shares + 1, SLICE_ALIGN);
    size_t at = base_min_u64(each * (size_t)out->share, n_bytes);

    if (from)
        memcpy(data + at, from + at, base_min_u64(each, n_bytes - at));
    else if (comm->shared->coll->part_of_pe[comm->owner->pe_id] == out->share)
        ampi_coll_move(out->args, ampi_coll_bytes(data, n_bytes), block);
}

void ampi_coll_put(struct ampi_coll_packer *out, uint64_t index, struct ampi_coll_block block)
{
    size_t n_bytes = ampi_coll_block_bytes(&block);
    int leaf = ampi_coll_usage_is_on() && n_bytes ? ampi_coll_usage_leaf_of(block.type) : 0;
    unsigned char *data = put_item(out, index, n_bytes, leaf);
    const char *flat = n_bytes ? ampi_coll_flat(&block) : NULL;

    out->last = block;
    out->is_scattered |= n_bytes && !flat;
    if (out->addresses)
        out->addresses[out->n_all - 1] = (uintptr_t)flat;
    if (data && out->n_shares)
        put_share(out, data, block, n_bytes);
    else if (data)
        ampi_coll_move(out->args, ampi_coll_bytes(data, n_bytes), block);
}

void ampi_coll_put_input(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                         struct ampi_coll_packer *out)
{
    (void)slot;
    if (args->send.type)
        ampi_coll_put(out, 0,
                      (struct ampi_coll_block){ampi_coll_input(args), args->send.count, args->send.type,
                                               ampi_coll_input_known(args)});
}

/* ---- Unpacking ---- */

const void *ampi_coll_get(struct ampi_coll_unpacker *in, size_t *n_bytes_out, uint64_t *index_out)
{
    const struct ampi_coll_item *item = (const struct ampi_coll_item *)in->at;
    const void *data = in->data;

    in->at += sizeof *item;
    if (in->addresses)
        data = (const void *)(uintptr_t)*in->addresses++;
    else
        in->data += base_round_up(item->n_bytes, ITEM_ALIGN);
    *n_bytes_out = item->n_bytes;
    if (index_out)
        *index_out = item->index;
    return data;
}

struct ampi_coll_block ampi_coll_get_block(struct ampi_coll_unpacker *in, uint64_t *index_out)
{
    uint32_t leaf = ((const struct ampi_coll_item *)in->at)->leaf;
    size_t n_bytes;
    struct ampi_coll_block block = {.buf = (void *)(uintptr_t)ampi_coll_get(in, &n_bytes, index_out)};

    if (BASE_LIKELY(!leaf))
        return ampi_coll_bytes(block.buf, n_bytes);
    block.type = ampi_type_predefined[leaf - 1];
    block.count = (MPI_Count)n_bytes / block.type->size_bytes;
    return block;
}

void *ampi_coll_stand_in_alloc(struct ampi_coll_unpacker *in, size_t n_bytes)
{
    return memset(in->alloc(in->memory, n_bytes), 0, n_bytes);
}

void ampi_coll_unpack_whole(struct ampi_coll_args *args, struct ampi_coll_unpacker *in)
{
    struct ampi_coll_block block = in->n_items ? ampi_coll_get_block(in, NULL) : ampi_coll_bytes(NULL, 0);

    args->send.buf = args->recv.buf = block.buf;
    args->send.count = args->recv.count = block.count;
    args->send.type = args->recv.type = (struct ampi_type *)(uintptr_t)block.type;
}

void ampi_coll_unpack_blocks(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                             struct ampi_coll_unpacker *in)
{
    struct ampi_coll_unpacker ahead = *in;
    uint64_t index, n_blocks = 0;
    size_t n_bytes;
    MPI_Count *counts;
    MPI_Aint *displs;
    MPI_Datatype *types = NULL;

    (void)slot;
    for (int i = 0; i < in->n_items; i++) {
        ampi_coll_get(&ahead, &n_bytes, &index);
        n_blocks = base_max_u64(n_blocks, index + 1);
    }
    counts = ampi_coll_stand_in_alloc(in, n_blocks * sizeof *counts);
    displs = ampi_coll_stand_in_alloc(in, n_blocks * sizeof *displs);
    if (ampi_coll_usage_is_on()) /* of which the leaves are known: a w form */
        types = ampi_coll_stand_in_alloc(in, n_blocks * sizeof(MPI_Datatype));
    args->send.buf = (void *)(uintptr_t)in->data;
    ahead = *in;
    for (int i = 0; i < in->n_items; i++) {
        struct ampi_coll_block block = ampi_coll_get_block(&ahead, &index);
        counts[index] = block.count;
        displs[index] = (unsigned char *)block.buf - in->data;
        if (BASE_UNLIKELY(types != NULL))
            types[index] = block.type->predefined;
    }
    args->send.types = types;
    args->send.is_w = types != NULL;
    args->send.counts = counts;
    args->send.displs = displs;
    args->send.has_large_counts = args->send.has_large_displs = true;
    args->send.n_blocks = (int)n_blocks;
    args->send.type = (struct ampi_type *)(uintptr_t)ampi_coll_bytes(NULL, 0).type;
}

/* The type of a reduction: slot->last may be a member that does not take part. */
static struct ampi_type *reduced_type(const struct ampi_coll_slot *slot)
{
    struct ampi_type *type = slot->last->send.type;

    for (int i = 0; i < slot->state->n_members && !type; i++)
        if (slot->args[i] && !slot->args[i]->is_remote)
            type = slot->args[i]->send.type;
    return type;
}

void ampi_coll_unpack_input(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                            struct ampi_coll_unpacker *in)
{
    struct ampi_type *type = reduced_type(slot);
    size_t n_bytes = 0;
    const void *bytes = in->n_items ? ampi_coll_get(in, &n_bytes, NULL) : NULL;
    struct ampi_coll_block packed = ampi_coll_bytes(bytes, n_bytes);

    if (!bytes || !type)
        return;
    args->send.type = type;
    args->send.count = type->size_bytes ? (MPI_Count)n_bytes / type->size_bytes : 0;
    if (ampi_type_is_block(type, 2)) {
        args->send.buf = ampi_type_address(bytes, -type->true_lb_bytes);
    } else {
        MPI_Count lo;
        size_t room = ampi_coll_elems_bytes(type, args->send.count, &lo);
        void *memory = ampi_coll_stand_in_alloc(in, room);
        args->send.buf = ampi_type_address(memory, -lo);
        ampi_type_copy(args->send.buf, args->send.count, type, packed.buf, packed.count, packed.type);
    }
}

/* ---- Locations of members ---- */

int ampi_coll_peer_in(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args, int proc, int i)
{
    int rank = ampi_coll_between->member_in(slot->state->remote, proc, i) - ampi_coll_peer_first(args->comm);

    return rank >= 0 && rank < args->comm->peer->n_ranks ? rank : -1;
}
