/* SPDX-License-Identifier: BSD-3-Clause
 *
 * epoch.h: shared functions of epochs.
 */
#ifndef AMPI_EPOCH_H
#define AMPI_EPOCH_H

#include "ampi/rma/win.h"

/* Appends the holders of a lock to a report's text, which has n_chars characters. */
void ampi_epoch_describe_holders(struct ampi_win_holders holders, char *text, size_t size_bytes,
                                 size_t n_chars);

/* For reports: the world rank that a call on a window waits for; -1: not known, or the request is another one's. */
int ampi_epoch_waits_for(const struct ampi_request *request);
int ampi_win_lock_waits_for(const struct ampi_request *request);        /* (lock.c) */
int ampi_rma_remote_lock_waits_for(const struct ampi_request *request); /* (rma_remote_lock.c) */

/* The world rank of a member of a window that holds a lock; -1: not known. */
static inline int ampi_epoch_holder(const struct ampi_win *win, struct ampi_win_holders holders)
{
    return holders.n > 0 && holders.rank >= 0
               ? ampi_group_world_rank(win->comm->local->layout->group, holders.rank)
               : -1;
}

/* The window of a handle, in a call that allows only these assertions; raises errors. */
int ampi_epoch_raise(MPI_Win handle, int asserted) BASE_COLD;
static inline int ampi_epoch_check(MPI_Win handle, int asserted, int allowed, struct ampi_win **win_out)
{
    struct ampi_win *win = ampi_win_of(handle);

    if (BASE_UNLIKELY(!win || (asserted & ~allowed)))
        return ampi_epoch_raise(handle, asserted);
    *win_out = win;
    return MPI_SUCCESS;
}

/* Raises an error unless the owner may open an access epoch other than a fence epoch. */
int ampi_epoch_check_closed(struct ampi_win *win);

/* The wait of a thread of the owner, on its stack. Several threads may wait for different things at a time. */
struct ampi_epoch_wait {
    enum {
        AMPI_WAIT_POSTS,     /* win->n_awaited */
        AMPI_WAIT_COMPLETES, /* win->n_to_complete */
        AMPI_WAIT_OPERATIONS,
        AMPI_WAIT_GRANTS,
        AMPI_WAIT_LEAVING /* MPI_Win_free: like GRANTS */
    } until;
    int rank;          /* OPERATIONS, GRANTS: at or of this member; -1: all */
    uint32_t n_left;   /* OPERATIONS: messages without an answer; GRANTS: locks */
    uint64_t number;   /* OPERATIONS: only messages with lower numbers count; GRANTS: of the call */
    int error;         /* of these */
    bool is_exclusive; /* GRANTS: the lock */
    struct ampi_win_holders holders; /* GRANTS: who holds it, for a report that has asked for it */
    struct ampi_request request;
    struct ampi_epoch_wait *next; /* in the window's list, while the thread is blocked */
};

/* Blocks until the wait is over. The kind is for reports; the request's u.extra is the window. Returns the
 * wait's error, such as MPI_ERR_PROC_ABORTED if a member has failed. May switch. */
int ampi_epoch_await(struct ampi_win *win, struct ampi_epoch_wait *wait,
                     const struct ampi_request_kind *kind);

/* Ends a wait: its thread continues. On the owner's PE. */
void ampi_epoch_end_wait(struct ampi_win *win, struct ampi_epoch_wait *wait);

/* Called when the message with this number to the target is complete. error: that of an operation without a
 * request. On the owner's PE. */
void ampi_epoch_count_down(struct ampi_win *win, uint64_t number, int target, int error);

/* Ends the waits for signals when a member's process has failed. On the owner's PE. */
void ampi_epoch_fail_waits(struct ampi_win *win);

/* Waits until the owner's operations on a target of another process (-1: on all) are complete there; raises the errors
 * of all that have completed. Within a process nothing is pending. May switch. */
int ampi_epoch_drain_remote(struct ampi_win *win, int rank);
static inline int ampi_epoch_drain(struct ampi_win *win)
{
    return BASE_LIKELY(!win->shared->is_remote) ? MPI_SUCCESS : ampi_epoch_drain_remote(win, -1);
}

/* The signals of MPI_Win_post and MPI_Win_complete. */
enum ampi_epoch_signal { AMPI_SIGNAL_POST, AMPI_SIGNAL_COMPLETE };

/* Handles a signal from another member. On the owner's PE. */
void ampi_epoch_signalled(struct ampi_win *win, enum ampi_epoch_signal signal, int from);

#endif
