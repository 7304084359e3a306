/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wire.c: what goes between processes in a collective. See wire.h.
 *
 * Invariant: slot->args of members elsewhere is NULL, or a stand-in from the middle stage to the last share.
 */
#include "ampi/coll/between/wire.h"
#include "ampi/comm/contexts.h"
#include "ampi/coll/device/coll_device.h"

#include "ampi/coll/between/reduction.h"
#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/engine/series.h"
#include "ampi/coll/engine/usage.h"
#include "ampi/procs/procs.h"
#include "ampi/comm/topo.h"
#include "base/log.h"

/* The head of a part. */
struct head {
    uint64_t context_id; /* what the process proposes for a communicator that is being made */
    uint64_t head_bytes; /* of all that comes before the data */
};

/* Data begins at multiples of this: of parts that are a GPU's, this much is looked at first. */
#define DATA_ALIGN 16u
#define HEAD_GUESS 4096u

/* The head of each member's contribution; its items follow. */
struct member_head {
    int root;
    int key[2];
    int n_items;
};

/* ---- Who takes part ---- */

/* The member that is the root, as far as a member of this process knows; -1: none of them takes part.
 * *takes_part_out: somebody here exchanges data with it. */
static int find_root(const struct ampi_coll_slot *slot, bool *takes_part_out)
{
    const struct ampi_coll_remote *remote = slot->state->remote;
    int root = -1;

    *takes_part_out = false;
    for (int i = remote->first[remote->own]; i < remote->first[remote->own + 1]; i++) {
        const struct ampi_coll_args *args = slot->args[remote->members[i]];
        if (args->root == MPI_ROOT) {
            root = remote->members[i];
        } else if (args->root >= 0) {
            root = ampi_coll_peer_first(args->comm) + args->root;
            *takes_part_out = true;
            if (!slot->state->shared->is_inter)
                break;
        }
    }
    return root;
}

static void take_part(struct ampi_exchange *x, int proc)
{
    if (proc == x->slot->state->remote->own)
        x->own = x->n;
    x->proc[x->n++] = proc;
}

/* Operations with a root: the root's process first, then those with members that exchange data with it. On
 * intercommunicators that need not be all, nor this one. */
static void find_with_root(struct ampi_exchange *x)
{
    const struct ampi_comm_shared *shared = x->slot->state->shared;
    const struct ampi_coll_remote *remote = x->slot->state->remote;
    bool takes_part;
    int root = find_root(x->slot, &takes_part);
    int peer_side = shared->is_inter && root < shared->side[0].n_ranks ? 1 : 0;
    int root_proc;

    if (root < 0)
        return;
    root_proc = remote->proc_of[root];
    if (root_proc != remote->own && !takes_part)
        return;
    for (int i = 0; i < remote->n_procs; i++)
        if (i == root_proc || (remote->sides[i] >> peer_side & 1)) {
            if (i == root_proc)
                x->root = x->n;
            take_part(x, i);
        }
}

static void find_all(struct ampi_exchange *x)
{
    enum ampi_coll_flow flow = x->slot->plan->flow;

    x->proc = ampi_exchange_alloc(x, (size_t)x->slot->state->remote->n_procs * sizeof(int));
    if (flow == AMPI_COLL_FLOW_BCAST || flow == AMPI_COLL_FLOW_SCATTER || flow == AMPI_COLL_FLOW_GATHER ||
        flow == AMPI_COLL_FLOW_REDUCE) {
        find_with_root(x);
        return;
    }
    for (int i = 0; i < x->slot->state->remote->n_procs; i++)
        take_part(x, i);
}

/* ---- Parts ---- */

/* This process's part for another one: all members' heads and items. */
static void pack_part(const struct ampi_coll_slot *slot, struct ampi_coll_packer *out, uint64_t proposed)
{
    const struct ampi_coll_remote *remote = slot->state->remote;

    if (out->at)
        *(struct head *)out->at = (struct head){proposed, base_round_up(out->n_bytes, DATA_ALIGN)};
    out->n_bytes = sizeof(struct head);
    out->data_bytes = 0;
    for (int i = remote->first[remote->own]; i < remote->first[remote->own + 1]; i++) {
        struct ampi_coll_args *args = slot->args[remote->members[i]];
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

/* Only how large it will be. */
static struct ampi_coll_packer measure_part(const struct ampi_exchange *x, int proc)
{
    struct ampi_coll_packer out = {.proc = proc};

    pack_part(x->slot, &out, 0);
    return out;
}

/* The algorithm has been chosen. */
static struct ampi_exchange_part make_part(struct ampi_exchange *x, int proc, uint64_t proposed)
{
    struct ampi_coll_packer out;
    size_t head_bytes, n_bytes;
    unsigned char *part;

    if (!x->slot->plan->middle) /* a barrier */
        return (struct ampi_exchange_part){0};
    out = measure_part(x, proc);
    head_bytes = base_round_up(out.n_bytes, DATA_ALIGN);
    n_bytes = head_bytes + out.data_bytes;
    part = ampi_exchange_is_direct(x->algorithm) ? ampi_exchange_alloc_data(x, n_bytes)
                                                 : ampi_exchange_alloc(x, n_bytes);
    out.at = part;
    out.data = part + head_bytes;
    if (BASE_UNLIKELY(x->device >= 0) && ampi_coll_device_memory(part) != MACHINE_HOST)
        out.at = ampi_exchange_alloc(x, head_bytes);
    pack_part(x->slot, &out, proposed);
    if (out.at != part)
        ampi_coll_move(x->slot->last, ampi_coll_bytes(part, head_bytes), ampi_coll_bytes(out.at, head_bytes));
    return (struct ampi_exchange_part){part, n_bytes};
}

static struct ampi_exchange_part *new_parts(struct ampi_exchange *x)
{
    size_t n_bytes = (size_t)x->n * sizeof(struct ampi_exchange_part);

    return memset(ampi_exchange_alloc(x, n_bytes), 0, n_bytes);
}

static void make_parts_for_each(struct ampi_exchange *x)
{
    for (int i = 0; i < x->n; i++)
        if (i != x->own && (!x->is_target || x->is_target[i]))
            x->out[i] = make_part(x, x->proc[i], 0);
}

/* A process that the part which is for all may be packed for. */
static int remote_other(const struct ampi_exchange *x)
{
    return x->proc[ampi_exchange_after(x, 1)];
}

/* ---- Which way ---- */

static size_t deciding_bytes(const struct ampi_exchange *x)
{
    return x->slot->plan->between_bytes ? x->slot->plan->between_bytes(x->slot) : 0;
}

/* The processes of the local members' neighbors. */
static void find_neighbors(struct ampi_exchange *x)
{
    const struct ampi_coll_remote *remote = x->slot->state->remote;
    bool *is_source = ampi_exchange_alloc(x, (size_t)x->n);

    x->is_target = ampi_exchange_alloc(x, (size_t)x->n);
    memset(is_source, 0, (size_t)x->n);
    memset(x->is_target, 0, (size_t)x->n);
    for (int i = remote->first[remote->own]; i < remote->first[remote->own + 1]; i++) {
        const struct ampi_comm *comm = x->slot->args[remote->members[i]]->comm;
        int n_in = ampi_topo_in_degree(comm), n_out = ampi_topo_out_degree(comm);
        int *ranks = base_malloc((size_t)(n_in > n_out ? n_in : n_out) * sizeof(int), "a list of neighbors");
        ampi_topo_in_neighbors(comm, ranks);
        for (int k = 0; k < n_in; k++)
            if (ranks[k] >= 0)
                is_source[remote->proc_of[ranks[k]]] = true;
        ampi_topo_out_neighbors(comm, ranks);
        for (int k = 0; k < n_out; k++)
            if (ranks[k] >= 0)
                x->is_target[remote->proc_of[ranks[k]]] = true;
        free(ranks);
    }
    x->is_target[x->own] = is_source[x->own] = false;
    for (int i = 0; i < x->n; i++)
        x->n_sources += is_source[i];
}

static void plan_from_root(struct ampi_exchange *x, bool is_scatter)
{
    if (x->own != x->root) {
        ampi_exchange_follow(x);
    } else if (is_scatter) {
        ampi_exchange_choose(x, AMPI_COLL_SCATTER, deciding_bytes(x));
        make_parts_for_each(x);
    } else {
        struct ampi_coll_packer size = measure_part(x, remote_other(x));
        ampi_exchange_choose(x, AMPI_COLL_BCAST, size.n_bytes + size.data_bytes);
        x->out[x->own] = make_part(x, remote_other(x), 0);
    }
}

/* Sets the exchange up for how the plan's data flows. */
static void plan_exchange(struct ampi_exchange *x, uint64_t proposed)
{
    enum ampi_coll_flow flow = x->slot->plan->flow;
    bool is_reduction = flow >= AMPI_COLL_FLOW_ALLREDUCE;

    if (x->n < 2)
        return;
    if (x->slot->last->has_buffers && gpu_is_used()) {
        x->device = ampi_coll_device_for(x->slot);
        x->is_staged = x->device >= 0 && !ampi_machine->takes(MACHINE_CUDA);
        if (x->is_staged)
            x->device = -1;
    }
    if (is_reduction && ampi_reduction_fits(x->slot)) {
        ampi_reduction_start(x);
        return;
    }
    if (is_reduction) /* members' types may have holes */
        x->device = -1;
    x->in = new_parts(x);
    x->out = new_parts(x);
    switch (flow) {
    case AMPI_COLL_FLOW_BCAST:
    case AMPI_COLL_FLOW_SCATTER:
        plan_from_root(x, flow == AMPI_COLL_FLOW_SCATTER);
        break;
    case AMPI_COLL_FLOW_GATHER:
    case AMPI_COLL_FLOW_REDUCE:
        ampi_exchange_choose(x, AMPI_COLL_GATHER,
                             flow == AMPI_COLL_FLOW_REDUCE ? SIZE_MAX : deciding_bytes(x));
        if (x->own != x->root)
            x->out[x->root] = make_part(x, x->proc[x->root], 0);
        break;
    case AMPI_COLL_FLOW_ALLTOALL:
        ampi_exchange_choose(x, AMPI_COLL_ALLTOALL, deciding_bytes(x));
        make_parts_for_each(x);
        break;
    case AMPI_COLL_FLOW_NEIGHBORS:
        find_neighbors(x);
        ampi_exchange_choose(x, AMPI_COLL_NEIGHBOR, 0);
        make_parts_for_each(x);
        break;
    default:
        ampi_exchange_choose(x, AMPI_COLL_ALLGATHER, deciding_bytes(x));
        x->out[x->own] = make_part(x, remote_other(x), proposed);
    }
}

/* ---- The leader PE ---- */

static struct ampi_coll_args *stand_in(struct ampi_coll_slot *slot, struct ampi_coll_args *args, int member)
{
    struct ampi_comm_shared *shared = slot->state->shared;
    int side = shared->is_inter && member >= shared->side[0].n_ranks;
    int rank = member - (side ? shared->side[0].n_ranks : 0);
    struct ampi_comm *comm =
        &shared->side[side].handles[rank]; /* not a member's of this process: nobody uses it */

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
static const struct head *head_of(struct ampi_exchange *x, const struct ampi_exchange_part *part)
{
    size_t guess = base_min_u64(HEAD_GUESS, part->n_bytes);
    struct head *head;

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

static void set_up_stand_ins(struct ampi_exchange *x, int proc, const struct ampi_exchange_part *part)
{
    struct ampi_coll_slot *slot = x->slot;
    const struct ampi_coll_remote *remote = slot->state->remote;
    int first = remote->first[proc];
    int n = ampi_remote_n_members(remote, proc);
    const struct head *whole = head_of(x, part);
    struct ampi_coll_unpacker in = {.at = (const unsigned char *)(whole + 1),
                                    .data = part->bytes + whole->head_bytes,
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
        stand_in(slot, &args[i], remote->members[first + i]);
        args[i].root = head->root;
        args[i].key[0] = head->key[0];
        args[i].key[1] = head->key[1];
        if (slot->plan->unpack)
            slot->plan->unpack(slot, &args[i], &in);
        else
            ampi_coll_unpack_whole(&args[i], &in);
        in.at = after.at;
        in.data = after.data;
        slot->args[remote->members[first + i]] = &args[i];
    }
}

/* Messages may be given to the exchange from now on; or no more. */
static void set_active(struct ampi_wire_slot *wire_slot, bool is_active)
{
    struct ampi_wire_slot **link = &wire_slot->x.slot->state->remote->series;

    if (BASE_UNLIKELY(wire_slot->x.series) && wire_slot->is_active != is_active) {
        while (*link && *link != wire_slot)
            link = &(*link)->next_series;
        if (is_active)
            wire_slot->next_series = NULL;
        *link = is_active ? wire_slot : wire_slot->next_series;
    }
    wire_slot->is_active = is_active;
}

/* All that this process needs is here: the middle stage follows. */
void ampi_exchange_over(struct ampi_exchange *x)
{
    struct ampi_coll_slot *slot = x->slot;
    const struct ampi_coll_remote *remote = slot->state->remote;
    struct ampi_wire_slot *wire_slot = BASE_CONTAINER(x, struct ampi_wire_slot, x);

    set_active(wire_slot, false);
    if (BASE_UNLIKELY(x->has_failed)) {
        if (x->nccl)
            ampi_coll_nccl_drop(x);
        ampi_coll_fail(slot, remote->leader_part);
        return;
    }
    if (BASE_UNLIKELY(x->nccl != NULL)) {
        if (ampi_coll_nccl_over(x))
            ampi_coll_run_middle(slot, remote->leader_part);
        return;
    }
    slot->context_id = remote->own == 0 ? wire_slot->proposed : 0;
    if (x->reduction) {
        ampi_reduction_over(x);
    } else if (slot->plan->middle) {
        for (int i = 0; i < x->n && x->in; i++)
            if (i != x->own && x->in[i].bytes)
                set_up_stand_ins(x, x->proc[i], &x->in[i]);
    }
    if (ampi_coll_usage_is_on() && !x->reduction)
        ampi_coll_usage_check_blocks(slot);
    ampi_coll_run_middle(slot, remote->leader_part);
}

static uint32_t hash_of(const struct ampi_coll_slot *slot)
{
    uint32_t hash = 5381;

    for (const char *name = slot->plan->name; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    if (ampi_coll_usage_is_on())
        hash = ampi_coll_usage_hash(slot, hash);
    return hash & 0x7fffff;
}

void ampi_coll_wire_begin(struct ampi_exchange *x)
{
    set_active(BASE_CONTAINER(x, struct ampi_wire_slot, x), true);
    x->has_failed = ampi_comm_has_lost(x->slot->state->shared);
    ampi_exchange_start(x);
}

/* This process's data for others is packed. */
static void start(struct ampi_coll_part *part)
{
    const struct ampi_coll_slot *slot = part->slot;

    ampi_coll_wire_begin(&slot->wire->x);
}

/* Packing is a stage of the leader's part. */
void ampi_coll_wire_plan(struct ampi_exchange *x)
{
    struct ampi_coll_part *part = &x->slot->parts[x->slot->state->remote->leader_part];

    ampi_coll_stage_begin(part);
    plan_exchange(x, BASE_CONTAINER(x, struct ampi_wire_slot, x)->proposed);
    ampi_coll_stage_end(part, start);
}

void ampi_coll_wire_run(struct ampi_exchange *x)
{
    struct ampi_coll_part *part = &x->slot->parts[x->slot->state->remote->leader_part];

    ampi_coll_stage_begin(part);
    ampi_coll_nccl_fill(x);
    ampi_coll_stage_end(part, start);
}

static void begin(struct ampi_wire_slot *wire_slot, struct ampi_coll_slot *slot)
{
    struct ampi_exchange *x = &wire_slot->x;

    *x = (struct ampi_exchange){.slot = slot, .seq = slot->last->seq, .own = -1, .root = -1, .device = -1};
    x->series = slot->series ? slot->series->number : 0;
    x->plan_hash = hash_of(slot);
    if (ampi_coll_usage_is_on())
        ampi_coll_usage_announce(x);
    find_all(x);
    wire_slot->proposed = slot->plan->makes_comm ? ampi_contexts_propose() : 0;
    if (!ampi_coll_nccl_ask(x))
        ampi_coll_wire_plan(x);
}

void ampi_coll_wire_lose(struct ampi_coll_state *state, int pe_id)
{
    struct ampi_coll_remote *remote = state->remote;
    struct ampi_wire_slot *series, *next;

    if (!remote || ult_pe_id(remote->leader) != pe_id)
        return;
    for (int i = 0; i < AMPI_COLL_SLOTS; i++)
        if (remote->slots[i].is_active)
            ampi_exchange_fail(&remote->slots[i].x);
    for (series = remote->series; series; series = next) {
        next = series->next_series;
        ampi_exchange_fail(&series->x);
    }
}

static void handle_begin(struct ult_note *note)
{
    struct ampi_wire_slot *wire_slot = BASE_CONTAINER(note, struct ampi_wire_slot, note);

    begin(wire_slot, wire_slot->x.slot);
}

void ampi_coll_remote_arrived(struct ampi_coll_slot *slot)
{
    struct ampi_coll_remote *remote = slot->state->remote;
    struct ampi_wire_slot *wire_slot = slot->wire;

    if (remote->leader == ult_self()->pe) {
        begin(wire_slot, slot);
        return;
    }
    wire_slot->note.handle = handle_begin;
    ult_post_note(remote->leader, &wire_slot->note);
}

void ampi_coll_remote_release(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_remote *remote = slot->state->remote;
    struct ampi_exchange *x = &slot->wire->x;

    for (int i = 0; i < x->n && x->in; i++)
        if (i != x->own && x->in[i].bytes)
            for (int k = remote->first[x->proc[i]]; k < remote->first[x->proc[i] + 1]; k++)
                slot->args[remote->members[k]] = NULL;
    ampi_exchange_release(x);
}

/* ---- What comes; on the leader PE ---- */

/* Parts for communicators that this process has not made yet, by the PE that they came to. */
struct orphan {
    struct orphan *next;
    struct ampi_wire wire;
    void *bytes;
    size_t n_bytes;
};
static struct {
    struct orphan *first;
    uint32_t generation; /* of the communicators when they were last tried */
} orphans[AMPI_PES_MAX];

static BASE_COLD void make_orphan(const struct ampi_wire *wire, void *bytes, size_t n_bytes)
{
    struct orphan *orphan = base_malloc(sizeof *orphan, "a collective over processes");
    int pe_id = ult_pe_id(ult_self()->pe);

    *orphan = (struct orphan){orphans[pe_id].first, *wire, bytes, n_bytes};
    orphans[pe_id].first = orphan;
}

static struct ampi_exchange_message *message_of(const struct ampi_coll_remote *remote,
                                                const struct ampi_wire *wire, void *bytes, size_t n_bytes)
{
    struct ampi_exchange_message *message = base_malloc(sizeof *message, "a collective over processes");

    *message = (struct ampi_exchange_message){.seq = wire->seq,
                                              .tag = wire->tag,
                                              .algorithm = wire->dest & 0xff,
                                              .plan_hash = (uint32_t)wire->dest >> 8,
                                              .series = (uint32_t)wire->source,
                                              .proc = remote->index_of[wire->src_proc],
                                              .note = wire->cookie,
                                              .bytes = bytes,
                                              .n_bytes = n_bytes,
                                              .has_voted = wire->flags & AMPI_WIRE_VOTED,
                                              .has_refused = wire->flags & AMPI_WIRE_REFUSED};
    return message;
}

void ampi_coll_wire_handle(const struct ampi_wire *wire, void *bytes, size_t n_bytes)
{
    struct ampi_comm_shared *shared = ampi_contexts_find(ult_pe_id(ult_self()->pe), wire->context_id);

    if (BASE_UNLIKELY(!shared))
        make_orphan(wire, bytes, n_bytes);
    else
        ampi_exchange_handle(shared->coll->remote, message_of(shared->coll->remote, wire, bytes, n_bytes));
}

bool ampi_coll_wire_handle_away(const struct ampi_wire *wire, const struct machine_data *data)
{
    struct ampi_comm_shared *shared = ampi_contexts_find(ult_pe_id(ult_self()->pe), wire->context_id);
    struct ampi_exchange_message *message;

    if (data->n_bytes < AMPI_EXCHANGE_DIRECT_BYTES || !shared || !ampi_machine->takes(MACHINE_CUDA))
        return false;
    message = message_of(shared->coll->remote, wire, NULL, data->n_bytes);
    message->token = data->token;
    ampi_exchange_handle(shared->coll->remote, message);
    return true;
}

bool ampi_coll_wire_must_retry(int pe_id)
{
    return BASE_UNLIKELY(orphans[pe_id].first != NULL) &&
           orphans[pe_id].generation != ampi_contexts_generation();
}

int ampi_coll_wire_retry(int pe_id)
{
    struct orphan *list = orphans[pe_id].first;

    if (!ampi_coll_wire_must_retry(pe_id))
        return 0;
    orphans[pe_id].generation = ampi_contexts_generation();
    orphans[pe_id].first = NULL;
    while (list) {
        struct orphan *next = list->next;
        ampi_coll_wire_handle(&list->wire, list->bytes, list->n_bytes);
        free(list);
        list = next;
    }
    return 1;
}
