/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wire.c: what goes between processes in a collective. See wire.h.
 *
 * Invariants:
 *   1. Messages that have come (remote->arrived) belong to the leader PE alone; those of an operation are
 * moved to its slot when its local members have arrived.
 *   2. slot->args of members elsewhere is NULL or a stand-in from the middle stage to the last share.
 */
#include "ampi/coll/wire.h"

#include "ampi/coll/fold.h"
#include "ampi/procs/procs.h"
#include "base/log.h"

#define ITEM_ALIGN 16u

/* What a process's part in an operation begins with. */
struct head {
    uint64_t context_id; /* what the process proposes for a communicator that is being made */
    uint64_t unused;
};

/* What each member's part begins with; its items follow. */
struct member_head {
    int root;
    int key[2];
    int n_items;
};

/* A process's part that has come. */
struct ampi_coll_message {
    struct ampi_coll_message *next;
    uint32_t seq;         /* number of the operation */
    int proc;             /* index of the process */
    unsigned char *bytes; /* malloc'ed */
    size_t n_bytes;
    void *memory; /* list of what stand-ins needed */
};

/* Of one slot; the leader PE's, but for the note. */
struct wire_slot {
    struct ampi_coll_slot *slot;
    struct ult_note note; /* takes the arrival to the leader PE */
    bool is_ready;        /* the local members have arrived, and the middle stage has not begun */
    uint32_t seq;
    int n_missing;                      /* parts that are still to come */
    uint64_t proposed;                  /* this process's context id for a communicator that is being made */
    struct ampi_coll_message *messages; /* that have come */
};

struct ampi_coll_remote {
    int n_procs;      /* with members */
    int own;          /* index of this one */
    int *proc_id;     /* by index, ascending */
    int *leader_rank; /* by index: world rank of its first member */
    int *proc_of;     /* by member: index of its process */
    int *first;       /* members of process i: members[first[i]] .. [first[i + 1] - 1], ascending */
    int *members;
    unsigned char *sides; /* by index: bit s is set if it has members of side s */
    int leader_part;      /* of this process */
    struct ult_pe *leader;
    struct ampi_coll_message *arrived; /* of operations whose local members have not arrived; in any order */
    struct wire_slot slots[AMPI_COLL_SLOTS];
};

/* ---- Packing ---- */

static struct ampi_coll_item *put_item(struct ampi_coll_packer *out, uint64_t index, size_t n_bytes)
{
    struct ampi_coll_item *item = out->at ? (struct ampi_coll_item *)(out->at + out->n_bytes) : NULL;

    out->n_bytes += sizeof *item + base_round_up(n_bytes, ITEM_ALIGN);
    out->n_items++;
    if (item)
        *item = (struct ampi_coll_item){n_bytes, index};
    return item;
}

void ampi_coll_put_bytes(struct ampi_coll_packer *out, uint64_t index, const void *bytes, size_t n_bytes)
{
    struct ampi_coll_item *item = put_item(out, index, n_bytes);

    if (item && n_bytes)
        memcpy(item + 1, bytes, n_bytes);
}

void ampi_coll_put(struct ampi_coll_packer *out, uint64_t index, struct ampi_coll_block block)
{
    size_t n_bytes = ampi_coll_block_bytes(&block);
    struct ampi_coll_item *item = put_item(out, index, n_bytes);
    struct ampi_coll_block packed;

    if (!item || n_bytes == 0)
        return;
    packed = ampi_coll_bytes(item + 1, n_bytes);
    ampi_type_copy(packed.buf, packed.count, packed.type, block.buf, block.count, block.type);
}

void ampi_coll_wire_input(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                          struct ampi_coll_packer *out)
{
    (void)slot;
    if (args->send.type)
        ampi_coll_put(out, 0,
                      (struct ampi_coll_block){ampi_coll_input(args), args->send.count, args->send.type});
}

/* ---- Unpacking ---- */

const void *ampi_coll_get(struct ampi_coll_unpacker *in, size_t *n_bytes_out, uint64_t *index_out)
{
    const struct ampi_coll_item *item = (const struct ampi_coll_item *)in->at;

    in->at += sizeof *item + base_round_up(item->n_bytes, ITEM_ALIGN);
    *n_bytes_out = item->n_bytes;
    if (index_out)
        *index_out = item->index;
    return item + 1;
}

void *ampi_coll_stand_in_alloc(struct ampi_coll_unpacker *in, size_t n_bytes)
{
    void **memory = base_calloc(1, ITEM_ALIGN + n_bytes, "a collective over processes");

    *memory = in->message->memory;
    in->message->memory = memory;
    return (char *)memory + ITEM_ALIGN;
}

/* One item, which is all of the member's data. */
static void unwire_whole(struct ampi_coll_args *args, struct ampi_coll_unpacker *in)
{
    size_t n_bytes = 0;
    const void *bytes = in->n_items ? ampi_coll_get(in, &n_bytes, NULL) : NULL;
    struct ampi_coll_block block = ampi_coll_bytes(bytes, n_bytes);

    args->send.buf = args->recv.buf = block.buf;
    args->send.count = args->recv.count = block.count;
    args->send.type = args->recv.type = (struct ampi_type *)(uintptr_t)block.type;
}

void ampi_coll_unwire_blocks(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                             struct ampi_coll_unpacker *in)
{
    struct ampi_coll_unpacker ahead = *in;
    uint64_t index, n_blocks = 0;
    size_t n_bytes;
    MPI_Count *counts;
    MPI_Aint *displs;

    (void)slot;
    for (int i = 0; i < in->n_items; i++) {
        ampi_coll_get(&ahead, &n_bytes, &index);
        n_blocks = base_max_u64(n_blocks, index + 1);
    }
    counts = ampi_coll_stand_in_alloc(in, n_blocks * sizeof *counts);
    displs = ampi_coll_stand_in_alloc(in, n_blocks * sizeof *displs);
    args->send.buf = (void *)(uintptr_t)in->at;
    ahead = *in;
    for (int i = 0; i < in->n_items; i++) {
        const unsigned char *bytes = ampi_coll_get(&ahead, &n_bytes, &index);
        counts[index] = (MPI_Count)n_bytes;
        displs[index] = bytes - in->at;
    }
    args->send.counts = counts;
    args->send.displs = displs;
    args->send.has_large_counts = args->send.has_large_displs = true;
    args->send.n_blocks = (int)n_blocks;
    args->send.type = (struct ampi_type *)(uintptr_t)ampi_coll_bytes(NULL, 0).type;
}

/* The type of a reduction: slot->last may be a member that takes no part in it. */
static struct ampi_type *reduced_type(const struct ampi_coll_slot *slot)
{
    struct ampi_type *type = slot->last->send.type;

    for (int i = 0; i < slot->state->n_members && !type; i++)
        if (slot->args[i] && !slot->args[i]->is_remote)
            type = slot->args[i]->send.type;
    return type;
}

void ampi_coll_unwire_input(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
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
        MPI_Count last = args->send.count > 0 ? (args->send.count - 1) * type->extent_bytes : 0;
        MPI_Count lo = type->true_lb_bytes + (last < 0 ? last : 0);
        void *memory =
            ampi_coll_stand_in_alloc(in, (size_t)(type->true_extent_bytes + (last < 0 ? -last : last)));
        args->send.buf = ampi_type_address(memory, -lo);
        ampi_type_copy(args->send.buf, args->send.count, type, packed.buf, packed.count, packed.type);
    }
}

/* ---- Who needs what ---- */

int ampi_coll_n_peers_in(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args, int proc)
{
    const struct ampi_coll_remote *remote = slot->state->remote;

    (void)args;
    return remote->first[proc + 1] - remote->first[proc];
}

int ampi_coll_peer_in(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args, int proc, int i)
{
    const struct ampi_coll_remote *remote = slot->state->remote;
    int rank = remote->members[remote->first[proc] + i] - ampi_coll_peer_first(args->comm);

    return rank >= 0 && rank < args->comm->peer->n_ranks ? rank : -1;
}

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

/* Fills what this process sends to each process and how many parts it waits for. */
static int plan_exchange(const struct ampi_coll_slot *slot, bool *sends_to)
{
    const struct ampi_coll_remote *remote = slot->state->remote;
    enum ampi_coll_flow flow = slot->plan->flow;
    bool takes_part;
    int root, root_proc, peer_side;

    for (int i = 0; i < remote->n_procs; i++)
        sends_to[i] = flow == AMPI_COLL_FLOW_ALL && i != remote->own;
    if (flow == AMPI_COLL_FLOW_ALL)
        return remote->n_procs - 1;
    root = find_root(slot, &takes_part);
    if (root < 0)
        return 0;
    root_proc = remote->proc_of[root];
    peer_side = slot->state->shared->is_inter && root < slot->state->shared->side[0].n_ranks ? 1 : 0;
    if (root_proc == remote->own) {
        int n_others = 0;
        for (int i = 0; i < remote->n_procs; i++)
            if (i != remote->own && (remote->sides[i] >> peer_side & 1)) {
                sends_to[i] = flow == AMPI_COLL_FLOW_FROM_ROOT;
                n_others++;
            }
        return flow == AMPI_COLL_FLOW_TO_ROOT ? n_others : 0;
    }
    if (!takes_part)
        return 0;
    sends_to[root_proc] = flow == AMPI_COLL_FLOW_TO_ROOT;
    return flow == AMPI_COLL_FLOW_FROM_ROOT;
}

/* ---- Sending ---- */

/* This process's part for another one: all members' heads and items. */
static void pack_part(const struct ampi_coll_slot *slot, struct ampi_coll_packer *out, uint64_t proposed)
{
    const struct ampi_coll_remote *remote = slot->state->remote;

    if (out->at)
        *(struct head *)out->at = (struct head){proposed, 0};
    out->n_bytes = sizeof(struct head);
    for (int i = remote->first[remote->own]; i < remote->first[remote->own + 1]; i++) {
        const struct ampi_coll_args *args = slot->args[remote->members[i]];
        struct member_head *head = out->at ? (struct member_head *)(out->at + out->n_bytes) : NULL;
        out->n_bytes += sizeof *head;
        out->n_items = 0;
        if (args->plan->wire)
            args->plan->wire(slot, args, out);
        if (head)
            *head = (struct member_head){args->root, {args->key[0], args->key[1]}, out->n_items};
    }
}

static void send_part(const struct ampi_coll_slot *slot, uint32_t seq, int proc, uint64_t proposed)
{
    const struct ampi_coll_remote *remote = slot->state->remote;
    struct ampi_wire wire = {.kind = AMPI_WIRE_COLL,
                             .context_id = slot->state->shared->context_id,
                             .seq = seq,
                             .source = remote->own};
    struct ampi_coll_packer out = {.proc = proc};
    int pe_id = ampi_procs_pe_of(remote->leader_rank[proc]);

    if (slot->plan->middle) {
        pack_part(slot, &out, proposed);
        out.at = base_malloc(out.n_bytes, "a collective over processes");
        pack_part(slot, &out, proposed);
    }
    if (pe_id < 0)
        free(out.at);
    else
        ampi_procs_post(remote->proc_id[proc], pe_id, &wire, out.at,
                        out.n_bytes); /* false: a loss is noticed */
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

static void set_up_stand_ins(struct ampi_coll_slot *slot, struct ampi_coll_message *message)
{
    const struct ampi_coll_remote *remote = slot->state->remote;
    int first = remote->first[message->proc];
    int n = remote->first[message->proc + 1] - first;
    struct ampi_coll_unpacker in = {.at = message->bytes + sizeof(struct head), .message = message};
    struct ampi_coll_args *args = ampi_coll_stand_in_alloc(&in, (size_t)n * sizeof *args);

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
        if (slot->plan->unwire)
            slot->plan->unwire(slot, &args[i], &in);
        else
            unwire_whole(&args[i], &in);
        in.at = after.at;
        slot->args[remote->members[first + i]] = &args[i];
    }
}

/* All that this process needs is here. */
static void go_on(struct wire_slot *wire_slot)
{
    struct ampi_coll_slot *slot = wire_slot->slot;
    const struct ampi_coll_remote *remote = slot->state->remote;

    wire_slot->is_ready = false;
    slot->context_id = remote->proc_of[0] == remote->own ? wire_slot->proposed : 0;
    if (slot->plan->middle) {
        for (int i = 0; i < slot->state->n_members; i++)
            if (remote->proc_of[i] != remote->own)
                slot->args[i] = NULL;
        for (struct ampi_coll_message *message = wire_slot->messages; message; message = message->next) {
            if (message->proc == remote->proc_of[0])
                slot->context_id = ((const struct head *)message->bytes)->context_id;
            set_up_stand_ins(slot, message);
        }
    }
    ampi_coll_run_middle(slot, remote->leader_part);
}

static void take_message(struct wire_slot *wire_slot, struct ampi_coll_message *message)
{
    message->next = wire_slot->messages;
    wire_slot->messages = message;
    wire_slot->n_missing--;
}

/* What is missing may never come. */
static BASE_COLD void fail(struct wire_slot *wire_slot)
{
    wire_slot->is_ready = false;
    ampi_coll_fail(wire_slot->slot, wire_slot->slot->state->remote->leader_part);
}

void ampi_coll_wire_lose(struct ampi_coll_state *state, int pe_id)
{
    struct ampi_coll_remote *remote = state->remote;

    for (int i = 0; remote && ult_pe_id(remote->leader) == pe_id && i < AMPI_COLL_SLOTS; i++)
        if (remote->slots[i].is_ready)
            fail(&remote->slots[i]);
}

/* The local members have arrived: looks for parts that have come already. */
static void ready(struct wire_slot *wire_slot)
{
    struct ampi_coll_remote *remote = wire_slot->slot->state->remote;
    struct ampi_coll_message **link = &remote->arrived;

    wire_slot->is_ready = true;
    while (*link) {
        struct ampi_coll_message *message = *link;
        if (message->seq == wire_slot->seq) {
            *link = message->next;
            take_message(wire_slot, message);
        } else {
            link = &message->next;
        }
    }
    if (wire_slot->n_missing == 0)
        go_on(wire_slot);
    else if (ampi_comm_has_lost(wire_slot->slot->state->shared))
        fail(wire_slot);
}

static void handle_ready(struct ult_note *note)
{
    ready(BASE_CONTAINER(note, struct wire_slot, note));
}

void ampi_coll_remote_arrived(struct ampi_coll_slot *slot)
{
    struct ampi_coll_state *state = slot->state;
    struct ampi_coll_remote *remote = state->remote;
    struct wire_slot *wire_slot = &remote->slots[slot - state->slots];
    uint32_t seq = slot->last->seq;
    bool few[64];
    bool *sends_to =
        remote->n_procs <= 64 ? few : base_malloc((size_t)remote->n_procs, "a collective over processes");

    wire_slot->seq = seq;
    wire_slot->n_missing = plan_exchange(slot, sends_to);
    wire_slot->proposed = slot->plan->makes_comm ? ampi_contexts_propose() : 0;
    for (int i = 1; i < remote->n_procs;
         i++) { /* begin with the next one, so that not all send to the same at once */
        int proc = (remote->own + i) % remote->n_procs;
        if (sends_to[proc])
            send_part(slot, seq, proc, wire_slot->proposed);
    }
    if (sends_to != few)
        free(sends_to);
    if (remote->leader == ult_self()->pe) {
        ready(wire_slot);
    } else {
        wire_slot->note.handle = handle_ready;
        ult_post_note(remote->leader, &wire_slot->note);
    }
}

static void free_message(struct ampi_coll_message *message)
{
    while (message->memory) {
        void *memory = message->memory;
        message->memory = *(void **)memory;
        free(memory);
    }
    free(message->bytes);
    free(message);
}

void ampi_coll_remote_release(struct ampi_coll_slot *slot)
{
    struct wire_slot *wire_slot = &slot->state->remote->slots[slot - slot->state->slots];

    while (wire_slot->messages) {
        struct ampi_coll_message *message = wire_slot->messages;
        wire_slot->messages = message->next;
        free_message(message);
    }
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

void ampi_coll_wire_handle(const struct ampi_wire *wire, void *bytes, size_t n_bytes)
{
    struct ampi_comm_shared *shared;
    struct ampi_coll_remote *remote;
    struct ampi_coll_message *message;
    struct wire_slot *wire_slot;

    shared = ampi_contexts_find(ult_pe_id(ult_self()->pe), wire->context_id);
    if (BASE_UNLIKELY(!shared)) {
        make_orphan(wire, bytes, n_bytes);
        return;
    }
    remote = shared->coll->remote;
    message = base_calloc(1, sizeof *message, "a collective over processes");
    message->seq = wire->seq;
    message->proc = wire->source;
    message->bytes = bytes;
    message->n_bytes = n_bytes;
    wire_slot = &remote->slots[wire->seq % AMPI_COLL_SLOTS];
    if (!wire_slot->is_ready || wire_slot->seq != wire->seq) {
        message->next = remote->arrived;
        remote->arrived = message;
        return;
    }
    take_message(wire_slot, message);
    if (wire_slot->n_missing == 0)
        go_on(wire_slot);
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

/* ---- The state of a communicator ---- */

/* The process of each member, and the processes in ascending order. */
static int find_procs(const struct ampi_comm_shared *shared, int n_members, int *proc_of_member, int *procs)
{
    int n_procs = 0;
    unsigned char *is_there = base_calloc((size_t)ampi_job.n_procs, 1, "a communicator over processes");

    for (int i = 0; i < n_members; i++) {
        int side = i >= shared->side[0].n_ranks;
        int rank = i - (side ? shared->side[0].n_ranks : 0);
        proc_of_member[i] = ampi_procs_of_rank(ampi_group_world_rank(shared->side[side].layout->group, rank));
        is_there[proc_of_member[i]] = 1;
    }
    for (int proc = 0; proc < ampi_job.n_procs; proc++)
        if (is_there[proc])
            procs[n_procs++] = proc;
    free(is_there);
    return n_procs;
}

static void *ints(int n)
{
    return base_calloc((size_t)n, sizeof(int), "a communicator over processes");
}

static int world_rank_of(const struct ampi_comm_shared *shared, int member)
{
    int side = member >= shared->side[0].n_ranks;

    return ampi_group_world_rank(shared->side[side].layout->group,
                                 member - (side ? shared->side[0].n_ranks : 0));
}

struct ampi_coll_remote *ampi_coll_remote_create(struct ampi_coll_state *state)
{
    const struct ampi_comm_shared *shared = state->shared;
    const struct ampi_layout *layouts[2] = {shared->side[0].layout, shared->side[1].layout};
    struct ampi_coll_remote *remote;
    int *index_of;

    if (layouts[0]->n_local == shared->side[0].n_ranks &&
        (!layouts[1] || layouts[1]->n_local == shared->side[1].n_ranks))
        return NULL;
    remote = base_calloc(1, sizeof *remote, "a communicator over processes");
    remote->proc_of = ints(state->n_members);
    remote->proc_id = ints(ampi_job.n_procs);
    remote->n_procs = find_procs(shared, state->n_members, remote->proc_of, remote->proc_id);
    remote->leader_rank = ints(remote->n_procs);
    remote->first = ints(remote->n_procs + 2);
    remote->members = ints(state->n_members);
    remote->sides = base_calloc((size_t)remote->n_procs, 1, "a communicator over processes");
    index_of = ints(ampi_job.n_procs);
    for (int i = 0; i < remote->n_procs; i++) {
        index_of[remote->proc_id[i]] = i;
        if (remote->proc_id[i] == ampi_job.proc_id)
            remote->own = i;
    }
    for (int i = 0; i < state->n_members; i++) {
        remote->proc_of[i] = index_of[remote->proc_of[i]];
        remote->first[remote->proc_of[i] + 2]++;
        remote->sides[remote->proc_of[i]] |= (unsigned char)(1 << (i >= shared->side[0].n_ranks));
    }
    for (int i = 0; i < remote->n_procs; i++)
        remote->first[i + 1] += remote->first[i];
    for (int i = 0; i < state->n_members; i++)
        remote->members[remote->first[remote->proc_of[i] + 1]++] = i;
    for (int i = 0; i < remote->n_procs; i++)
        remote->leader_rank[i] = world_rank_of(shared, remote->members[remote->first[i]]);
    free(index_of);
    remote->leader = ult_pe_get(ampi_job_pe_of(remote->leader_rank[remote->own]));
    remote->leader_part = state->part_of_pe[ult_pe_id(remote->leader)];
    for (int i = 0; i < AMPI_COLL_SLOTS; i++)
        remote->slots[i].slot = &state->slots[i];
    return remote;
}

void ampi_coll_remote_destroy(struct ampi_coll_remote *remote)
{
    if (!remote)
        return;
    while (remote->arrived) {
        struct ampi_coll_message *next = remote->arrived->next;
        free_message(remote->arrived);
        remote->arrived = next;
    }
    free(remote->proc_of);
    free(remote->proc_id);
    free(remote->leader_rank);
    free(remote->first);
    free(remote->members);
    free(remote->sides);
    free(remote);
}
