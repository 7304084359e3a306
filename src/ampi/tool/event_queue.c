/* SPDX-License-Identifier: BSD-3-Clause
 *
 * event_queue.c: a rank's events from where they happen to its callbacks. See event_queue.h.
 */
#include "ampi/object/gate.h"
#include "ampi/procs/procs.h"
#include "ampi/tool/event_queue.h"
#include "ampi/tool/stats.h"
#include "ampi/tool/trace.h"
#include "base/log.h"
#include "gpu/gpu.h"

#define BIT(kind) (1u << (kind))

static const MPI_T_cb_safety levels[AMPI_EVENT_LEVELS] = {
    MPI_T_CB_REQUIRE_NONE, MPI_T_CB_REQUIRE_MPI_RESTRICTED, MPI_T_CB_REQUIRE_THREAD_SAFE,
    MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE};

/* By PE, which alone uses its entry: its ranks with registrations, and how many of these want events on communicators. */
static struct {
    struct ampi_events *first;
    int n_watching;
} of_pe[AMPI_PES_MAX];

static bool is_for(const struct MPI_ABI_T_event_registration *registration, enum ampi_event_kind kind,
                   const struct ampi_comm *comm)
{
    return registration->kind == kind && !registration->is_freed &&
           (!registration->comm || registration->comm == comm);
}

/* ---- Handing out ---- */

const struct ampi_event_callback *
ampi_event_find_callback(const struct MPI_ABI_T_event_registration *registration, enum ampi_event_place place)
{
    for (int i = (int)place; i < AMPI_EVENT_LEVELS; i++)
        if (registration->callbacks[i].function)
            return &registration->callbacks[i];
    return NULL;
}

static void call_dropped(struct MPI_ABI_T_event_registration *registration, enum ampi_event_place place)
{
    const struct ampi_event_callback *callback = ampi_event_find_callback(registration, place);
    MPI_Count n_dropped = registration->n_dropped;

    if (n_dropped == 0 || !registration->dropped)
        return;
    registration->n_dropped = 0;
    registration->dropped(n_dropped, registration, 0, levels[place], callback ? callback->user_data : NULL);
}

static void call_all(struct ampi_events *events, struct MPI_ABI_T_event_instance *event,
                     enum ampi_event_place place)
{
    event->magic = AMPI_MAGIC_TOOL_EVENT;
    for (struct MPI_ABI_T_event_registration *r = events->registrations; r; r = r->next) {
        const struct ampi_event_callback *callback;
        if (!is_for(r, event->kind, event->comm) || event->time_ns < r->since_ns ||
            !ampi_event_find_callback(r, place))
            continue;
        call_dropped(r, place); /* may free it, or take its callback back */
        callback = r->is_freed ? NULL : ampi_event_find_callback(r, place);
        if (callback)
            callback->function(event, r, levels[place], callback->user_data);
    }
    event->magic = AMPI_MAGIC_DEAD;
}

/* An errand's callback, and the functions that it calls, keep the errand's restriction. */
static void hand_out(struct ampi_events *events, enum ampi_event_place place)
{
    enum ampi_event_place before = events->place;

    if (before == AMPI_EVENT_IN_ERRAND)
        place = AMPI_EVENT_IN_ERRAND;
    if (events->is_busy || (place == AMPI_EVENT_IN_ERRAND && events->is_unrestricted))
        return;
    events->is_busy = true;
    events->place = place;
    while (events->n_queued > 0) {
        struct MPI_ABI_T_event_instance event = events->queue[events->first];
        events->first = (events->first + 1) % AMPI_EVENTS_QUEUED_MAX;
        events->n_queued--;
        call_all(events, &event, place);
    }
    events->is_busy = false;
    if (events->must_update)
        ampi_events_update(events);
    events->place = before;
}

void ampi_events_hand_out(struct ampi_rank *rank)
{
    const struct ult *u = ult_self();

    if (rank->events->n_queued > 0 && u && u->owner == rank && u->state == ULT_RUNNING)
        hand_out(rank->events, u->is_called ? AMPI_EVENT_IN_ERRAND : AMPI_EVENT_IN_CALL);
}

static void hand_out_on_errand(struct ult_errand *errand)
{
    struct ampi_events *events = BASE_CONTAINER(errand, struct ampi_events, errand);

    events->is_errand_posted = false;
    hand_out(events, AMPI_EVENT_IN_ERRAND);
}

/* ---- Taking ---- */

static BASE_COLD void drop(struct ampi_events *events, enum ampi_event_kind kind,
                           const struct ampi_comm *comm)
{
    for (struct MPI_ABI_T_event_registration *r = events->registrations; r; r = r->next)
        if (is_for(r, kind, comm) && ampi_event_find_callback(r, AMPI_EVENT_IN_CALL))
            r->n_dropped++;
}

void ampi_events_take(struct ampi_rank *rank, int kind, const struct ampi_comm *comm, const int64_t *values)
{
    struct ampi_events *events = rank->events;
    struct MPI_ABI_T_event_instance *event;

    if (events->stats)
        ampi_stats_take(events->stats, rank, (enum ampi_event_kind)kind, comm, values);
    if (events->is_traced)
        ampi_trace_take(rank, (enum ampi_event_kind)kind, comm, values);
    if (!(events->wanted & BIT(kind)) || rank->state == AMPI_RANK_ENDED)
        return;
    if (events->n_queued == AMPI_EVENTS_QUEUED_MAX || (events->is_busy && ampi_self() == rank)) {
        drop(events, (enum ampi_event_kind)kind, comm);
        return;
    }
    event = &events->queue[(events->first + events->n_queued++) % AMPI_EVENTS_QUEUED_MAX];
    event->kind = (enum ampi_event_kind)kind;
    event->comm = comm;
    event->time_ns = ult_now_ns();
    for (int i = 0; ampi_event_types[kind].values[i]; i++)
        event->values[i] = values[i];
    if (!events->is_busy && !events->is_errand_posted && !events->is_unrestricted) {
        events->is_errand_posted = true;
        ampi_rank_send(rank, &events->errand);
    }
}

static void take_of_pe(int pe_id, enum ampi_event_kind kind, const int64_t *values)
{
    for (struct ampi_events *events = of_pe[pe_id].first; events; events = events->next)
        ampi_events_take(events->rank, kind, NULL, values);
}

/* ---- The hooks of lower modules ---- */

/* u->call is the last one while the program sleeps: then ult_enter counts, and the gate has not been passed. */
static intptr_t call_of(const struct ult *u)
{
    if (u->waits_for)
        return (intptr_t)u->waits_for;
    return (intptr_t)(!u->call || (u->depth > 0 && !u->called_from) ? "outside MPI" : u->call);
}

static void blocks(struct ult *u)
{
    const int64_t values[] = {call_of(u)};

    ampi_events_take(u->owner, AMPI_EVENT_RANK_BLOCKED, NULL, values);
}

static void resumes(struct ult *u, uint64_t since_ns)
{
    struct ampi_events *events = ((struct ampi_rank *)u->owner)->events;
    const int64_t values[] = {call_of(u), (int64_t)(ult_now_ns() - since_ns)};

    ampi_events_take(u->owner, AMPI_EVENT_RANK_RESUMED, NULL, values);
    hand_out(events, AMPI_EVENT_IN_ERRAND);
}

static void idles(struct ult_pe *pe, uint64_t since_ns)
{
    const int64_t values[] = {ult_pe_id(pe), (int64_t)(ult_now_ns() - since_ns)};

    ampi_trace_take_idle(ult_pe_id(pe), since_ns);
    take_of_pe(ult_pe_id(pe), AMPI_EVENT_PE_IDLE, values);
}

static void copies(const struct gpu_move *move, bool is_done, int error)
{
    const int64_t values[] = {(intptr_t)move, (int64_t)move->n_bytes, error};
    enum ampi_event_kind kind = is_done ? AMPI_EVENT_COPY_END : AMPI_EVENT_COPY_BEGIN;
    int pe_id = ult_pe_id(ult_self()->pe);

    ampi_trace_take_copy(pe_id, kind, values);
    take_of_pe(pe_id, kind, values);
}

/* ---- Registrations ---- */

struct ampi_events *ampi_events_of(struct ampi_rank *self)
{
    struct ampi_events *events = self->events;

    if (events)
        return events;
    events = base_calloc(1, sizeof *events, "events of the tool interface");
    events->rank = self;
    events->errand.run = hand_out_on_errand;
    events->next = of_pe[self->pe_id].first;
    of_pe[self->pe_id].first = events;
    self->events = events;
    return events;
}

static void free_freed(struct ampi_events *events)
{
    struct MPI_ABI_T_event_registration **link = &events->registrations, *r;

    while ((r = *link)) {
        if (!r->is_freed || r->n_holders > 0) {
            link = &r->next;
            continue;
        }
        *link = r->next;
        call_dropped(r, events->place);
        r->magic = AMPI_MAGIC_DEAD;
        if (r->comm)
            ampi_comm_shared_unref(r->comm->shared);
        if (r->freed)
            r->freed(r, levels[events->place], r->freed_data);
        free(r);
        link = &events->registrations; /* the callback may have changed the list */
    }
}

void ampi_events_update(struct ampi_events *events)
{
    int pe_id = events->rank->pe_id;
    bool is_summed = events->stats || events->is_traced, has_comms = is_summed;

    events->must_update = events->is_busy;
    if (events->is_busy)
        return;
    free_freed(events);
    events->wanted = 0;
    events->is_unrestricted = false;
    for (const struct MPI_ABI_T_event_registration *r = events->registrations; r; r = r->next) {
        if (r->is_freed || !ampi_event_find_callback(r, AMPI_EVENT_IN_CALL))
            continue;
        events->wanted |= BIT(r->kind);
        events->is_unrestricted |= !ampi_event_find_callback(r, AMPI_EVENT_IN_ERRAND);
        has_comms |= ampi_event_types[r->kind].scope <= AMPI_EVENT_OF_WIN;
    }
    ult_watchers.blocks = blocks;
    ult_watchers.resumes = resumes;
    if (events->wanted && !events->queue)
        events->queue =
            base_calloc(AMPI_EVENTS_QUEUED_MAX, sizeof *events->queue, "events of the tool interface");
    events->rank->ult.is_watched =
        is_summed || (events->wanted & (BIT(AMPI_EVENT_RANK_BLOCKED) | BIT(AMPI_EVENT_RANK_RESUMED)));
    if (is_summed || (events->wanted & BIT(AMPI_EVENT_PE_IDLE)))
        __atomic_store_n(&ult_watchers.idles, idles, __ATOMIC_RELAXED);
    if (events->is_traced || (events->wanted & (BIT(AMPI_EVENT_COPY_BEGIN) | BIT(AMPI_EVENT_COPY_END))))
        __atomic_store_n(&gpu_move_watcher, copies, __ATOMIC_RELAXED);
    if (has_comms == events->has_comms_watched)
        return;
    events->has_comms_watched = has_comms;
    of_pe[pe_id].n_watching += has_comms ? 1 : -1;
    if (of_pe[pe_id].n_watching == (has_comms ? 1 : 0))
        ampi_comm_watch_pe(pe_id, has_comms);
}

void ampi_events_end(struct ampi_rank *self)
{
    struct ampi_events *events = self->events;

    if (!events)
        return;
    ampi_events_hand_out(self);
    for (; events->n_queued > 0; events->n_queued--) { /* called by a callback */
        const struct MPI_ABI_T_event_instance *event = &events->queue[events->first];
        drop(events, event->kind, event->comm);
        events->first = (events->first + 1) % AMPI_EVENTS_QUEUED_MAX;
    }
    for (struct MPI_ABI_T_event_registration *r = events->registrations; r; r = r->next)
        r->is_freed = true;
    ampi_events_update(events);
}
