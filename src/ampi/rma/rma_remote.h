/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_remote.h: one-sided operations, locks and signals between processes.
 *
 * Large puts and gets may need no message (rma_access.c). All others are messages (AMPI_AM_RMA) to the PE of the
 * target, which acts as the origin would within a process. Most are answered. An operation is split into messages of
 * limited size; it is complete at the target when all are answered, so MPI_Win_flush and the ends of epochs wait for
 * answers. Messages may overtake each other: accumulates of one origin on one target, which are ordered, wait for
 * the previous answer, unless the hint accumulate_ordering is "none".
 *
 *      origin                                     target's PE
 *      OP      window, target, pieces, data  -->  combines pieces and data
 *                                            <--  ANSWER  an error, or the old data
 *      OP      ..., the data's address       -->  copies and combines it (rma_pull.c)
 *                                            <--  ANSWER  done, or the bytes done
 *      LOCK    shared or exclusive           -->  stands in the target's queue
 *                                            <--  GRANT
 *      UNLOCK                                -->  releases the lock
 *      LOCK_ALL, UNLOCK_ALL                       the same with a process's lock for all its members; exclusive: with
 *                                                 its gate (lock.c)
 *      KEY_WANTED                            -->
 *                                            <--  KEY  of the target's memory: rma_access.c
 *      CLAIM                                 -->  +check usage: compares operations (misuse/claims.c)
 *                                            <--  ANSWER
 *      POST, COMPLETE                        -->  epoch.c's signals
 *      LEAVE                                 -->  waits until all members have called MPI_Win_free: rma_leave.c
 *                                            <--  GRANT
 *      HOLDERS_WANTED                        -->
 *                                            <--  HOLDERS  of the lock that a blocked rank waits for
 *
 * A window that its target has freed refuses requests. They come only after a process has failed.
 *
 * The target's process has to poll: its PEs do so whenever their ranks wait, and between ranks.
 */
#ifndef AMPI_RMA_REMOTE_H
#define AMPI_RMA_REMOTE_H

#include "ampi/rma/epoch.h"
#include "ampi/rma/rma.h"

/* Makes a window known to messages, before any member returns from the creation. */
void ampi_rma_remote_add(struct ampi_win_shared *shared);

/* Called when all members of this process have freed the window: failed processes do not concern it any
 * more. */
void ampi_rma_remote_remove(struct ampi_win_shared *shared);

/* Frees what _add has allocated. */
void ampi_rma_remote_fini(struct ampi_win_shared *shared);

/* Records that the owner has called MPI_Win_free and begins no more operations (rma_leave.c). Once for each
 * handle. Never switches. */
void ampi_rma_leave(struct ampi_win *win);

/* Waits until all members whose process has not failed have left. May switch. */
void ampi_rma_await_leaving(struct ampi_win *win);

/* Operations whose target is in another process; already checked. Raise errors; may switch. */
int ampi_rma_remote_put(struct ampi_rma *rma);
int ampi_rma_remote_get(struct ampi_rma *rma);
int ampi_rma_remote_accumulate(struct ampi_rma *rma);
int ampi_rma_remote_compare_and_swap(struct ampi_rma *rma, const void *expected, const void *desired);

/* Sends the target's process a malloc'ed message about an operation (misuse/claims.c), which it answers. Never switches. */
void ampi_rma_remote_claim(struct ampi_win *win, int target, void *message, size_t n_bytes);

/* The number of the owner's pending messages and accesses to a target of another process. */
uint32_t ampi_rma_count_under_way(const struct ampi_win *win, int rank);

/* Raises the error in the answer to an operation. */
int ampi_rma_raise_remote(struct ampi_win *win, int error) BASE_COLD;

/* Locks a member. May switch until it is granted; raises errors. */
int ampi_rma_remote_lock(struct ampi_win *win, int rank, enum ampi_win_lock_as as);

/* Locks the process of this first member (shared->others) for MPI_Win_lock_all, or, exclusive, its gate. Raises nothing. May
 * switch until it is granted. */
int ampi_rma_remote_lock_process(struct ampi_win *win, int first, enum ampi_win_lock_as as);
void ampi_rma_remote_unlock_process(struct ampi_win *win, int first, enum ampi_win_lock_as as);

/* Locks all other processes, except that of the member `except` (-1: none), if all grant it at once.
 * *busy_out is -1: all are locked; else the first member of a process that did not grant it, and none is
 * locked. Raises nothing. Takes one round trip. May switch. */
int ampi_rma_remote_try_processes(struct ampi_win *win, int except, int *busy_out);
void ampi_rma_remote_unlock(struct ampi_win *win, int rank, enum ampi_win_lock_as as);

void ampi_rma_remote_signal(struct ampi_win *win, int to, enum ampi_epoch_signal signal);

/* Registers this room's functions with lower rooms (job/connect.c). */
void ampi_rma_connect(void);

/* ---- Accumulates whose data the target copies from the origin's memory (rma_pull.c) ---- */

/* At the origin: true if the target should get the address of the data instead of the data. Checked arguments. */
bool ampi_rma_can_pull(const struct ampi_rma *rma);

/* At the target: combines the data at `from` in a process with memory of the target. Returns the number of bytes that
 * are done: fewer than all if the kernel refuses to copy the rest, or if the process has failed. Never switches. */
size_t ampi_rma_pull(struct ampi_win *at, int proc_id, const struct ampi_op *op, enum ampi_basic basic,
                     struct ampi_rma_piece to, uintptr_t from);

/* ---- Put and get on memory of other processes without a message to the target (rma_access.c) ---- */

/* Begins a put or get, already checked, whose target is in another process. False: a message is needed.
 * Never switches. */
bool ampi_rma_access(struct ampi_rma *rma, bool is_put);

/* Begins to flush the owner's puts into a target's memory, or into all (-1). The flush counts as a pending
 * operation until it is complete there. Called if win->has_unflushed. Never switches. */
void ampi_rma_access_flush(struct ampi_win *win, int rank);

/* The key of the owner's memory for others, malloc'ed; NULL: it can be accessed by messages only. */
void *ampi_rma_access_pack_key(struct ampi_win *win, size_t *n_bytes_out);

/* Handles a member's key (n_bytes 0: it has none). On the owner's PE. */
void ampi_rma_access_handle_key(struct ampi_win *win, int rank, const void *packed, size_t n_bytes);

/* Called when the owner frees a window over several processes, after all members have ended their epochs. On
 * its PE. */
void ampi_rma_access_release(struct ampi_win *win);

#endif
