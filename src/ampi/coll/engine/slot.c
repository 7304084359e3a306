/* SPDX-License-Identifier: BSD-3-Clause
 *
 * slot.c: arriving at a collective, running its stages, leaving it. See slot.h.
 */
#include "ampi/coll/engine/slot.h"

#include "ampi/coll/engine/pair.h"
#include "ampi/coll/engine/series.h"
#include "ampi/coll/engine/usage.h"
#include "ampi/object/event.h"
#include "ampi/object/gate.h"
#include "ampi/coll/engine/between_ops.h"
#include "base/log.h"

static void start_now(struct ampi_coll_args *args, bool is_own_call);

/* ---- Stages ---- */

/* Reports the begin or the end of a collective; last: the event's last value. */
static BASE_COLD void emit(const struct ampi_coll_args *args, enum ampi_event_kind kind, int last)
{
    const struct ampi_comm *comm = args->comm;
    const int64_t values[] = {(int64_t)comm->shared->context_id, (intptr_t)args->plan->name, last};

    if (!comm->window && !comm->shared->file) /* MPI_Win_fence reports itself */
        ampi_event_emit(comm->owner, kind, comm, values);
}

/* Reports the begin of a collective, with its root. */
static BASE_COLD void emit_begin(const struct ampi_coll_args *args)
{
    const uint32_t rooted = 1u << AMPI_COLL_FLOW_BCAST | 1u << AMPI_COLL_FLOW_SCATTER |
                            1u << AMPI_COLL_FLOW_GATHER | 1u << AMPI_COLL_FLOW_REDUCE;

    emit(args, AMPI_EVENT_COLLECTIVE_BEGIN, rooted >> args->plan->flow & 1 ? args->root : -1);
}

/* The member continues with this result. Its arguments may be gone afterwards. */
static inline void end_member(struct ampi_coll_args *args, int error)
{
    struct ampi_request *request = args->request;

    args->error = error;
    if (BASE_UNLIKELY(args->comm->coll_pending & AMPI_COLL_PENDING_WATCHED))
        emit(args, AMPI_EVENT_COLLECTIVE_END, error);
    if (request) {
        request->status.MPI_ERROR = error;
        ampi_request_complete(request);
        return;
    }
    args->is_done = true;
    if (args->waiter)
        ult_ready(args->waiter);
}

/* The member's operation is complete. Its arguments may be gone afterwards. */
static inline void finish_member(struct ampi_coll_args *args)
{
    args->comm->coll_pending &= ~args->pending_bit;
    end_member(args, args->error);
}

/* True if the next operation of the member may start (see slot.h). */
static inline bool may_start(const struct ampi_comm *comm)
{
    uint32_t allowed = AMPI_COLL_PENDING_WATCHED;

    if (BASE_LIKELY(comm->coll_pending == 0))
        return true;
    for (uint32_t back = 1; back < AMPI_COLL_SLOTS / 2; back++)
        allowed |= 1u << (comm->coll_seq - back) % AMPI_COLL_SLOTS;
    return (comm->coll_pending & ~allowed) == 0;
}

/* Starts what may start of this PE's members. A start can complete an operation, which comes here again: the outer call repeats its
 * loop then, since the depth of calls must not depend on the number of operations. */
static BASE_COLD void start_deferred(const struct ampi_coll_state *state, int part)
{
    int *n_calls = &state->slots[0].parts[part].n_start_calls, n_seen = 0;

    if (++*n_calls > 1)
        return;
    while (n_seen != *n_calls) {
        n_seen = *n_calls;
        for (int i = state->part_first[part]; i < state->part_first[part + 1]; i++) {
            struct ampi_comm *comm = ampi_coll_handle(state->shared, state->part_members[i]);
            while (comm->coll_deferred_first && may_start(comm)) {
                struct ampi_coll_args *args = comm->coll_deferred_first;
                comm->coll_deferred_first = args->next;
                start_now(args, false);
            }
        }
    }
    *n_calls = 0;
}

/* ---- Notifying PEs ---- */

enum stage_result { NO_RESULT, RESULT_IN_SLOT, RESULT_CARRIED };

/* An inbox item: all data of a small operation's last stage, so that a PE reads no cache lines that others have written. */
struct stage_item {
    struct ampi_coll_pe *part;
    int root; /* the root of the result in this item; like the next two fields */
    uint16_t n_bytes;
    uint8_t has_result; /* enum stage_result */
    unsigned char carried[AMPI_COLL_CARRIED_BYTES];
};
_Static_assert(sizeof(struct stage_item) <= ULT_ITEM_BYTES, "it is sent in an inbox item");

void ampi_coll_end_pair(struct ampi_coll_pe *part, struct ampi_coll_args *args)
{
    bool has_deferred = args->comm->coll_deferred_first != NULL; /* then the communicator stays, too */

    finish_member(args);
    if (BASE_UNLIKELY(has_deferred))
        start_deferred(part->slot->state, part->index);
}

static void finish_members(struct ampi_coll_pe *part)
{
    const struct ampi_coll_state *state = part->slot->state;
    bool has_deferred = false; /* as above */

    for (int i = state->part_first[part->index]; i < state->part_first[part->index + 1]; i++) {
        struct ampi_coll_args *args = part->slot->args[state->part_members[i]];
        has_deferred |= args->comm->coll_deferred_first != NULL;
        finish_member(args);
    }
    if (BASE_UNLIKELY(has_deferred))
        start_deferred(state, part->index);
}

/* result: the result that deliver takes to the members; NULL: none. */
static inline void finish_part(struct ampi_coll_pe *part, const struct ampi_coll_result *result)
{
    if (result) {
        part->result = *result;
        ampi_coll_stage_begin(part);
        part->plan->deliver(part->slot, part->index);
    }
    ampi_coll_stage_end(part, finish_members);
}

/* True if deliver has work on this part. */
static inline bool has_result_for(const struct ampi_coll_slot *slot, int part)
{
    return slot->has_result && (slot->result_part < 0 || slot->result_part == part);
}

/* Makes a part's PE run a stage. */
static void post_stage(struct ampi_coll_slot *slot, int part, void (*handle)(const struct ult_item *))
{
    struct ult_item item = {.handle = handle};
    struct stage_item stage = {.part = &slot->parts[part]};
    const struct ampi_coll_result *result = &slot->result;

    if (has_result_for(slot, part)) {
        stage.has_result = RESULT_IN_SLOT;
        if (result->bytes && result->n_bytes <= sizeof stage.carried) {
            stage.has_result = RESULT_CARRIED;
            stage.root = result->root;
            stage.n_bytes = (uint16_t)result->n_bytes;
            ampi_coll_copy_small(stage.carried, result->bytes, result->n_bytes);
        }
    }
    memcpy(item.body, &stage, sizeof stage);
    ult_post_item(ult_pe_get(slot->state->part_pe[part]), &item);
}

/* Makes the other parts' PEs run a stage. */
static void post_to_others(struct ampi_coll_slot *slot, int own_part, void (*handle)(const struct ult_item *))
{
    const struct ampi_coll_state *state = slot->state;

    for (int i = 0; i < state->n_parts; i++)
        if (i != own_part)
            post_stage(slot, i, handle);
}

static void handle_finish(const struct ult_item *item)
{
    struct stage_item stage;

    memcpy(&stage, item->body, sizeof stage);
    if (stage.has_result == RESULT_CARRIED)
        finish_part(stage.part, &(struct ampi_coll_result){stage.carried, stage.n_bytes, stage.root});
    else
        finish_part(stage.part, stage.has_result == RESULT_IN_SLOT ? &stage.part->slot->result : NULL);
}

static inline void finish_all(struct ampi_coll_slot *slot, int own_part)
{
    post_to_others(slot, own_part, handle_finish);
    finish_part(&slot->parts[own_part], has_result_for(slot, own_part) ? &slot->result : NULL);
}

static void share_done(struct ampi_coll_pe *part)
{
    struct ampi_coll_slot *slot = part->slot;
    const struct ampi_coll_state *state = slot->state;

    if (atomic_fetch_add_explicit(&slot->n_parts_shared, 1, memory_order_acq_rel) + 1 < state->n_parts)
        return;
    atomic_store_explicit(&slot->n_parts_shared, 0, memory_order_relaxed);
    if (BASE_UNLIKELY(state->remote != NULL))
        ampi_coll_between->release(slot);
    finish_all(slot, part->index);
}

static void share_part(struct ampi_coll_slot *slot, int part)
{
    ampi_coll_stage_begin(&slot->parts[part]);
    slot->plan->share(slot, part);
    ampi_coll_stage_end(&slot->parts[part], share_done);
}

/* ---- Users' functions ---- */

static void send_stage(struct ampi_coll_slot *slot, int part, struct ampi_coll_args *runner,
                       void (*run)(struct ult_errand *))
{
    slot->parts[part].op = runner->op;
    slot->parts[part].errand.run = run;
    ampi_rank_send(runner->comm->owner, &slot->parts[part].errand);
}

static void share_on_errand(struct ult_errand *errand)
{
    struct ampi_coll_pe *part = BASE_CONTAINER(errand, struct ampi_coll_pe, errand);

    share_part(part->slot, part->index);
}

static void handle_share(const struct ult_item *item)
{
    struct stage_item stage;
    struct ampi_coll_slot *slot;

    memcpy(&stage, item->body, sizeof stage);
    slot = stage.part->slot;
    if (BASE_UNLIKELY(ampi_coll_has_user_op(slot->last)))
        send_stage(slot, stage.part->index, ampi_coll_choose_runner(slot, stage.part->index),
                   share_on_errand);
    else
        share_part(slot, stage.part->index);
}

/* ---- The middle stage ---- */

static void middle_done(struct ampi_coll_pe *part)
{
    struct ampi_coll_slot *slot = part->slot;

    if (BASE_UNLIKELY(slot->state->remote != NULL) && !slot->needs_share)
        ampi_coll_between->release(slot);
    if (slot->needs_share) {
        post_to_others(slot, part->index, handle_share);
        share_part(slot, part->index);
    } else {
        finish_all(slot, part->index);
    }
}

/* Runs the middle stage and the following ones, on the PE of the part. */
static inline void run_middle(struct ampi_coll_slot *slot, int part)
{
    slot->parts[part].op = slot->last->op;
    slot->needs_share = false;
    slot->has_result = false;
    slot->result_part = -1;
    slot->result.bytes = NULL;
    ampi_coll_stage_begin(&slot->parts[part]);
    if (slot->plan->middle)
        slot->plan->middle(slot);
    ampi_coll_stage_end(&slot->parts[part], middle_done);
}

static void middle_on_errand(struct ult_errand *errand)
{
    struct ampi_coll_pe *part = BASE_CONTAINER(errand, struct ampi_coll_pe, errand);

    run_middle(part->slot, part->index);
}

static void handle_middle(const struct ult_item *item)
{
    struct stage_item stage;

    memcpy(&stage, item->body, sizeof stage);
    send_stage(stage.part->slot, stage.part->index, stage.part->slot->last, middle_on_errand);
}

/* Sends the middle stage to the stack of the rank whose function it calls. */
static BASE_COLD void send_middle(struct ampi_coll_slot *slot, struct ampi_coll_args *runner)
{
    int pe_id = runner->comm->owner->pe_id;
    int part = slot->state->part_of_pe[pe_id];

    slot->last = runner;
    if (ult_self()->pe == ult_pe_get(pe_id))
        send_stage(slot, part, runner, middle_on_errand);
    else
        post_stage(slot, part, handle_middle);
}

void ampi_coll_run_middle(struct ampi_coll_slot *slot, int part)
{
    struct ampi_coll_args *runner = ampi_coll_find_runner(slot);

    if (BASE_UNLIKELY(runner != NULL))
        send_middle(slot, runner);
    else
        run_middle(slot, part);
}

/* True if this member, which is on this PE, has an operation in the slot; else its arguments there are outdated. */
static bool is_pending(const struct ampi_coll_slot *slot, int member)
{
    if (slot->series)
        return ampi_coll_series_is_pending(slot, member);
    return ampi_coll_handle(slot->state->shared, member)->coll_pending >> (slot - slot->state->slots) & 1;
}

/* An arrived member's operation or root differs from those before in this part. On an intercommunicator roots may. */
static BASE_COLD void check_agreement(const struct ampi_coll_slot *slot, const struct ampi_coll_pe *part,
                                      const struct ampi_coll_args *args)
{
    const struct ampi_coll_state *state = slot->state;
    const struct ampi_coll_args *other = NULL; /* any: they agree with each other */

    for (int i = state->part_first[part->index]; i < state->part_first[part->index + 1]; i++)
        if (is_pending(slot, state->part_members[i]) && slot->args[state->part_members[i]] != args)
            other = slot->args[state->part_members[i]];
    if (part->plan != args->plan)
        ampi_coll_report_mismatch(args, part->plan, other);
    if (other && !state->shared->is_inter)
        ampi_coll_usage_check_roots(other, args);
}

/* Checks that an arriving member's operation and root are the others', and packs a small contribution. */
static inline void check_in(struct ampi_coll_slot *slot, struct ampi_coll_pe *part,
                            const struct ampi_coll_args *args, int member)
{
    unsigned char *to = slot->packed + (size_t)member * args->pack_bytes;

    if (part->n_arrived == 0) {
        part->plan = args->plan;
        part->must_agree = args->must_agree;
        part->n_packed = 0;
        part->pack_bytes = args->pack_bytes;
    } else if (BASE_UNLIKELY(part->must_agree != args->must_agree)) {
        check_agreement(slot, part, args);
    }
    if (args->pack_bytes == 0)
        return;
    part->n_packed++;
    if (part->pack_bytes != args->pack_bytes)
        part->pack_bytes = 0;
    if (args->pack_bytes == 8)
        memcpy(to, args->pack_from, 8);
    else
        memcpy(to, args->pack_from, args->pack_bytes);
}

/* Called when all members of this process have arrived. False: the operation continues between processes. */
static bool can_continue(struct ampi_coll_slot *slot)
{
    if (ampi_coll_usage_is_on())
        ampi_coll_usage_check_arrived(slot);
    if (slot->state->remote) {
        ampi_coll_between->arrived(slot);
        return false;
    }
    if (ampi_coll_usage_is_on())
        ampi_coll_usage_check_blocks(slot);
    return true;
}

/* A member arrives in the slot. is_own_call: on the stack of its rank, in the call that starts the operation. */
static inline __attribute__((always_inline)) void arrive_in_slot(struct ampi_coll_slot *slot,
                                                                 struct ampi_coll_pe *part,
                                                                 struct ampi_coll_args *args,
                                                                 bool is_own_call)
{
    struct ampi_comm *comm = args->comm;
    struct ampi_coll_state *state = comm->shared->coll;
    int member = ampi_coll_member(comm);

    slot->args[member] = args;
    check_in(slot, part, args, member);
    if (++part->n_arrived < state->part_first[part->index + 1] - state->part_first[part->index])
        return;
    part->n_arrived = 0;
    if (state->n_parts > 1) {
        if (atomic_fetch_add_explicit(&slot->n_parts_arrived, 1, memory_order_acq_rel) + 1 < state->n_parts)
            return;
        atomic_store_explicit(&slot->n_parts_arrived, 0, memory_order_relaxed);
        for (int i = 0; i < state->n_parts; i++)
            if (BASE_UNLIKELY(slot->parts[i].must_agree != args->must_agree))
                check_agreement(slot, &slot->parts[i], args);
    }
    slot->last = args;
    slot->plan = args->plan;
    if (BASE_UNLIKELY(state->is_special) && !can_continue(slot))
        return;
    if (BASE_LIKELY(is_own_call && (args->op || !state->shared->is_inter)))
        run_middle(slot, part->index);
    else
        ampi_coll_run_middle(slot, part->index);
}

static inline struct ampi_coll_pe *part_of(const struct ampi_coll_slot *slot,
                                           const struct ampi_coll_args *args)
{
    return &slot->parts[slot->state->part_of_pe[args->comm->owner->pe_id]];
}

void ampi_coll_arrive_in_slot(struct ampi_coll_slot *slot, struct ampi_coll_args *args)
{
    arrive_in_slot(slot, part_of(slot, args), args, false);
}

static inline __attribute__((always_inline)) void arrive(struct ampi_coll_slot *slot,
                                                         struct ampi_coll_args *args, bool is_own_call)
{
    struct ampi_coll_pe *part = part_of(slot, args);

    if (!slot->state->is_pair || slot->series ||
        !(BASE_UNLIKELY(slot->state->remote != NULL) ? ampi_coll_between->pair_arrive(slot, args)
                                                     : ampi_coll_pair_arrive(part, args)))
        arrive_in_slot(slot, part, args, is_own_call);
}

static void start_now(struct ampi_coll_args *args, bool is_own_call)
{
    struct ampi_comm *comm = args->comm;
    uint32_t index = comm->coll_seq % AMPI_COLL_SLOTS;

    args->seq = comm->coll_seq++;
    args->pending_bit = 1u << index;
    comm->coll_pending |= args->pending_bit;
    arrive(&comm->shared->coll->slots[index], args, is_own_call);
}

/* Defers an operation because others of the member are pending; for ever if a member has failed. Starts it if it was
 * only held for its events. */
static BASE_COLD void start_or_defer(struct ampi_coll_args *args, bool is_own_call)
{
    struct ampi_comm *comm = args->comm;

    if (comm->coll_pending & AMPI_COLL_PENDING_WATCHED) {
        emit_begin(args);
        if (is_own_call)
            ampi_event_hand_out(comm->owner);
        if (!comm->coll_deferred_first && may_start(comm)) {
            start_now(args, is_own_call);
            return;
        }
    }
    if (comm->coll_pending & AMPI_COLL_PENDING_FAILED) {
        end_member(args, MPI_ERR_PROC_ABORTED);
        return;
    }
    if (comm->coll_deferred_first)
        comm->coll_deferred_last->next = args;
    else
        comm->coll_deferred_first = args;
    comm->coll_deferred_last = args;
}

static inline void start(struct ampi_coll_args *args, struct ampi_request *request, bool is_own_call)
{
    struct ampi_comm *comm = args->comm;

    args->request = request;
    args->next = NULL;
    if (BASE_LIKELY(!comm->coll_deferred_first &&
                    (comm->coll_pending == 0 ||
                     (!(comm->coll_pending & AMPI_COLL_PENDING_WATCHED) && may_start(comm)))))
        start_now(args, is_own_call);
    else
        start_or_defer(args, is_own_call);
}

void ampi_coll_start(struct ampi_coll_args *args, struct ampi_request *request)
{
    start(args, request, true);
}

void ampi_coll_start_elsewhere(struct ampi_coll_args *args, struct ampi_request *request)
{
    start(args, request, false);
}

void ampi_coll_start_series(struct ampi_coll_args *args, struct ampi_request *request,
                            struct ampi_coll_series *series, uint32_t seq, bool is_own_call)
{
    args->request = request;
    args->next = NULL;
    args->seq = seq;
    args->pending_bit = 0;
    args->comm->n_series_starts++;
    if (BASE_UNLIKELY(args->comm->coll_pending & AMPI_COLL_PENDING_WATCHED))
        emit_begin(args);
    if (BASE_UNLIKELY(args->comm->coll_pending & AMPI_COLL_PENDING_FAILED))
        end_member(args, MPI_ERR_PROC_ABORTED);
    else
        arrive(&series->slots[seq % AMPI_COLL_SERIES_SLOTS], args, is_own_call);
}

int ampi_coll_run(struct ampi_coll_args *args)
{
    args->is_done = false;
    args->waiter = NULL;
    ampi_coll_start(args, NULL);
    if (!args->is_done) {
        args->waiter = ult_self();
        args->waiter->collective = args;
        ult_suspend();
        args->waiter->collective = NULL;
        BASE_ASSERT(args->is_done);
    }
    if (BASE_UNLIKELY(args->comm->coll_pending & AMPI_COLL_PENDING_WATCHED))
        ampi_event_hand_out(args->comm->owner);
    return args->error;
}

/* ---- Failed members: no collective of the communicator can succeed any more ---- */

/* Ends the operations of this PE's members in a slot. */
static void fail_part(struct ampi_coll_slot *slot, struct ampi_coll_pe *part)
{
    const struct ampi_coll_state *state = slot->state;

    part->n_arrived = 0;
    for (int i = state->part_first[part->index]; i < state->part_first[part->index + 1]; i++) {
        int member = state->part_members[i];
        if (!is_pending(slot, member))
            continue;
        slot->args[member]->error = MPI_ERR_PROC_ABORTED;
        finish_member(slot->args[member]);
    }
}

/* False: the operation goes on, or fails at the leader (between.c). */
bool ampi_coll_withdraw(struct ampi_coll_slot *slot)
{
    int n_arrived = atomic_load(&slot->n_parts_arrived);

    while (n_arrived > 0 && n_arrived < slot->state->n_parts)
        if (atomic_compare_exchange_weak(&slot->n_parts_arrived, &n_arrived, n_arrived - 1))
            return true;
    return false;
}

static void fail_deferred(struct ampi_comm *comm)
{
    struct ampi_coll_args *args = comm->coll_deferred_first, *next;

    comm->coll_deferred_first = NULL;
    for (; args; args = next) {
        next = args->next;
        end_member(args, MPI_ERR_PROC_ABORTED);
    }
}

static void fail_slots(struct ampi_coll_slot *slots, int n_slots, int part)
{
    for (struct ampi_coll_slot *slot = slots; slot < slots + n_slots; slot++)
        if (slot->parts[part].n_arrived > 0 ||
            (is_pending(slot, slot->state->part_members[slot->state->part_first[part]]) &&
             ampi_coll_withdraw(slot)))
            fail_part(slot, &slot->parts[part]);
}

void ampi_coll_handle_failure(struct ampi_coll_state *state, int pe_id)
{
    int part = state->part_of_pe[pe_id];

    if (part < 0)
        return;
    for (int i = state->part_first[part]; i < state->part_first[part + 1]; i++)
        fail_deferred(ampi_coll_handle(state->shared, state->part_members[i]));
    fail_slots(state->slots, AMPI_COLL_SLOTS, part);
    ampi_coll_series_visit(&state->series, fail_slots, part);
    ampi_coll_between->fail(state, pe_id);
}

void ampi_coll_fail(struct ampi_coll_slot *slot, int part)
{
    const struct ampi_coll_state *state = slot->state;

    for (int i = 0; i < state->part_first[state->n_parts]; i++)
        slot->args[state->part_members[i]]->error = MPI_ERR_PROC_ABORTED;
    slot->has_result = false;
    ampi_coll_between->release(slot);
    finish_all(slot, part);
}
