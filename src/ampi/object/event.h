/* SPDX-License-Identifier: BSD-3-Clause
 *
 * event.h: the events of a run: one table of their kinds for MPI_T, +stats and +trace (tool/).
 *
 * Events are off until a rank asks for them (ampi_comm_watch_pe in comm/comm.h). Then the places where they happen leave
 * their fast paths, and call ampi_event_emit. Each of these places uses a branch that it has anyway:
 *
 *      sends and receives start    comm->at_post, which also says that the communicator has streams; of persistent and
 *                                  partitioned requests in MPI_Start, because others start requests on any stack
 *      a message arrives           the class AMPI_MATCH_WATCHED of the matching engine counts as a posted receive
 *      no receive matches it       comm->probers ends with ampi_prober_watch
 *      a request completes         request->on_complete
 *      a collective starts         the bit AMPI_COLL_PENDING_WATCHED of comm->coll_pending
 *      a one-sided operation       win->n_at_once
 *      a rank blocks, is ready     ult->alert
 *      a PE switches ranks         ult_switch_extras
 *
 * Four rarer places compare a word: a receive that finds an unexpected message, the end of a collective, a synchronisation of
 * a window, and an idle PE.
 *
 * An event has up to AMPI_EVENT_VALUES_MAX values of 8 bytes, whose names are in the table. The first value of an event on a
 * communicator is its context: a number that is equal at all its ranks, and no other live communicator has.
 */
#ifndef AMPI_EVENT_H
#define AMPI_EVENT_H

#include "ampi/object/rank.h"

#include <string.h>

#define AMPI_EVENT_VALUES_MAX 4

/* Whose event it is. */
enum ampi_event_scope {
    AMPI_EVENT_OF_COMM, /* of a rank, on a communicator */
    AMPI_EVENT_OF_WIN,  /* of a rank, on the communicator of a window */
    AMPI_EVENT_OF_RANK,
    AMPI_EVENT_OF_PE,       /* of all ranks of a PE */
    AMPI_EVENT_OF_TIMELINE, /* of a rank, for +trace only */
};

/* kind, scope, name, names of the values, description */
#define AMPI_EVENTS(X)                                                                               \
    X(SEND_POSTED, COMM, "send_posted", ("context", "dest", "tag", "bytes"),                         \
      "the rank starts to send a message")                                                           \
    X(SEND_COMPLETED, COMM, "send_completed", ("context", "dest", "tag", "bytes"),                   \
      "a send of the rank is complete")                                                              \
    X(RECEIVE_POSTED, COMM, "receive_posted", ("context", "source", "tag", "bytes"),                 \
      "the rank starts to receive a message; bytes is the size of its buffer")                       \
    X(RECEIVE_COMPLETED, COMM, "receive_completed", ("context", "source", "tag", "bytes"),           \
      "a receive of the rank is complete")                                                           \
    X(MESSAGE_UNEXPECTED, COMM, "message_unexpected", ("context", "source", "tag", "bytes"),         \
      "a message to the rank has arrived, and no receive matches it yet")                            \
    X(MESSAGE_MATCHED, COMM, "message_matched", ("context", "source", "tag", "was_unexpected"),      \
      "a message to the rank and a receive have matched")                                            \
    X(COLLECTIVE_BEGIN, COMM, "collective_begin", ("context", "operation", "root"),                  \
      "the rank starts a collective; operation is the address of its name; root -1: none")           \
    X(COLLECTIVE_END, COMM, "collective_end", ("context", "operation", "error"),                     \
      "a collective of the rank is complete; operation is the address of its name")                  \
    X(ONE_SIDED, WIN, "one_sided", ("context", "target", "call_name", "bytes"),                      \
      "the rank puts, gets or accumulates; call_name is the address of the name of its call")        \
    X(WINDOW_SYNC, WIN, "window_sync", ("context", "target", "call_name", "is_exclusive"),           \
      "the rank has locked, unlocked, flushed or synchronised a window; target -1: all targets")     \
    X(RANK_BLOCKED, RANK, "rank_blocked", ("call_name"),                                             \
      "the rank waits; call_name is the address of the name of its call")                            \
    X(RANK_RESUMED, RANK, "rank_resumed", ("call_name", "blocked_ns"), "the rank goes on")           \
    X(PE_IDLE, PE, "pe_idle", ("pe", "idle_ns"), "the rank's PE was idle, and has a ready rank now") \
    X(COPY_BEGIN, PE, "copy_begin", ("copy", "bytes"),                                               \
      "a copy from or to GPU memory starts on the rank's PE")                                        \
    X(COPY_END, PE, "copy_end", ("copy", "bytes", "error"), "this copy is done")

/* For +trace only: they happen where no callback can be posted. */
#define AMPI_TIMELINE_EVENTS(X)                                                                       \
    X(RANK_READY, TIMELINE, "rank_ready", ("by"),                                                     \
      "the rank's wait is over; by is the rank that ended it, or -1")                                 \
    X(RANK_RUNS, TIMELINE, "rank_runs", ("before", "state"),                                          \
      "the PE switches from the rank `before`, now in this state of a ULT, to the rank; -1: neither") \
    X(GPU_WORK, TIMELINE, "gpu_work", ("call_name", "function"),                                      \
      "the rank gives work to its GPU: a kernel, or by the CUDA function of this name")               \
    X(SEND_UNMATCHED, TIMELINE, "send_unmatched", ("context", "dest", "tag"),                         \
      "a send that the rank has posted has no match: it is partitioned, or has been cancelled")

#define AMPI_EVENT_KIND(kind, scope, name, values, text) AMPI_EVENT_##kind,
enum ampi_event_kind {
    AMPI_EVENTS(AMPI_EVENT_KIND) AMPI_EVENT_KIND_COUNT, /* of MPI_T */
    AMPI_EVENT_LAST = AMPI_EVENT_KIND_COUNT - 1,        /* the next kind has the number of the count */
    AMPI_TIMELINE_EVENTS(AMPI_EVENT_KIND) AMPI_EVENT_ALL_COUNT
};

struct ampi_event_type {
    const char *name;
    enum ampi_event_scope scope;
    const char *values[AMPI_EVENT_VALUES_MAX + 1]; /* their names; NULL behind the last */
    const char *text;
};
extern const struct ampi_event_type ampi_event_types[AMPI_EVENT_ALL_COUNT];

/* True if data goes from the target to the origin only, by the name of a one-sided operation. */
static inline bool ampi_event_is_get(const char *call)
{
    call += strncmp(call, "MPI_R", 5) == 0 ? 5 : 4;
    return (*call == 'g' || *call == 'G') && !strstr(call, "accumulate");
}

/* Emits an event of a rank, on the communicator or none (NULL). On the rank's PE, on any stack. Never switches: the rank
 * gets it when it blocks, and in ampi_event_hand_out. */
static inline void ampi_event_emit(struct ampi_rank *rank, enum ampi_event_kind kind,
                                   const struct ampi_comm *comm, const int64_t *values)
{
    if (rank->events)
        ampi_upper.take_event(rank, kind, comm, values);
}

/* In a call of the rank, where nothing is half done: calls its functions for the events so far. May switch. */
static inline void ampi_event_hand_out(struct ampi_rank *rank)
{
    if (rank->events)
        ampi_upper.hand_out_events(rank);
}

#endif
