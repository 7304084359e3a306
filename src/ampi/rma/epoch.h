/* SPDX-License-Identifier: BSD-3-Clause
 *
 * epoch.h: what the files of epochs share.
 */
#ifndef AMPI_EPOCH_H
#define AMPI_EPOCH_H

#include "ampi/rma/win.h"

/* The window of a handle, in a call that may set these assertions only; raises errors. */
int ampi_epoch_check(MPI_Win handle, int asserted, int allowed, struct ampi_win **win_out);

/* Raises an error unless the owner may open an access epoch other than by a fence. */
int ampi_epoch_check_closed(struct ampi_win *win);

/* Blocks the owner until a count of its handle is 0; the kind is for reports. MPI_ERR_PROC_ABORTED: a member
 * is lost. May switch. */
int ampi_epoch_await(struct ampi_win *win, const uint32_t *count, const struct ampi_request_kind *kind);

/* A count of the handle has become 0: the owner may wait for it. On its PE. */
static inline void ampi_epoch_wake(struct ampi_win *win)
{
    if (win->waiting)
        ampi_request_complete(win->waiting);
}

/* Waits until all that the owner has under way to other processes is answered; raises their errors. Within a
 * process nothing is under way. May switch. */
int ampi_epoch_drain_remote(struct ampi_win *win);
static inline int ampi_epoch_drain(struct ampi_win *win)
{
    return BASE_LIKELY(!win->shared->is_remote) ? MPI_SUCCESS : ampi_epoch_drain_remote(win);
}

/* The signals of MPI_Win_post and MPI_Win_complete. */
enum ampi_epoch_signal { AMPI_SIGNAL_POST, AMPI_SIGNAL_COMPLETE };

/* A member has told this one. On its PE. */
void ampi_epoch_signalled(struct ampi_win *win, enum ampi_epoch_signal signal, int from);

#endif
