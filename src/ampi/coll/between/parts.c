/* SPDX-License-Identifier: BSD-3-Clause
 *
 * parts.c: packing the data of this process's members for other processes, and creating stand-ins for data that came from
 * them. See parts.h.
 */
#include "ampi/coll/between/parts.h"

#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/engine/usage.h"

/* The head of a part. */
struct head {
    uint64_t context_id; /* the process's proposal for a new communicator */
    uint64_t head_bytes; /* bytes before the data */
};

/* Data begins at multiples of this. Of a part in GPU memory, this many bytes are read first. */
#define DATA_ALIGN 16u
#define HEAD_GUESS 4096u

/* Parts from this size on are packed by all PEs. */
#define SHARE_FROM ((size_t)32 << 10)

/* The head of each member's contribution; its items follow. */
struct member_head {
    int root;
    int key[2];
    int n_items;
};

/* ---- Parts ---- */

/* Packs this process's part for another one: all members' heads and items. */
static void pack_part(const struct ampi_coll_slot *slot, struct ampi_coll_packer *out, uint64_t proposed)
{
    const struct ampi_coll_remote *remote = slot->state->remote;

    if (out->at)
        *(struct head *)out->at = (struct head){proposed, base_round_up(out->n_bytes, DATA_ALIGN)};
    out->n_bytes = sizeof(struct head);
    out->data_bytes = 0;
    for (int i = remote->first[remote->own]; i < remote->first[remote->own + 1]; i++) {
        struct ampi_coll_args *args = slot->args[ampi_remote_member(remote, i)];
        struct member_head *head = out->at ? (struct member_head *)(out->at + out->n_bytes) : NULL;
        out->n_bytes += sizeof *head;
        out->n_items = 0;
        out->args = args;
        if (args->plan->pack)
            args->plan->pack(slot, args, out);
        if (head)
            *head = (struct member_head){args->root, {args->key[0], args->key[1]}, out->n_items};
    }
}

struct ampi_coll_packer ampi_part_measure(const struct ampi_exchange *x, int proc)
{
    struct ampi_coll_packer out = {.proc = proc};

    pack_part(x->slot, &out, 0);
    return out;
}

/* True if all PEs pack the data of the part. */
static bool is_shared(const struct ampi_exchange *x, size_t n_bytes)
{
    return x->is_packed_by_all && n_bytes >= SHARE_FROM;
}

/* A PE's share of the data. */
static void pack_share(struct ampi_coll_slot *slot, int part)
{
    const struct ampi_exchange *x = ampi_exchange_of(slot);

    for (int i = 0; i < x->n; i++) {
        const unsigned char *bytes = x->out[i].bytes;
        if (bytes && !x->out[i].is_bare && is_shared(x, x->out[i].n_bytes)) {
            struct ampi_coll_packer out = {.proc = i == x->own ? ampi_part_other(x) : x->proc[i],
                                           .data = (unsigned char *)(uintptr_t)bytes +
                                                   ((const struct head *)bytes)->head_bytes,
                                           .share = part,
                                           .n_shares = slot->state->n_parts};
            pack_part(slot, &out, 0);
        }
    }
}

/* ---- Bare parts ---- */

static bool is_worth_one_copy(const struct ampi_exchange *x, size_t n_bytes)
{
    const struct ampi_coll_selection *entry = &ampi_coll_selections[AMPI_COLL_ONE_COPY];

    return n_bytes >= entry->share_from && ampi_exchange_sends_parts(x->algorithm) &&
           (n_bytes >= entry->large_from || x->n < AMPI_COLL_FEW || !ampi_exchange_passes_on(x->algorithm));
}

/* True if the operation's parts can be bare: their heads would contain only what the receiver knows. */
static bool can_be_bare(const struct ampi_exchange *x, size_t n_bytes)
{
    const struct ampi_coll_slot *slot = x->slot;

    return is_worth_one_copy(x, n_bytes) && slot->plan->place && !slot->state->shared->is_inter &&
           x->device < 0 && !x->is_staged;
}

/* True if the receiver compares the types of blocks, of which heads have the numbers. */
static bool needs_types(const struct ampi_exchange *x)
{
    return ampi_coll_usage_is_on() && x->slot->last->recv.n_blocks;
}

/* The bare part: the data in its member's buffer. Its address is NULL if the part cannot be bare. */
static struct ampi_exchange_block bare_part(const struct ampi_exchange *x, const struct ampi_coll_packer *out)
{
    const struct ampi_coll_remote *remote = x->slot->state->remote;
    struct ampi_exchange_block part = {.is_bare = true};

    if (ampi_remote_n_members(remote, remote->own) != 1 || out->n_items != 1 || needs_types(x) ||
        !can_be_bare(x, ampi_coll_block_bytes(&out->last)))
        return part;
    part.bytes = (const unsigned char *)ampi_coll_flat(&out->last);
    part.n_bytes = ampi_coll_block_bytes(&out->last);
    part.origin = (struct ampi_exchange_origin){ampi_remote_member(remote, remote->first[remote->own]),
                                                out->args->root};
    return part;
}

/* The place at one member. */
static unsigned char *place_at(const struct ampi_coll_args *args, int source, size_t n_bytes)
{
    struct ampi_coll_block block = args->plan->place(args, source);

    if (!block.type || block.type->true_lb_bytes != 0 || ampi_coll_block_bytes(&block) != n_bytes)
        return NULL;
    return (unsigned char *)ampi_coll_flat(&block);
}

unsigned char *ampi_part_place(const struct ampi_exchange *x, int source, size_t n_bytes)
{
    const struct ampi_coll_slot *slot = x->slot;
    const struct ampi_coll_remote *remote = slot->state->remote;
    unsigned char *place = NULL;

    for (int i = remote->first[remote->own]; i < remote->first[remote->own + 1] && !place; i++)
        place = place_at(slot->args[ampi_remote_member(remote, i)], source, n_bytes);
    return place;
}

/* The head of a bare part. */
struct bare_head {
    struct head head;
    struct member_head member;
    struct ampi_coll_item item;
};

static const struct head *bare_head_of(struct ampi_exchange *x, const struct ampi_exchange_block *part)
{
    const struct ampi_coll_remote *remote = x->slot->state->remote;
    struct bare_head *bare = ampi_exchange_alloc(x, sizeof *bare);

    /* If items are blocks by index, this process has one member, because the part has one item. */
    *bare = (struct bare_head){
        .member = {.root = part->origin.root, .n_items = 1},
        .item = {part->n_bytes,
                 x->slot->plan->unpack ? (uint32_t)ampi_remote_member(remote, remote->first[remote->own]) : 0,
                 0}};
    return &bare->head;
}

/* ---- Listed parts ---- */

/* Data is copied after the algorithm, and no process ends its exchange before that. So algorithms whose steps wait
 * until sent data has left cannot use listed parts; few processes use no such algorithm. */
static bool can_be_listed(const struct ampi_exchange *x, int proc, const struct ampi_coll_packer *out)
{
    const struct ampi_coll_remote *remote = x->slot->state->remote;

    return out->n_all > 0 && !out->is_scattered && can_be_bare(x, out->data_bytes / (size_t)out->n_all) &&
           !ampi_exchange_passes_on(x->algorithm) && x->algorithm != AMPI_BETWEEN_BCAST_LINEAR &&
           x->n < AMPI_COLL_FEW && ampi_exchange_direct_reaches(remote->proc_id[proc]);
}

static struct ampi_exchange_block listed_part(struct ampi_exchange *x, const struct ampi_coll_packer *size,
                                              uint64_t proposed)
{
    size_t head_bytes = base_round_up(size->n_bytes, DATA_ALIGN);
    size_t n_bytes = head_bytes + (size_t)size->n_all * sizeof(uint64_t);
    unsigned char *part = ampi_exchange_alloc(x, n_bytes + sizeof(struct ampi_exchange_direct));
    struct ampi_coll_packer out = {.at = part,
                                   .n_bytes = size->n_bytes,
                                   .proc = size->proc,
                                   .addresses = (uint64_t *)(part + head_bytes)};

    pack_part(x->slot, &out, proposed);
    x->has_early |= x->slot->state->n_parts == 1; /* several PEs do that work later */
    return (struct ampi_exchange_block){.bytes = part, .n_bytes = n_bytes, .addresses = out.addresses};
}

struct ampi_part_items ampi_part_items_of(const struct ampi_exchange *x, int proc,
                                          const struct ampi_exchange_block *part)
{
    const struct ampi_coll_remote *remote = x->slot->state->remote;
    const struct head *head = (const struct head *)part->bytes;

    return (struct ampi_part_items){.remote = remote,
                                    .next = remote->first[proc],
                                    .n_members = ampi_remote_n_members(remote, proc),
                                    .at = (const unsigned char *)(head + 1),
                                    .addresses = (const uint64_t *)(part->bytes + head->head_bytes)};
}

bool ampi_part_next_item(struct ampi_part_items *items)
{
    while (items->n_items == 0) {
        const struct member_head *head = (const struct member_head *)items->at;
        if (items->n_members-- == 0)
            return false;
        items->n_items = head->n_items;
        items->at += sizeof *head;
        items->member = ampi_remote_member(items->remote, items->next++);
    }
    items->item = (const struct ampi_coll_item *)items->at;
    items->address = *items->addresses++;
    items->at += sizeof *items->item;
    items->n_items--;
    return true;
}

unsigned char *ampi_part_place_of_item(const struct ampi_exchange *x, int source,
                                       const struct ampi_coll_item *item)
{
    /* If items are blocks by index, the index is the member that receives the block. */
    if (x->slot->plan->unpack)
        return place_at(x->slot->args[item->index], source, (size_t)item->n_bytes);
    return ampi_part_place(x, source, (size_t)item->n_bytes);
}

/* ---- Making parts ---- */

static struct ampi_exchange_block make_packed(struct ampi_exchange *x, struct ampi_coll_packer out,
                                              uint64_t proposed)
{
    size_t head_bytes = base_round_up(out.n_bytes, DATA_ALIGN);
    size_t n_bytes = head_bytes + out.data_bytes;
    unsigned char *part;

    part = ampi_exchange_is_direct(x->algorithm) ? ampi_exchange_alloc_data(x, n_bytes)
                                                 : ampi_exchange_alloc(x, n_bytes);
    out.at = part;
    out.data = is_shared(x, n_bytes) ? NULL : part + head_bytes;
    if (!out.data) {
        x->prepare = pack_share;
        x->prepare_bytes += n_bytes;
    }
    if (BASE_UNLIKELY(x->device >= 0) && ampi_coll_device_memory(part) != MACHINE_HOST)
        out.at = ampi_exchange_alloc(x, head_bytes);
    pack_part(x->slot, &out, proposed);
    if (out.at != part)
        ampi_coll_move(x->slot->last, ampi_coll_bytes(part, head_bytes), ampi_coll_bytes(out.at, head_bytes));
    return (struct ampi_exchange_block){.bytes = part, .n_bytes = n_bytes};
}

struct ampi_exchange_block ampi_part_make(struct ampi_exchange *x, int proc, uint64_t proposed)
{
    struct ampi_exchange_block bare;
    struct ampi_coll_packer out;

    if (!x->slot->plan->middle) /* a barrier */
        return (struct ampi_exchange_block){0};
    out = ampi_part_measure(x, proc);
    bare = bare_part(x, &out);
    if (bare.bytes) {
        x->has_early = true;
        return bare;
    }
    if (can_be_listed(x, proc, &out))
        return listed_part(x, &out, proposed);
    return make_packed(x, out, proposed);
}

struct ampi_exchange_block ampi_part_make_packed(struct ampi_exchange *x, int proc)
{
    x->is_packed_by_all = false; /* the exchange has started */
    return make_packed(x, ampi_part_measure(x, proc), 0);
}

struct ampi_exchange_block *ampi_parts_new(struct ampi_exchange *x)
{
    size_t n_bytes = (size_t)x->n * sizeof(struct ampi_exchange_block);

    return memset(ampi_exchange_alloc(x, n_bytes), 0, n_bytes);
}

void ampi_parts_make_for_each(struct ampi_exchange *x)
{
    for (int i = 0; i < x->n; i++)
        if (i != x->own && (!x->is_target || x->is_target[i]))
            x->out[i] = ampi_part_make(x, x->proc[i], 0);
}

/* ---- Stand-ins ---- */

static struct ampi_coll_args *stand_in(struct ampi_coll_slot *slot, struct ampi_coll_args *args, int member)
{
    struct ampi_comm_shared *shared = slot->state->shared;
    int side = shared->is_inter && member >= shared->side[0].n_ranks;
    int rank = member - (side ? shared->side[0].n_ranks : 0);
    struct ampi_comm *comm = &shared->side[side].handles[rank]; /* not of a member in this process: unused */

    comm->rank = rank;
    comm->shared = shared;
    comm->local = &shared->side[side];
    comm->peer = shared->is_inter ? &shared->side[1 - side] : comm->local;
    args->plan = slot->plan;
    args->comm = comm;
    args->op = slot->last->op;
    args->is_remote = true;
    return args;
}

/* The head of a part, as the CPU can read it. */
static const struct head *head_of(struct ampi_exchange *x, const struct ampi_exchange_block *part)
{
    size_t guess = base_min_u64(HEAD_GUESS, part->n_bytes);
    struct head *head;

    if (part->is_bare)
        return bare_head_of(x, part);
    if (BASE_LIKELY(x->device < 0) || ampi_coll_device_memory(part->bytes) == MACHINE_HOST)
        return (const struct head *)part->bytes;
    head = ampi_exchange_alloc(x, guess);
    ampi_exchange_copy(x, head, part->bytes, guess);
    if (head->head_bytes > guess) {
        size_t all = head->head_bytes;
        head = ampi_exchange_alloc(x, all);
        ampi_exchange_copy(x, head, part->bytes, all);
    }
    return head;
}

static void *alloc_for_stand_in(void *exchange, size_t n_bytes)
{
    return ampi_exchange_alloc(exchange, n_bytes);
}

void ampi_part_stand_in(struct ampi_exchange *x, int proc, const struct ampi_exchange_block *part)
{
    struct ampi_coll_slot *slot = x->slot;
    const struct ampi_coll_remote *remote = slot->state->remote;
    int first = remote->first[proc];
    int n = ampi_remote_n_members(remote, proc);
    const struct head *whole = head_of(x, part);
    struct ampi_coll_unpacker in = {.at = (const unsigned char *)(whole + 1),
                                    .data = part->bytes + whole->head_bytes,
                                    .addresses = part->addresses,
                                    .alloc = alloc_for_stand_in,
                                    .memory = x};
    struct ampi_coll_args *args = ampi_coll_stand_in_alloc(&in, (size_t)n * sizeof *args);

    if (proc == 0)
        slot->context_id = whole->context_id;

    for (int i = 0; i < n; i++) {
        const struct member_head *head = (const struct member_head *)in.at;
        struct ampi_coll_unpacker after;
        size_t n_bytes;
        in.at += sizeof *head;
        in.n_items = head->n_items;
        after = in;
        for (int item = 0; item < head->n_items; item++)
            ampi_coll_get(&after, &n_bytes, NULL);
        stand_in(slot, &args[i], ampi_remote_member(remote, first + i));
        args[i].root = head->root;
        args[i].key[0] = head->key[0];
        args[i].key[1] = head->key[1];
        if (slot->plan->unpack)
            slot->plan->unpack(slot, &args[i], &in);
        else
            ampi_coll_unpack_whole(&args[i], &in);
        in.at = after.at;
        in.data = after.data;
        in.addresses = after.addresses;
        slot->args[ampi_remote_member(remote, first + i)] = &args[i];
    }
}
