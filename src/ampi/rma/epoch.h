/* SPDX-License-Identifier: BSD-3-Clause
 *
 * epoch.h: shared functions of epochs.
 */
#ifndef AMPI_EPOCH_H
#define AMPI_EPOCH_H

#include "ampi/rma/win.h"

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

/* Blocks the owner until a count of its handle is 0; the kind is for reports. MPI_ERR_PROC_ABORTED: a
 * member has failed. May switch. */
int ampi_epoch_await(struct ampi_win *win, const uint32_t *count, const struct ampi_request_kind *kind);

/* Called when a count of the handle has become 0: wakes the owner if it waits. On its PE. */
static inline void ampi_epoch_wake(struct ampi_win *win)
{
    struct ampi_request *waiting = win->waiting;

    win->waiting = NULL; /* another count may become 0 before the owner runs */
    if (waiting)
        ampi_request_complete(waiting);
}

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
