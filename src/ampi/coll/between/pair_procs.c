/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pair_procs.c: small collectives of two members in two processes. See pair_procs.h.
 */
#include "ampi/coll/between/pair_procs.h"

#include "ampi/coll/between/between.h"
#include "ampi/coll/between/coll_nccl.h"
#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/engine/coll.h"
#include "ampi/comm/contexts.h"
#include "ampi/procs/procs.h"

static inline struct ampi_pair_op *op_of(struct ampi_coll_remote *remote, uint32_t seq)
{
    return &remote->pairs[seq % AMPI_COLL_SLOTS];
}

/* ---- Which operations ---- */

/* The size of the data that each member sends, equal at both by the rules of MPI; 0: not known to be equal, or no data. */
static inline size_t matching_bytes(const struct ampi_coll_args *args)
{
    const struct ampi_coll_buf *buf =
        args->plan->flow == AMPI_COLL_FLOW_ALLREDUCE ? &args->send : &args->recv;

    if (buf->counts || buf->is_w || !buf->type || (args->op && !args->op->is_predefined) ||
        buf->count > AMPI_PAIR_BYTES)
        return 0;
    return (size_t)(buf->count * buf->type->size_bytes);
}

/* True if both members send an item; by arguments that are equal at both. */
static inline bool is_eligible(const struct ampi_coll_args *args)
{
    return args->plan->pair ? matching_bytes(args) - 1 < AMPI_PAIR_BYTES : args->is_paired; /* or a barrier */
}

static inline bool is_bcast(const struct ampi_coll_args *args)
{
    return args->plan->flow == AMPI_COLL_FLOW_BCAST;
}

static inline struct ampi_pair_item item_of(const struct ampi_coll_args *args)
{
    struct ampi_pair_item item = {.what = (uint8_t)(args->plan->flow << 1 | (args->plan->pair != NULL)),
                                  .root = is_bcast(args) ? (uint8_t)args->root : 0};

    if (BASE_UNLIKELY(!args->is_paired || args->pack_bytes > AMPI_PAIR_BYTES))
        item.to_slot = true;
    else
        item.n_bytes = (uint8_t)args->pack_bytes;
    return item;
}

static inline bool can_complete(const struct ampi_coll_args *args, const struct ampi_pair_item *own,
                                const struct ampi_pair_item *others)
{
    return own->what == others->what && own->root == others->root && !own->to_slot && !others->to_slot &&
           (own->n_bytes == others->n_bytes || is_bcast(args));
}

/* ---- Sending ---- */

static void sent(void *arg, int result)
{
    (void)arg;
    (void)result;
}

/* Without data beside the header, so that it may leave later. */
static inline void send(const struct ampi_coll_state *state, uint32_t seq, const struct ampi_pair_item *item,
                        const void *bytes)
{
    struct ampi_coll_remote *remote = state->remote;
    struct ampi_am_header am = {.kind = AMPI_AM_PAIR, .context_id = state->shared->context_id, .seq = seq};
    int other = !remote->own;

    if (BASE_UNLIKELY(remote->leader_pe[other] < 0))
        remote->leader_pe[other] = ampi_procs_pe_of(remote->leader_rank[other]);
    if (BASE_UNLIKELY(remote->leader_pe[other] < 0)) /* the process has failed, which is handled elsewhere */
        return;
    memcpy(&am.tag, item, sizeof am.tag);
    if (item->n_bytes)
        ampi_coll_copy_small((unsigned char *)&am + AMPI_PAIR_DATA_AT, bytes, item->n_bytes);
    ampi_procs_send(remote->proc_id[other], remote->leader_pe[other], &am, NULL, 0, MACHINE_HOST, sent, NULL);
}

/* The other member waits in the pair for an operation that is in the slot here. */
static BASE_COLD void refuse(const struct ampi_coll_state *state, uint32_t seq)
{
    struct ampi_pair_item item = {.to_slot = true};

    send(state, seq, &item, &item); /* no bytes of it */
}

/* ---- The end of an operation ---- */

static void end(struct ampi_coll_pe *part)
{
    ampi_coll_end_pair(part, part->paired);
}

static inline void complete(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                            const struct ampi_pair_item *others, const unsigned char *bytes)
{
    struct ampi_coll_pe *part = &slot->parts[0];

    ampi_coll_nccl_pass_number(slot->state->remote, args->seq);
    part->paired = args;
    ampi_coll_stage_begin(part);
    if (args->plan->pair)
        args->plan->pair(args, bytes, others->n_bytes);
    ampi_coll_stage_end(part, end);
}

static inline void decide(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                          const struct ampi_pair_item *others, const unsigned char *bytes)
{
    struct ampi_pair_item own = item_of(args);

    if (BASE_LIKELY(can_complete(args, &own, others)))
        complete(slot, args, others, bytes);
    else
        ampi_coll_arrive_in_slot(slot, args);
}

/* ---- Arrival ---- */

/* True if a message of the operation's exchange has come: the other member is in the slot, because its arguments do not
 * match. */
static BASE_COLD bool has_exchange_begun(const struct ampi_coll_remote *remote, uint32_t seq)
{
    const struct ampi_exchange_message *message = ampi_exchange_bucket(&remote->table, seq, 0)->arrived;

    while (message && (message->seq != seq || message->series))
        message = message->next;
    return message != NULL;
}

bool ampi_pair_arrive(struct ampi_coll_slot *slot, struct ampi_coll_args *args)
{
    struct ampi_coll_remote *remote = slot->state->remote;
    struct ampi_pair_op *op = op_of(remote, args->seq);
    bool has_early = op->has_early && op->early_seq == args->seq;
    struct ampi_pair_item own;

    if (!is_eligible(args)) {
        if (BASE_UNLIKELY(has_early)) {
            op->has_early = false;
            refuse(slot->state, args->seq);
        }
        return false;
    }
    slot->args[args->comm->rank] = args; /* for is_in_slot */
    own = item_of(args);
    send(slot->state, args->seq, &own, args->pack_from);
    if (has_early) {
        op->has_early = false;
        decide(slot, args, &op->early, op->early_bytes);
    } else if (BASE_UNLIKELY(remote->table.n_entries > 0) && has_exchange_begun(remote, args->seq)) {
        return false;
    } else {
        op->waiting = args;
    }
    return true;
}

/* ---- Received items, on the PE of the member ---- */

/* True if the member has started the operation, and it is in the slot. */
static bool is_in_slot(const struct ampi_comm *comm, const struct ampi_coll_slot *slot, uint32_t seq)
{
    return comm->coll_pending >> seq % AMPI_COLL_SLOTS & 1 && slot->args[comm->rank]->seq == seq;
}

static struct ampi_comm *member_of(const struct ampi_coll_state *state)
{
    return ampi_coll_handle(state->shared, state->part_members[0]);
}

void ampi_pair_handle(struct ampi_comm_shared *shared, const struct ampi_am_header *am)
{
    struct ampi_coll_state *state = shared->coll;
    struct ampi_pair_op *op = op_of(state->remote, am->seq);
    struct ampi_coll_slot *slot = &state->slots[am->seq % AMPI_COLL_SLOTS];
    const unsigned char *bytes = (const unsigned char *)am + AMPI_PAIR_DATA_AT;
    struct ampi_coll_args *args = op->waiting;
    struct ampi_pair_item item;

    memcpy(&item, &am->tag, sizeof item);
    if (BASE_LIKELY(args && args->seq == am->seq)) {
        op->waiting = NULL;
        decide(slot, args, &item, bytes);
    } else if ((int32_t)(am->seq - member_of(state)->coll_seq) >= 0) {
        op->has_early = true;
        op->early_seq = am->seq;
        op->early = item;
        memcpy(op->early_bytes, bytes, AMPI_PAIR_BYTES);
    } else if (!item.to_slot && is_in_slot(member_of(state), slot, am->seq)) {
        refuse(state, am->seq);
    }
}

void ampi_pair_note_exchange(struct ampi_coll_state *state, uint32_t seq)
{
    struct ampi_pair_op *op = op_of(state->remote, seq);
    struct ampi_coll_args *args = op->waiting;

    if (!args || args->seq != seq)
        return;
    op->waiting = NULL;
    ampi_coll_arrive_in_slot(&state->slots[seq % AMPI_COLL_SLOTS], args);
}

void ampi_pair_fail(struct ampi_coll_state *state)
{
    for (int i = 0; i < AMPI_COLL_SLOTS; i++) {
        struct ampi_coll_args *args = state->remote->pairs[i].waiting;
        if (!args)
            continue;
        state->remote->pairs[i].waiting = NULL;
        args->error = MPI_ERR_PROC_ABORTED;
        ampi_coll_end_pair(&state->slots[i].parts[0], args);
    }
}
