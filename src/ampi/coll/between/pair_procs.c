/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pair_procs.c: small collectives of two members in two processes. See pair_procs.h.
 */
#include "ampi/coll/between/pair_procs.h"

#include "ampi/coll/between/between.h"
#include "ampi/coll/between/coll_nccl.h"
#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/between/reduction.h"
#include "ampi/coll/engine/coll.h"
#include "ampi/coll/engine/fold.h"
#include "ampi/coll/engine/usage.h"
#include "ampi/procs/procs.h"
#include "base/log.h"

/* ---- Which operations ---- */

/* True if one member sends and the other one receives. */
static inline bool is_one_way(const struct ampi_coll_args *args)
{
    const uint32_t flows = 1u << AMPI_COLL_FLOW_BCAST | 1u << AMPI_COLL_FLOW_SCATTER |
                           1u << AMPI_COLL_FLOW_GATHER | 1u << AMPI_COLL_FLOW_REDUCE;

    return args->plan->pair && (flows >> args->plan->flow & 1);
}

static inline bool is_source(const struct ampi_coll_args *args)
{
    bool is_to_root = args->plan->flow == AMPI_COLL_FLOW_GATHER || args->plan->flow == AMPI_COLL_FLOW_REDUCE;

    return ampi_coll_is_root(args) != is_to_root;
}

/* The size of the data that each member sends, equal at both by the rules of MPI; 0: not known to be equal, or no data. */
static inline size_t matching_bytes(const struct ampi_coll_args *args)
{
    const struct ampi_coll_buf *buf = args->op ? &args->send : &args->recv;

    if (buf->counts || buf->is_w || !buf->type || (args->op && !args->op->is_predefined) ||
        buf->count > AMPI_PAIR_BYTES)
        return 0;
    return (size_t)(buf->count * buf->type->size_bytes);
}

/* True if a member that does not send data first waits for the other's item. In symmetric operations both do, by arguments
 * that are equal at both. So does the root of a reduction, because a large one may begin with its message. */
static inline bool is_eligible(const struct ampi_coll_args *args)
{
    if (is_one_way(args) && (is_source(args) || args->plan->flow != AMPI_COLL_FLOW_REDUCE))
        return !is_source(args);
    return args->plan->pair ? matching_bytes(args) - 1 < AMPI_PAIR_BYTES : args->is_paired; /* or a barrier */
}

/* The root of a reduction knows from an item, which is small, that the amounts of data differ if its own is not: complete
 * reports it. */
static inline bool has_other_size(const struct ampi_coll_args *args)
{
    return is_one_way(args) && !is_source(args) && args->op && args->op->is_predefined;
}

static inline bool is_packed(const struct ampi_coll_args *args)
{
    return args->is_paired && args->pack_bytes <= AMPI_PAIR_BYTES;
}

static inline struct ampi_pair_item item_of(const struct ampi_coll_args *args)
{
    struct ampi_pair_item item = {.what = (uint8_t)(args->plan->flow << 1 | (args->plan->pair != NULL))};

    if (is_one_way(args))
        item.root = args->root != 0;
    if (BASE_UNLIKELY(!is_packed(args)))
        item.to_slot = !is_one_way(args);
    else if (!is_one_way(args) || is_source(args))
        item.n_bytes = (uint8_t)args->pack_bytes;
    return item;
}

static inline bool can_complete(const struct ampi_coll_args *args, const struct ampi_pair_item *others)
{
    struct ampi_pair_item own = item_of(args);

    return own.what == others->what && own.root == others->root && !own.to_slot && !others->to_slot &&
           (own.n_bytes == others->n_bytes || is_one_way(args));
}

/* ---- Wrong programs ---- */

static BASE_COLD void end_job(const struct ampi_coll_state *state, const struct ampi_coll_plan *plan)
{
    ampi_report(
        ampi_coll_handle(state->shared, state->part_members[0])->owner,
        "ranks of process %d call another collective on the communicator, or pass another root or "
        "size: here it is %s: all ranks must call the same ones in the same order" AMPI_COLL_USAGE_HINT,
        state->remote->proc_id[!state->remote->own], plan->name);
    ampi_coll_end_job(state);
}

/* Both members must do the same. */
static inline void check(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                         const struct ampi_pair_item *others)
{
    struct ampi_pair_item own = item_of(args);

    if (BASE_UNLIKELY((own.what != others->what || own.root != others->root) && !others->to_slot))
        end_job(slot->state, args->plan);
}

/* ---- Sending ---- */

static void sent(void *arg, int result)
{
    (void)arg;
    (void)result;
}

/* Without data beside the header, so that it may leave later. Answers the operation that is owed an answer, too. */
static inline void send(const struct ampi_coll_state *state, uint32_t seq, struct ampi_pair_item item,
                        const void *bytes)
{
    struct ampi_coll_remote *remote = state->remote;
    struct ampi_am_header am = {.kind = AMPI_AM_PAIR, .context_id = state->shared->context_id, .seq = seq};
    int other = !remote->own;

    if (remote->pair.is_owed && seq - remote->pair.owed - 1 < UINT8_MAX) {
        item.answers = (uint8_t)(seq - remote->pair.owed);
        remote->pair.is_owed = false;
    }
    if (BASE_UNLIKELY(remote->leader_pe[other] < 0))
        remote->leader_pe[other] = ampi_procs_pe_of(remote->leader_rank[other]);
    if (BASE_UNLIKELY(remote->leader_pe[other] < 0)) /* the process has failed, which is handled elsewhere */
        return;
    memcpy(&am.tag, &item, sizeof am.tag);
    if (item.n_bytes)
        ampi_coll_copy_small((unsigned char *)&am + AMPI_PAIR_DATA_AT, bytes, item.n_bytes);
    ampi_procs_send(remote->proc_id[other], remote->leader_pe[other], &am, NULL, 0, MACHINE_HOST, sent, NULL);
}

static inline void send_own(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args)
{
    send(slot->state, args->seq, item_of(args), args->pack_from);
}

/* Answers the operation that is owed an answer, because no item for the other member may follow soon. */
static inline void settle(const struct ampi_coll_state *state)
{
    struct ampi_pair *pair = &state->remote->pair;

    if (!pair->is_owed)
        return;
    pair->is_owed = false;
    send(state, pair->owed, pair->owed_item, &pair->owed); /* no bytes of it */
}

void ampi_pair_settle(struct ampi_comm *comm)
{
    if (comm->shared->coll->remote)
        settle(comm->shared->coll);
}

/* The sink of an operation has the other's item. */
static inline void answer(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                          const struct ampi_pair_item *others)
{
    struct ampi_pair *pair = &slot->state->remote->pair;

    if (pair->is_owed || others->must_answer || args->comm->is_freed) {
        send_own(slot, args);
        return;
    }
    pair->is_owed = true;
    pair->owed = args->seq;
    pair->owed_item = item_of(args);
}

/* The other member waits in the pair for an operation that is in the slot here. */
static BASE_COLD void refuse(const struct ampi_coll_state *state, uint32_t seq)
{
    send(state, seq, (struct ampi_pair_item){.to_slot = true}, &seq); /* no bytes of it */
}

/* The root of a reduction is in the slot, with another amount of data than the other member, whose item has come: as if that
 * were a message of the exchange, which reports it. False: the exchange awaits none. */
static BASE_COLD bool give_to_exchange(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args)
{
    struct ampi_coll_remote *remote = slot->state->remote;
    const struct ampi_exchange *x = &slot->between->x;
    struct ampi_exchange_message *message;

    if (!slot->between->is_active || x->algorithm != AMPI_BETWEEN_REDUCE_BINOMIAL || x->n_awaited == 0)
        return false;
    send_own(slot, args); /* the answer */
    message = base_malloc(sizeof *message, "a collective between processes");
    *message = (struct ampi_exchange_message){.seq = args->seq,
                                              .tag = x->tag == AMPI_EXCHANGE_ANY_TAG ? 0 : x->tag,
                                              .algorithm = x->algorithm,
                                              .plan_hash = x->plan_hash,
                                              .proc = !remote->own,
                                              .cookie = AMPI_REDUCTION_MISMATCH};
    ampi_exchange_handle(remote, message);
    return true;
}

/* ---- The end of an operation ---- */

static void end(struct ampi_coll_pe *part)
{
    ampi_coll_end_pair(part, part->paired);
}

/* Where the root of a reduction packs its own contribution; behind it is room for the result. */
static inline struct ampi_coll_block packed_at_root(const struct ampi_coll_pe *part)
{
    const struct ampi_coll_args *args = part->paired;

    return ampi_coll_bytes(part->slot->packed, (size_t)(args->send.count * args->send.type->size_bytes));
}

static void fold_packed(struct ampi_coll_pe *part)
{
    struct ampi_coll_args *args = part->paired;
    struct ampi_coll_block own = packed_at_root(part);
    size_t n_bytes = ampi_coll_block_bytes(&own);
    unsigned char *result = part->slot->packed + AMPI_PAIR_BYTES;

    ampi_coll_stage_begin(part);
    args->pack_from = own.buf;
    ampi_coll_fold_two(args, part->slot->small, n_bytes, result);
    ampi_coll_move(args, ampi_coll_whole(&args->recv), ampi_coll_bytes(result, n_bytes));
    ampi_coll_stage_end(part, end);
}

/* The contribution of a reduction's root has gaps, or is in GPU memory, unlike the other's. */
static BASE_COLD void complete_unpacked(struct ampi_coll_pe *part, const unsigned char *bytes, size_t n_bytes)
{
    struct ampi_coll_args *args = part->paired;
    struct ampi_coll_block own = packed_at_root(part);

    if (args->pack_bytes || ampi_coll_block_bytes(&own) != n_bytes) {
        args->error = MPI_ERR_COUNT;
        end(part);
        return;
    }
    memcpy(part->slot->small, bytes, n_bytes);
    ampi_coll_stage_begin(part);
    ampi_coll_move(args, own,
                   (struct ampi_coll_block){ampi_coll_input(args), args->send.count, args->send.type,
                                            ampi_coll_input_known(args)});
    ampi_coll_stage_end(part, fold_packed);
}

static inline void complete(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                            const unsigned char *bytes, size_t n_bytes)
{
    struct ampi_coll_pe *part = &slot->parts[0];

    ampi_coll_nccl_pass_number(slot->state->remote, args->seq);
    part->paired = args;
    if (BASE_UNLIKELY(args->plan->flow == AMPI_COLL_FLOW_REDUCE && !is_source(args) &&
                      args->pack_bytes != n_bytes)) {
        complete_unpacked(part, bytes, n_bytes);
        return;
    }
    ampi_coll_stage_begin(part);
    if (args->plan->pair)
        args->plan->pair(args, bytes, n_bytes);
    ampi_coll_stage_end(part, end);
}

/* The other member's item is here. */
static inline void decide(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                          const struct ampi_pair_item *others, const unsigned char *bytes)
{
    check(slot, args, others);
    if (is_one_way(args) && !is_source(args))
        answer(slot, args, others);
    if (BASE_LIKELY(can_complete(args, others)))
        complete(slot, args, bytes, others->n_bytes);
    else
        ampi_coll_arrive_in_slot(slot, args);
}

/* ---- Arrival ---- */

/* True if a message of the operation's exchange has come: the other member is in the slot. */
static bool has_exchange_begun(const struct ampi_coll_remote *remote, uint32_t seq)
{
    const struct ampi_exchange_message *message;

    if (BASE_LIKELY(remote->table.n_entries == 0))
        return false;
    message = ampi_exchange_bucket(&remote->table, seq, 0)->arrived;
    while (message && (message->seq != seq || message->series))
        message = message->next;
    return message != NULL;
}

/* Takes the other member's item if it has come. */
static inline bool take_early(struct ampi_pair *pair, uint32_t seq, struct ampi_pair_early *early_out)
{
    for (int i = 0; i < pair->n_early; i++)
        if (pair->early[i].seq == seq) {
            *early_out = pair->early[i];
            pair->early[i] = pair->early[--pair->n_early];
            return true;
        }
    return false;
}

static void arrive_as_source(struct ampi_coll_slot *slot, struct ampi_coll_args *args)
{
    struct ampi_pair *pair = &slot->state->remote->pair;
    struct ampi_pair_item item = item_of(args);

    item.must_answer = pair->n_left == AMPI_PAIR_LEFT_MAX;
    send(slot->state, args->seq, item, args->pack_from);
    if (item.must_answer) {
        pair->waiting[args->seq % AMPI_COLL_SLOTS] = args;
        return;
    }
    if (pair->n_left == 0)
        ampi_comm_shared_ref(slot->state->shared);
    pair->left[pair->n_left++] = (struct ampi_pair_left){args->seq, item, args->plan};
    complete(slot, args, NULL, 0);
}

bool ampi_pair_arrive(struct ampi_coll_slot *slot, struct ampi_coll_args *args)
{
    struct ampi_coll_remote *remote = slot->state->remote;
    bool is_symmetric = !is_one_way(args);
    struct ampi_pair_early early;
    bool has_early;

    slot->args[args->comm->rank] = args; /* for is_in_slot */
    if (!is_symmetric && is_source(args) && is_packed(args)) {
        arrive_as_source(slot, args);
        return true;
    }
    has_early = take_early(&remote->pair, args->seq, &early);
    if (!is_eligible(args) && !(has_early && has_other_size(args))) {
        settle(slot->state);
        if (BASE_UNLIKELY(has_early)) {
            check(slot, args, &early.item);
            refuse(slot->state, args->seq);
        }
        return false;
    }
    if (is_symmetric)
        send_own(slot, args);
    if (has_early) {
        decide(slot, args, &early.item, early.bytes);
    } else if (BASE_UNLIKELY(has_exchange_begun(remote, args->seq))) {
        settle(slot->state);
        return false;
    } else {
        remote->pair.waiting[args->seq % AMPI_COLL_SLOTS] = args;
    }
    return true;
}

/* ---- Received items, on the PE of the member ---- */

/* True if the member has started the operation, and it is in the slot. */
static bool is_in_slot(const struct ampi_comm *comm, const struct ampi_coll_slot *slot, uint32_t seq)
{
    return comm->coll_pending >> seq % AMPI_COLL_SLOTS & 1 && slot->args[comm->rank]->seq == seq;
}

static void add_early(struct ampi_pair *pair, uint32_t seq, const struct ampi_pair_item *item,
                      const unsigned char *bytes)
{
    struct ampi_pair_early *early = &pair->early[pair->n_early];

    BASE_ASSERT(pair->n_early < AMPI_PAIR_EARLY_MAX);
    early->seq = seq;
    early->item = *item;
    memcpy(early->bytes, bytes, AMPI_PAIR_BYTES);
    pair->n_early++;
}

/* True if an operation that this member has left is answered, by this item or a later one (NULL). */
static inline bool take_answer(const struct ampi_coll_state *state, uint32_t seq,
                               const struct ampi_pair_item *item)
{
    struct ampi_pair *pair = &state->remote->pair;

    for (int i = 0; i < pair->n_left; i++)
        if (pair->left[i].seq == seq) {
            if (BASE_UNLIKELY(
                    item && (item->what != pair->left[i].item.what || item->root != pair->left[i].item.root)))
                end_job(state, pair->left[i].plan);
            pair->left[i] = pair->left[--pair->n_left];
            return true;
        }
    return false;
}

void ampi_pair_handle(struct ampi_comm_shared *shared, const struct ampi_am_header *am)
{
    struct ampi_coll_state *state = shared->coll;
    struct ampi_pair *pair = &state->remote->pair;
    struct ampi_coll_slot *slot = &state->slots[am->seq % AMPI_COLL_SLOTS];
    struct ampi_coll_args *args = pair->waiting[am->seq % AMPI_COLL_SLOTS];
    const struct ampi_comm *member = ampi_coll_handle(shared, state->part_members[0]);
    const unsigned char *bytes = (const unsigned char *)am + AMPI_PAIR_DATA_AT;
    struct ampi_pair_item item;
    bool is_last; /* of those that this member has left */

    memcpy(&item, &am->tag, sizeof item);
    is_last = item.answers && take_answer(state, am->seq - item.answers, NULL) && pair->n_left == 0;
    if (BASE_LIKELY(args && args->seq == am->seq)) {
        pair->waiting[am->seq % AMPI_COLL_SLOTS] = NULL;
        decide(slot, args, &item, bytes);
    } else if ((int32_t)(am->seq - member->coll_seq) >= 0) {
        add_early(pair, am->seq, &item, bytes);
    } else if (take_answer(state, am->seq, &item)) {
        is_last |= pair->n_left == 0;
    } else if (!item.to_slot && is_in_slot(member, slot, am->seq)) {
        args = slot->args[member->rank];
        check(slot, args, &item);
        if (!has_other_size(args) || !give_to_exchange(slot, args))
            refuse(state, am->seq);
    }
    if (is_last) /* the communicator may be destroyed */
        ampi_comm_shared_unref(shared);
}

void ampi_pair_note_exchange(struct ampi_coll_state *state, uint32_t seq)
{
    struct ampi_coll_args **waiting = &state->remote->pair.waiting[seq % AMPI_COLL_SLOTS], *args = *waiting;

    if (!args || args->seq != seq)
        return;
    *waiting = NULL;
    settle(state);
    ampi_coll_arrive_in_slot(&state->slots[seq % AMPI_COLL_SLOTS], args);
}

void ampi_pair_fail(struct ampi_coll_state *state)
{
    struct ampi_pair *pair = &state->remote->pair;

    for (int i = 0; i < AMPI_COLL_SLOTS; i++) {
        struct ampi_coll_args *args = pair->waiting[i];
        if (!args)
            continue;
        pair->waiting[i] = NULL;
        args->error = MPI_ERR_PROC_ABORTED;
        ampi_coll_end_pair(&state->slots[i].parts[0], args);
    }
    if (pair->n_left > 0)
        ampi_comm_shared_unref(state->shared);
    pair->n_left = 0;
    pair->is_owed = false;
}
