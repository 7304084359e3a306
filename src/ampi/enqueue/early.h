/* SPDX-License-Identifier: BSD-3-Clause
 *
 * early.h: small enqueued sends and receives that match at the call, before the stream comes to them, so that the GPUs exchange the
 * data by themselves (gpu.h: slots). For enqueue.c.
 *
 * The ordinary engine matches them: the call of a send makes a request wait at the destination, and that of a receive posts one. So
 * their order, among themselves and with all other messages, is that of the calls. What may have matched:
 *
 *      early send     early receive, waited for by the stream     the stream's kernel is told the slot; the PE does no more
 *      early send     early receive, not (yet) waited for         the PE moves the data when the slot is full and the receive's
 *                                                                 stream has come to it, unless the stream waits before that
 *      early send     ordinary receive                            the PE moves the data when the slot is full
 *      ordinary send  early receive                               the PE moves the data when the stream has come to the receive,
 *                                                                 and tells a kernel that waits
 *
 * A send is complete when its data is in the slot. An operation that needs the PE, because of its buffer or size, matches
 * when the stream has come to it. It must not be overtaken: until then, later ones are not early either (ampi_stream.n_late).
 */
#ifndef AMPI_EARLY_H
#define AMPI_EARLY_H

#include "ampi/enqueue/enqueue.h"

/* An early operation of a stream. */
struct ampi_early;

/* NULL: the PE has to do it. Else `outer` gets the status and is completed when the program may use its buffer again, or,
 * for a receive that the stream waits for, when the stream has passed that wait. Never switches. */
struct ampi_early *ampi_early_create(const struct ampi_enqueue *what, struct ampi_request *outer);

/* Enqueues it. The stream waits for a receive if is_awaited; *status (which may be MPI_STATUS_IGNORE) is filled in
 * before the stream goes on. Returns CUDA's error: then nothing was enqueued, and the early operation and the inner request
 * have been dropped. May switch. */
int ampi_early_enqueue(struct ampi_early *early, bool is_awaited, MPI_Status *status) BASE_MUST_CHECK;

/* True for a receive that the stream does not wait for, and that the PE has not begun to receive. */
bool ampi_early_can_wait(const struct ampi_early *early);

/* True for a receive that the PE receives, so that the stream has to wait for the PE. */
bool ampi_early_needs_hold(const struct ampi_early *early);

/* Makes the stream wait for n receives for which that is true. Returns CUDA's error; may switch. */
int ampi_early_wait(struct ampi_early *const *recvs, MPI_Status *const *statuses, int n) BASE_MUST_CHECK;

bool ampi_early_is_send(const struct ampi_early *early);

#endif
