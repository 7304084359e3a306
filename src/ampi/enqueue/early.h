/* SPDX-License-Identifier: BSD-3-Clause
 *
 * early.h: small enqueued sends and receives that match at the call, before the stream comes to them. So
 * GPUs can exchange the data without the CPU (gpu.h: slots). For enqueue.c.
 *
 * The ordinary matching engine matches them: the call of a send queues a request at the destination, the
 * call of a receive posts one. So they match in the order of the calls, also with other messages. The cases:
 *
 *      early send     early receive, waited for by the stream     the stream's kernel is told the slot; the PE does no more
 *      early send     early receive, not (yet) waited for         the PE moves the data when the slot is full and the receive's
 *                                                                 stream has come to it, unless the stream waits before that
 *      early send     ordinary receive                            the PE moves the data when the slot is full
 *      ordinary send  early receive                               the PE moves the data when the stream has come to the receive,
 *                                                                 and tells a kernel that waits
 *
 * A send is complete when its data is in the slot. An operation that needs the PE, because of its buffer or
 * size, matches when the stream has come to it. Until then later operations of the stream are not early
 * either, so that they do not overtake it (ampi_stream.n_late).
 */
#ifndef AMPI_EARLY_H
#define AMPI_EARLY_H

#include "ampi/enqueue/enqueue.h"

/* An early operation of a stream. */
struct ampi_early;

/* Returns NULL if the PE has to do the operation. Otherwise `outer` gets the status, and becomes complete
 * when the program may use its buffer again; for a receive for which the stream waits, when the stream has
 * passed that wait. Never switches. */
struct ampi_early *ampi_early_create(const struct ampi_enqueue *what, struct ampi_request *outer);

/* Enqueues the operation. If is_awaited, the stream waits for the receive, and *status (or
 * MPI_STATUS_IGNORE) is filled in before the stream continues. Returns CUDA's error: then nothing is
 * enqueued, and the early operation and its inner request are freed. May switch. */
int ampi_early_enqueue(struct ampi_early *early, bool is_awaited, MPI_Status *status) BASE_MUST_CHECK;

/* True if the stream can wait for it: a receive without a wait, whose data the PE has not begun to move. */
bool ampi_early_can_wait(const struct ampi_early *early);

/* True if a hold has to make the stream wait: the PE moves the data of this receive. */
bool ampi_early_needs_hold(const struct ampi_early *early);

/* Makes the stream wait for n receives for which ampi_early_can_wait is true. Returns CUDA's error. May
 * switch. */
int ampi_early_wait(struct ampi_early *const *recvs, MPI_Status *const *statuses, int n) BASE_MUST_CHECK;

bool ampi_early_is_send(const struct ampi_early *early);

#endif
