/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pair.c: small collectives of two members. See pair.h.
 */
#include "ampi/coll/engine/pair.h"

#include "ampi/coll/engine/usage.h"

/* The content of an item. */
struct pair_item {
    struct ampi_coll_pe *part; /* the receiver's */
    struct ampi_coll_pair_data data;
};
_Static_assert(sizeof(struct pair_item) <= ULT_ITEM_BYTES, "it is sent in an inbox item");

static void handle_item(const struct ult_item *item);

/* The number of the last operation at which the other member is known to have arrived. */
static inline uint32_t *known_of(const struct ampi_coll_pe *part)
{
    return &part->slot->state->slots[0].parts[part->index].pair_known;
}

/* True if the root sends and the other member receives. */
static inline bool is_from_root(const struct ampi_coll_args *args)
{
    return args->plan->flow == AMPI_COLL_FLOW_BCAST || args->plan->flow == AMPI_COLL_FLOW_SCATTER;
}

static inline void send(const struct ampi_coll_pe *part, enum ampi_coll_pair_kind kind)
{
    const struct ampi_coll_args *args = part->paired;
    struct ult_item item = {.handle = handle_item};
    struct pair_item *pair = (struct pair_item *)item.body;

    pair->part = &part->slot->parts[!part->index];
    pair->data.must_agree = args->must_agree;
    pair->data.seq = args->seq;
    pair->data.kind = (uint8_t)kind;
    pair->data.n_bytes = 0;
    if (args->is_paired && args->pack_bytes) {
        pair->data.n_bytes = (uint8_t)args->pack_bytes;
        ampi_coll_copy_small(pair->data.bytes, args->pack_from, args->pack_bytes);
    }
    ult_post_item(ult_pe_get(part->slot->state->part_pe[!part->index]), &item);
}

/* True if the operation can complete with the other member's item. Both members come to the same result. */
static inline bool can_complete(const struct ampi_coll_args *args, const struct ampi_coll_pair_data *data)
{
    return data->must_agree == args->must_agree && data->kind != AMPI_COLL_PAIR_REFUSAL &&
           (is_from_root(args) || data->n_bytes == args->pack_bytes);
}

static void end(struct ampi_coll_pe *part)
{
    ampi_coll_end_pair(part, part->paired);
}

static inline void complete(struct ampi_coll_pe *part, const struct ampi_coll_pair_data *data)
{
    struct ampi_coll_args *args = part->paired;

    ampi_coll_stage_begin(part);
    if (args->plan->pair)
        args->plan->pair(args, data->bytes, data->n_bytes);
    ampi_coll_stage_end(part, end);
}

/* The plan in must_agree. */
static const struct ampi_coll_plan *plan_of(const struct ampi_coll_pair_data *data)
{
    uint64_t mask = ((uint64_t)1 << AMPI_COLL_ROOT_SHIFT) - 1;

    return (const struct ampi_coll_plan *)(uintptr_t)(data->must_agree & mask);
}

/* A root that has left does not report that this member's operation is another one. */
static inline void check_plan(const struct ampi_coll_args *args, const struct ampi_coll_pair_data *data)
{
    if (data->kind == AMPI_COLL_PAIR_LEFT && plan_of(data) != args->plan)
        ampi_coll_report_mismatch(args, plan_of(data), NULL);
}

/* The other member's item is of another operation, or refuses the pair. The other one may have left already. */
static BASE_COLD void continue_in_slot(struct ampi_coll_pe *part, const struct ampi_coll_pair_data *data)
{
    check_plan(part->paired, data);
    part->is_in_slot = true;
    ampi_coll_arrive_in_slot(part->slot, part->paired);
}

bool ampi_coll_pair_try(struct ampi_coll_pe *part, struct ampi_coll_args *args)
{
    bool has_early = part->has_early;
    bool is_root = is_from_root(args) && ampi_coll_is_root(args);
    bool may_leave = is_root && !has_early && args->seq - *known_of(part) < AMPI_COLL_SLOTS / 2;
    bool is_in_slot = !args->is_paired && (is_root || !is_from_root(args));

    /* Stores that change nothing would still take the line from the other PE if its prefetcher has read it. */
    if (part->paired != args || has_early || part->is_in_slot != is_in_slot) {
        part->paired = args;
        part->has_early = false;
        part->is_in_slot = is_in_slot;
    }
    if (is_in_slot) {
        check_plan(args, &part->pair);
        send(part, AMPI_COLL_PAIR_REFUSAL);
        return false;
    }
    send(part, may_leave ? AMPI_COLL_PAIR_LEFT : AMPI_COLL_PAIR_DATA);
    if (may_leave) { /* for check_left */
        part->pair.must_agree = args->must_agree;
        part->pair.seq = args->seq;
    } else if (!has_early) {
        return true;
    }
    if (may_leave || can_complete(args, &part->pair))
        complete(part, &part->pair);
    else
        continue_in_slot(part, &part->pair);
    return true;
}

/* The member has arrived in the slot, and the root has sent less data than this member receives, and has left. */
static BASE_COLD void take_short(struct ampi_coll_pe *part, const struct ampi_coll_pair_data *data)
{
    ampi_coll_withdraw(part->slot);
    send(part, AMPI_COLL_PAIR_DATA);
    complete(part, data);
}

static BASE_COLD void take_in_slot(struct ampi_coll_pe *part, const struct ampi_coll_pair_data *data)
{
    if (data->kind == AMPI_COLL_PAIR_LEFT && data->must_agree == part->paired->must_agree) {
        take_short(part, data);
        return;
    }
    check_plan(part->paired, data);
    send(part, AMPI_COLL_PAIR_REFUSAL); /* a root that has left reports that this member's is another one */
}

/* This member was the root and has left; the other one's item came later. */
static BASE_COLD void check_left(struct ampi_coll_pe *part, struct ampi_comm *comm,
                                 const struct ampi_coll_pair_data *data)
{
    const struct ampi_coll_plan *plan = plan_of(&part->pair);
    struct ampi_coll_args own = {.plan = plan, .comm = comm, .root = comm->rank};
    struct ampi_coll_args other = {
        .plan = plan, .comm = &comm->local->handles[!comm->rank], .root = !comm->rank};

    if (plan_of(data) == plan) /* else the other one reports it */
        ampi_coll_usage_check_roots(&own, &other);
}

/* The other member has sent something. If this one has not started the operation, the item is kept. If it has completed it, the
 * item has served its purpose. */
static inline void take(struct ampi_coll_pe *part, const struct ampi_coll_pair_data *data)
{
    const struct ampi_coll_state *state = part->slot->state;
    struct ampi_comm *comm =
        ampi_coll_handle(state->shared, state->part_members[state->part_first[part->index]]);
    uint32_t *known = known_of(part);

    if ((int32_t)(data->seq - *known) > 0)
        *known = data->seq;
    if ((int32_t)(data->seq - comm->coll_seq) >= 0) {
        part->pair = *data;
        part->has_early = true;
    } else if (!(comm->coll_pending >> data->seq % AMPI_COLL_SLOTS & 1) || part->paired->seq != data->seq) {
        if (BASE_UNLIKELY(data->must_agree != part->pair.must_agree) && data->seq == part->pair.seq)
            check_left(part, comm, data);
    } else if (BASE_UNLIKELY(part->is_in_slot)) {
        take_in_slot(part, data);
    } else if (BASE_LIKELY(can_complete(part->paired, data))) {
        complete(part, data);
    } else {
        continue_in_slot(part, data);
    }
}

static void handle_item(const struct ult_item *item)
{
    const struct pair_item *pair = (const struct pair_item *)item->body;

    take(pair->part, &pair->data);
}
