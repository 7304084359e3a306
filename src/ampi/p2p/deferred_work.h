/* SPDX-License-Identifier: BSD-3-Clause
 *
 * deferred_work.h: work that is deferred until the ready ranks have run once. It fetches a small message without a
 * posted receive, because a ready rank may be about to post one. Often that rank has sent the message that this one
 * answers: one poll finds the end of its send and the answer, before it posts its receive.
 */
#ifndef AMPI_P2P_LATER_H
#define AMPI_P2P_LATER_H

#include "base/base.h"

struct ampi_deferred {
    struct ampi_deferred *next;                 /* next in the PE's list, oldest first */
    void (*begin)(struct ampi_deferred *later); /* from the PE's progress; may not switch */
    int n_polls;                                /* polls of the PE since it was added to that list; -1: it has
                                                 * begun */
};

/* Makes the calling PE call begin soon. */
void ampi_deferred_add(struct ampi_deferred *later, void (*begin)(struct ampi_deferred *later));

/* True if it has been added and has not begun. */
static inline bool ampi_deferred_waits(const struct ampi_deferred *later)
{
    return later->n_polls >= 0;
}

/* Removes work that has not begun from the list. */
void ampi_deferred_cancel(struct ampi_deferred *later);

#endif
