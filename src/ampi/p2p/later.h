/* SPDX-License-Identifier: BSD-3-Clause
 *
 * later.h: what is begun when the ranks of the PE that are ready have had their turn: fetching a small
 * message that no receive waits for. One may be about to receive it. Above all, the sender of the message
 * that this one answers: that its data has gone is told just before the answer comes, and when both are found
 * in one poll, it has not called its receive yet.
 */
#ifndef AMPI_P2P_LATER_H
#define AMPI_P2P_LATER_H

#include "base/base.h"

struct ampi_later {
    struct ampi_later *next;                 /* link of the PE's list, oldest first */
    void (*begin)(struct ampi_later *later); /* from the PE's progress; may not switch */
    int n_polls;                             /* of the PE, since it is on that list; -1: it has begun */
};

/* Has the calling PE call begin soon. */
void ampi_later_add(struct ampi_later *later, void (*begin)(struct ampi_later *later));

/* True if it waits to begin. */
static inline bool ampi_later_waits(const struct ampi_later *later)
{
    return later->n_polls >= 0;
}

/* Takes one that waits off the list: it will not begin. */
void ampi_later_cancel(struct ampi_later *later);

#endif
