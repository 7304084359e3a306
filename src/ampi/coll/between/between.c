/* SPDX-License-Identifier: BSD-3-Clause
 *
 * between.c: the communication of a collective between processes. See between.h.
 *
 * Invariant: slot->args of members in other processes is NULL, or a stand-in from the middle stage to the
 * last share.
 */
#include "ampi/coll/between/between.h"
#include "ampi/comm/contexts.h"

#include "ampi/coll/between/reduction.h"
#include "ampi/coll/between/coll_nccl.h"
#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/between/pair_procs.h"
#include "ampi/coll/between/parts.h"
#include "ampi/coll/engine/series.h"
#include "ampi/coll/engine/usage.h"
#include "ampi/procs/procs.h"
#include "ampi/comm/topo.h"
#include "base/log.h"

/* ---- Participants ---- */

/* The root member, as known to a member of this process; -1: no member of this process takes part.
 * *takes_part_out: a member here exchanges data with it. */
static int find_root(const struct ampi_coll_slot *slot, bool *takes_part_out)
{
    const struct ampi_coll_remote *remote = slot->state->remote;
    int root = -1;

    *takes_part_out = false;
    for (int i = remote->first[remote->own]; i < remote->first[remote->own + 1]; i++) {
        const struct ampi_coll_args *args = slot->args[ampi_remote_member(remote, i)];
        if (args->root == MPI_ROOT) {
            root = ampi_remote_member(remote, i);
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

/* Operations with a root: the root's process comes first, then those with members that exchange data with
 * it. On intercommunicators that may exclude some processes, including this one. */
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
    root_proc = ampi_remote_proc_of(remote, root);
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
        const struct ampi_comm *comm = x->slot->args[ampi_remote_member(remote, i)]->comm;
        int n_in = ampi_topo_in_degree(comm), n_out = ampi_topo_out_degree(comm);
        int *ranks = base_malloc((size_t)(n_in > n_out ? n_in : n_out) * sizeof(int), "a list of neighbors");
        ampi_topo_in_neighbors(comm, ranks);
        for (int k = 0; k < n_in; k++)
            if (ranks[k] >= 0)
                is_source[ampi_remote_proc_of(remote, ranks[k])] = true;
        ampi_topo_out_neighbors(comm, ranks);
        for (int k = 0; k < n_out; k++)
            if (ranks[k] >= 0)
                x->is_target[ampi_remote_proc_of(remote, ranks[k])] = true;
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
        ampi_parts_make_for_each(x);
    } else {
        struct ampi_coll_packer size = ampi_part_measure(x, ampi_part_other(x));
        ampi_exchange_choose(x, AMPI_COLL_BCAST, size.n_bytes + size.data_bytes);
        x->out[x->own] = ampi_part_make(x, ampi_part_other(x), 0);
    }
}

/* Sets up the exchange for the plan's data flow. */
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
    if (is_reduction) /* members' types may have gaps */
        x->device = -1;
    x->is_packed_by_all = x->slot->state->n_parts > 1 && !gpu_is_used();
    x->in = ampi_parts_new(x);
    x->out = ampi_parts_new(x);
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
            x->out[x->root] = ampi_part_make(x, x->proc[x->root], 0);
        break;
    case AMPI_COLL_FLOW_ALLTOALL:
        ampi_exchange_choose(x, AMPI_COLL_ALLTOALL, deciding_bytes(x));
        ampi_parts_make_for_each(x);
        break;
    case AMPI_COLL_FLOW_NEIGHBORS:
        find_neighbors(x);
        ampi_exchange_choose(x, AMPI_COLL_NEIGHBOR, 0);
        ampi_parts_make_for_each(x);
        break;
    default:
        ampi_exchange_choose(x, AMPI_COLL_ALLGATHER, deciding_bytes(x));
        x->out[x->own] = ampi_part_make(x, ampi_part_other(x), proposed);
    }
}

/* ---- The leader PE ---- */

/* All data that this process needs has arrived: continues with the middle stage. */
void ampi_exchange_over(struct ampi_exchange *x)
{
    struct ampi_coll_slot *slot = x->slot;
    const struct ampi_coll_remote *remote = slot->state->remote;
    struct ampi_between_slot *between_slot = BASE_CONTAINER(x, struct ampi_between_slot, x);

    ampi_exchange_set_active(between_slot, false);
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
    slot->context_id = remote->own == 0 ? between_slot->proposed : 0;
    if (x->reduction) {
        ampi_reduction_over(x);
    } else if (slot->plan->middle) {
        for (int i = 0; i < x->n && x->in; i++)
            if (i != x->own && x->in[i].bytes)
                ampi_part_stand_in(x, x->proc[i], &x->in[i]);
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

void ampi_coll_between_begin(struct ampi_exchange *x)
{
    ampi_exchange_set_active(BASE_CONTAINER(x, struct ampi_between_slot, x), true);
    x->has_failed = ampi_comm_has_failed(x->slot->state->shared);
    ampi_exchange_start(x);
}

/* Called when this process's data for others is packed. */
static void start(struct ampi_coll_pe *part)
{
    const struct ampi_coll_slot *slot = part->slot;

    ampi_coll_between_begin(&slot->between->x);
}

/* Packing is a stage of the leader's part. */
void ampi_coll_between_plan(struct ampi_exchange *x)
{
    struct ampi_coll_pe *part = &x->slot->parts[x->slot->state->remote->leader_part];

    ampi_coll_stage_begin(part);
    plan_exchange(x, BASE_CONTAINER(x, struct ampi_between_slot, x)->proposed);
    ampi_coll_stage_end(part, start);
}

void ampi_coll_between_run(struct ampi_exchange *x)
{
    struct ampi_coll_pe *part = &x->slot->parts[x->slot->state->remote->leader_part];

    ampi_coll_stage_begin(part);
    ampi_coll_nccl_fill(x);
    ampi_coll_stage_end(part, start);
}

static void begin(struct ampi_between_slot *between_slot, struct ampi_coll_slot *slot)
{
    struct ampi_exchange *x = &between_slot->x;

    *x = (struct ampi_exchange){.slot = slot, .seq = slot->last->seq, .own = -1, .root = -1, .device = -1};
    x->series = slot->series ? slot->series->number : 0;
    x->plan_hash = hash_of(slot);
    if (ampi_coll_usage_is_on())
        ampi_coll_usage_announce(x);
    find_all(x);
    between_slot->proposed = slot->plan->makes_comm ? ampi_contexts_propose() : 0;
    if (!ampi_coll_nccl_ask(x))
        ampi_coll_between_plan(x);
}

void ampi_coll_between_handle_failure(struct ampi_coll_state *state, int pe_id)
{
    struct ampi_coll_remote *remote = state->remote;
    struct ampi_between_slot *series, *next;

    if (!remote || ult_pe_id(remote->leader) != pe_id)
        return;
    ampi_exchange_drop_arrived(remote);
    for (int i = 0; i < AMPI_COLL_SLOTS; i++)
        if (remote->slots[i].is_active)
            ampi_exchange_fail(&remote->slots[i].x);
    for (uint32_t i = 0; i < remote->table.n_buckets; i++)
        for (series = remote->table.buckets[i].active; series; series = next) {
            next = series->next_active;
            ampi_exchange_fail(&series->x);
        }
    ampi_pair_fail(state);
}

static void handle_begin(struct ult_wakeup *wakeup)
{
    struct ampi_between_slot *between_slot = BASE_CONTAINER(wakeup, struct ampi_between_slot, wakeup);

    begin(between_slot, between_slot->x.slot);
}

void ampi_coll_remote_arrived(struct ampi_coll_slot *slot)
{
    struct ampi_coll_remote *remote = slot->state->remote;
    struct ampi_between_slot *between_slot = slot->between;

    if (remote->leader == ult_self()->pe) {
        begin(between_slot, slot);
        return;
    }
    between_slot->wakeup.handle = handle_begin;
    ult_post_wakeup(remote->leader, &between_slot->wakeup);
}

void ampi_coll_remote_release(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_remote *remote = slot->state->remote;
    struct ampi_exchange *x = &slot->between->x;

    for (int i = 0; i < x->n && x->in; i++)
        if (i != x->own && x->in[i].bytes)
            for (int k = remote->first[x->proc[i]]; k < remote->first[x->proc[i] + 1]; k++)
                slot->args[ampi_remote_member(remote, k)] = NULL;
    ampi_exchange_release(x);
}

/* ---- Received messages; on the leader PE ---- */

/* Messages for communicators that this process has not created yet, by the receiving PE. */
struct orphan {
    struct orphan *next;
    struct ampi_am_header am;
    void *bytes;
    size_t n_bytes;
};
static struct {
    struct orphan *first;
    uint32_t generation; /* of the communicators at the last attempt */
} orphans[AMPI_PES_MAX];

static BASE_COLD void make_orphan(const struct ampi_am_header *am, void *bytes, size_t n_bytes)
{
    struct orphan *orphan = base_malloc(sizeof *orphan, "a collective between processes");
    int pe_id = ult_pe_id(ult_self()->pe);

    *orphan = (struct orphan){orphans[pe_id].first, *am, bytes, n_bytes};
    orphans[pe_id].first = orphan;
}

/* The received message is a reference to the bytes. */
static void borrow(struct ampi_exchange_message *message)
{
    BASE_ASSERT(message->n_bytes == sizeof message->ref);
    memcpy(&message->ref, message->bytes, sizeof message->ref);
    free(message->bytes);
    message->bytes = ampi_node_memory_at(&message->ref);
    message->n_bytes = message->ref.n_bytes;
    message->is_lent = true;
}

static struct ampi_exchange_message *message_of(const struct ampi_coll_remote *remote,
                                                const struct ampi_am_header *am, void *bytes, size_t n_bytes)
{
    struct ampi_exchange_message *message = base_malloc(sizeof *message, "a collective between processes");

    *message = (struct ampi_exchange_message){.seq = am->seq,
                                              .tag = am->tag,
                                              .algorithm = am->dest & 0xff,
                                              .plan_hash = (uint32_t)am->dest >> 8,
                                              .series = (uint32_t)am->source,
                                              .proc = remote->index_of[am->src_proc],
                                              .cookie = am->cookie,
                                              .bytes = bytes,
                                              .n_bytes = n_bytes,
                                              .is_bare = am->flags & AMPI_AM_BARE,
                                              .is_again = am->flags & AMPI_AM_AGAIN,
                                              .has_voted = am->flags & AMPI_AM_VOTED,
                                              .has_refused = am->flags & AMPI_AM_REFUSED};
    if (am->flags & AMPI_AM_LENT)
        borrow(message);
    if (am->flags & AMPI_AM_DIRECT && !message->is_bare) {
        message->direct = ampi_exchange_direct_cut(message->bytes, &message->n_bytes);
    } else if (am->flags & AMPI_AM_DIRECT) {
        message->direct = bytes;
        message->bytes = NULL;
        message->n_bytes = (size_t)message->direct->n_bytes;
    }
    return message;
}

static struct ampi_am_header without_direct(const struct ampi_am_header *am)
{
    struct ampi_am_header without = *am;

    without.flags &= (uint8_t)~AMPI_AM_DIRECT;
    return without;
}

/* The sender of a listed part sends it once more, packed. */
static BASE_COLD void make_listed_orphan(const struct ampi_am_header *am, void *bytes, size_t n_bytes)
{
    struct ampi_am_header again = without_direct(am);
    struct ampi_node_ref ref;
    const void *part = bytes;
    size_t part_bytes = n_bytes;

    if (am->flags & AMPI_AM_LENT) {
        memcpy(&ref, bytes, sizeof ref);
        part = ampi_node_memory_at(&ref);
        part_bytes = ref.n_bytes;
    }
    again.flags |= AMPI_AM_AGAIN;
    ampi_exchange_direct_answer(ampi_exchange_direct_cut(part, &part_bytes), MACHINE_FAILED);
    make_orphan(&again, bytes, n_bytes);
}

/* The sender waits until its data has been copied. It must not wait for a communicator that may never come. */
static BASE_COLD void make_direct_orphan(const struct ampi_am_header *am, struct ampi_exchange_direct *direct)
{
    size_t n_bytes = (size_t)direct->n_bytes;
    void *bytes = base_malloc(n_bytes, "a collective between processes");
    struct ampi_am_header with_data = without_direct(am);

    if (ampi_exchange_direct_fetch(direct, bytes) == MACHINE_DONE)
        make_orphan(&with_data, bytes, n_bytes);
    else
        free(bytes);
}

void ampi_coll_between_handle(const struct ampi_am_header *am, void *bytes, size_t n_bytes)
{
    struct ampi_comm_shared *shared = ampi_contexts_find(ult_pe_id(ult_self()->pe), am->context_id);

    if (BASE_UNLIKELY(!shared)) {
        if (am->flags & AMPI_AM_DIRECT && !(am->flags & AMPI_AM_BARE))
            make_listed_orphan(am, bytes, n_bytes);
        else if (am->flags & AMPI_AM_DIRECT)
            make_direct_orphan(am, bytes);
        else
            make_orphan(am, bytes, n_bytes);
        return;
    }
    if (am->kind == AMPI_AM_PAIR) {
        ampi_pair_handle(shared, am);
        return;
    }
    ampi_exchange_handle(shared->coll->remote, message_of(shared->coll->remote, am, bytes, n_bytes));
    if (shared->coll->is_pair && !am->source)
        ampi_pair_note_exchange(shared->coll, am->seq);
    if (BASE_UNLIKELY(ampi_comm_has_failed(shared)))
        ampi_exchange_drop_arrived(shared->coll->remote);
}

bool ampi_coll_between_handle_away(const struct ampi_am_header *am, const struct machine_data *data)
{
    struct ampi_comm_shared *shared = ampi_contexts_find(ult_pe_id(ult_self()->pe), am->context_id);
    struct ampi_exchange_message *message;

    if (!shared || (am->flags & AMPI_AM_DIRECT) || ampi_comm_has_failed(shared))
        return false;
    if (!(am->flags & AMPI_AM_BARE) &&
        (data->n_bytes < AMPI_EXCHANGE_DIRECT_BYTES || !gpu_is_used() || !ampi_machine->takes(MACHINE_CUDA)))
        return false;
    message = message_of(shared->coll->remote, am, NULL, data->n_bytes);
    message->token = data->token;
    ampi_exchange_handle(shared->coll->remote, message);
    if (shared->coll->is_pair && !am->source)
        ampi_pair_note_exchange(shared->coll, am->seq);
    return true;
}

bool ampi_coll_between_must_retry(int pe_id)
{
    return BASE_UNLIKELY(orphans[pe_id].first != NULL) &&
           orphans[pe_id].generation != ampi_contexts_generation();
}

int ampi_coll_between_retry(int pe_id)
{
    struct orphan *list = orphans[pe_id].first;

    if (!ampi_coll_between_must_retry(pe_id))
        return 0;
    orphans[pe_id].generation = ampi_contexts_generation();
    orphans[pe_id].first = NULL;
    while (list) {
        struct orphan *next = list->next;
        ampi_coll_between_handle(&list->am, list->bytes, list->n_bytes);
        free(list);
        list = next;
    }
    return 1;
}
