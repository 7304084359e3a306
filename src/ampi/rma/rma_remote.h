/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_remote.h: one-sided operations, locks and signals between processes.
 *
 * Everything is a message (AMPI_WIRE_RMA) to the PE of the target, which does what the origin would do within
 * a process, and most are answered. An operation is one message for every so many KiB of data; it is complete
 * at the target when all are answered, so MPI_Win_flush and the ends of epochs wait for answers. Messages may
 * overtake each other: accumulates of one origin on one target, which have an order, wait for the answer to
 * the one before, unless the hint accumulate_ordering says "none".
 *
 *      origin                                     target's PE
 *      OP      window, target, pieces, data  -->  combines pieces and data
 *                                            <--  ANSWER  an error, or what was there before
 *      LOCK    shared or exclusive           -->  stands in the target's queue
 *                                            <--  GRANT
 *      UNLOCK                                -->  lets go
 *      LOCK_ALL, UNLOCK_ALL                       the same with a process's lock for all its members
 *      POST, COMPLETE                        -->  epoch.c's signals
 *
 * A target's process has to poll for that: its PEs do so whenever their ranks wait, and between ranks.
 */
#ifndef AMPI_RMA_REMOTE_H
#define AMPI_RMA_REMOTE_H

#include "ampi/rma/epoch.h"
#include "ampi/rma/rma.h"

/* Windows that messages can come for: added before any member returns from the creation. */
void ampi_rma_remote_add(struct ampi_win_shared *shared);
void ampi_rma_remote_remove(struct ampi_win_shared *shared);

/* Operations whose target is of another process; checked. Raise errors; may switch. */
int ampi_rma_remote_put(struct ampi_rma *rma);
int ampi_rma_remote_get(struct ampi_rma *rma);
int ampi_rma_remote_accumulate(struct ampi_rma *rma);
int ampi_rma_remote_compare_and_swap(struct ampi_rma *rma, const void *expected, const void *desired);

/* An operation has failed with this error, which came with its answer. */
int ampi_rma_raise_remote(struct ampi_win *win, int error) BASE_COLD;

/* Locks. May switch until they are granted; raise errors. */
int ampi_rma_remote_lock(struct ampi_win *win, int rank, enum ampi_win_lock_as as);
int ampi_rma_remote_lock_all(struct ampi_win *win);
void ampi_rma_remote_unlock(struct ampi_win *win, int rank, enum ampi_win_lock_as as);
void ampi_rma_remote_unlock_all(struct ampi_win *win);

void ampi_rma_remote_signal(struct ampi_win *win, int to, enum ampi_epoch_signal signal);

/* Gives the rooms below what they need of this one (job/connect.c). */
void ampi_rma_connect(void);

#endif
