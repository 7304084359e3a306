/* SPDX-License-Identifier: BSD-3-Clause
 *
 * event_queue.h: events of MPI_T (MPI 5.0, section 15.3.8): a rank's registrations and the queue of its events.
 *
 * An event can happen on the stack of another rank, or in the middle of an operation. So each one goes into the queue of its
 * rank, which hands it out on its own stack, in order:
 *
 *      in its calls, where nothing is half done     the callback may do anything (MPI_T_CB_REQUIRE_NONE): before a send, a
 *                                                   receive or a collective starts, and after a blocking one
 *      as an errand (ult.h), when the rank blocks   MPI_T_CB_REQUIRE_MPI_RESTRICTED: the callback must not call functions
 *      or yields, and when it resumes               that wait; not while only a callback of the first kind is registered
 *
 * Events are dropped, and counted per registration, if the queue is full or a callback causes them.
 *
 * The numbers of event types: one per kind, then one for each kind on communicators, bound to a communicator.
 */
#ifndef AMPI_TOOL_EVENT_QUEUE_H
#define AMPI_TOOL_EVENT_QUEUE_H

#include "ampi/object/event.h"
#include "ampi/tool/tool.h"

#define AMPI_EVENTS_QUEUED_MAX 1024
#define AMPI_EVENT_LEVELS 4

/* An event, in the queue and for a callback. */
struct MPI_ABI_T_event_instance {
    uint32_t magic; /* AMPI_MAGIC_TOOL_EVENT while a callback has it */
    enum ampi_event_kind kind;
    const struct ampi_comm *comm; /* the rank's handle; NULL: none */
    uint64_t time_ns;
    int64_t values[AMPI_EVENT_VALUES_MAX];
};

/* Where callbacks run; the least restricted level of callbacks that may run there. */
enum ampi_event_place { AMPI_EVENT_IN_CALL, AMPI_EVENT_IN_ERRAND };

struct ampi_event_callback {
    MPI_T_event_cb_function *function; /* NULL: none of this level */
    void *user_data;
};

struct MPI_ABI_T_event_registration {
    uint32_t magic; /* AMPI_MAGIC_TOOL_REGISTRATION */
    enum ampi_event_kind kind;
    struct ampi_comm *comm; /* bound to it, and holds its memory; NULL: all */
    struct ampi_events *events;
    struct ampi_event_callback callbacks[AMPI_EVENT_LEVELS]; /* by level, the least restricted first */
    MPI_T_event_dropped_cb_function *dropped;                /* NULL: none */
    MPI_Count n_dropped;                                     /* since it was last called */
    MPI_T_event_free_cb_function *freed;                     /* MPI_T_event_handle_free; NULL: none */
    void *freed_data;
    uint64_t since_ns;  /* when it got a callback: earlier events are not for it */
    unsigned n_holders; /* calls of MPI_T_event_handle_free that still need its memory */
    bool is_freed;      /* in a callback: freed when that returns */
    struct MPI_ABI_T_event_registration *next; /* next in the rank's list */
};

struct ampi_stats;

/* Of one rank, from its first registration on. */
struct ampi_events {
    struct ampi_rank *rank;
    struct MPI_ABI_T_event_registration *registrations;
    uint32_t wanted;                        /* kinds for which there is a callback, one bit each */
    bool is_unrestricted;                   /* a registration has no callback for errands */
    enum ampi_event_place place;            /* the callbacks' that run, or IN_CALL */
    bool is_busy;                           /* a callback runs */
    bool must_update;                       /* registrations were changed meanwhile */
    bool is_errand_posted;                  /* `errand` */
    bool has_comms_watched;                 /* counted among those of its PE */
    struct ult_errand errand;               /* hands out events */
    struct ampi_events *next;               /* next of the PE */
    unsigned first, n_queued;               /* of queue, which is a ring */
    struct MPI_ABI_T_event_instance *queue; /* NULL: no callback was ever registered */
    struct ampi_stats *stats;               /* +stats; NULL: none */
    bool is_traced;                         /* +trace */
};

/* The calling rank's, created if need be. */
struct ampi_events *ampi_events_of(struct ampi_rank *self);

/* ampi_upper.take_event, and hand_out_events. */
void ampi_events_take(struct ampi_rank *rank, int kind, const struct ampi_comm *comm, const int64_t *values);
void ampi_events_hand_out(struct ampi_rank *rank);

/* The callback that may be called there: the least restricted one. NULL: none. */
const struct ampi_event_callback *
ampi_event_find_callback(const struct MPI_ABI_T_event_registration *registration,
                         enum ampi_event_place place);

/* Registrations have changed: starts or ends watching, and frees those marked is_freed. */
void ampi_events_update(struct ampi_events *events);

/* Hands out what is queued, and frees all registrations of the rank: MPI_T_finalize. */
void ampi_events_end(struct ampi_rank *self);

/* For categories. */
int ampi_tool_event_count(void);
enum ampi_tool_category ampi_tool_event_category(int index);

#endif
