/* SPDX-License-Identifier: BSD-3-Clause
 *
 * win_watch.c: events of one-sided communication (object/event.h). The communicator of a window tells whether they are wanted.
 *
 * Operations leave their fast path then (n_at_once). Events of the window's own messages and collectives are not reported.
 */
#include "ampi/object/event.h"
#include "ampi/rma/win.h"

void ampi_win_watch(struct ampi_comm *comm, bool is_on)
{
    if (comm->window)
        comm->window->n_at_once = is_on ? 0 : (uint32_t)comm->window->shared->n_ranks;
}

void ampi_win_connect_comm(struct ampi_win *win)
{
    win->comm->window = win;
    ampi_win_watch(win->comm, win->comm->at_post & AMPI_AT_POST_EVENTS);
}

static void emit(const struct ampi_win *win, enum ampi_event_kind kind, int64_t a, int64_t b, int64_t c)
{
    const int64_t values[] = {(int64_t)win->comm->shared->context_id, a, b, c};

    ampi_event_emit(win->owner, kind, win->comm, values);
}

void ampi_win_report_operation(const struct ampi_win *win, int target, MPI_Count n_bytes)
{
    emit(win, AMPI_EVENT_ONE_SIDED, target, (intptr_t)ult_self()->call, n_bytes);
}

void ampi_win_report_sync(const struct ampi_win *win, int target)
{
    emit(win, AMPI_EVENT_WINDOW_SYNC, target, (intptr_t)ult_self()->call,
         target >= 0 && ampi_win_bit(win->exclusive, target));
    ampi_event_hand_out(win->owner);
}

void ampi_win_report_fence(const struct ampi_win *win, bool is_end, int error)
{
    emit(win, is_end ? AMPI_EVENT_COLLECTIVE_END : AMPI_EVENT_COLLECTIVE_BEGIN, (intptr_t) "fence",
         is_end ? error : -1, 0);
    if (is_end)
        ampi_event_hand_out(win->owner);
}
