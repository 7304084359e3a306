/* SPDX-License-Identifier: BSD-3-Clause
 *
 * remote.h: the third route of a message: to and from a rank of another process.
 *
 * Small data is copied and sent without a request. Otherwise the sender's request waits until its buffer
 * may be changed and, in synchronous mode, until the match is reported. Data that arrived with its header
 * stays in the machine's memory, or is copied if it is small; other data stays at the sender and is fetched
 * directly into the receive's buffer at the match.
 */
#ifndef AMPI_P2P_REMOTE_H
#define AMPI_P2P_REMOTE_H

#include "ampi/p2p/message.h"
#include "ampi/p2p/p2p.h"

/* ampi_send_try for another process: true if the message has left or is in the library's memory. */
bool ampi_remote_try_send(struct ampi_rank *self, const struct ampi_send_args *args, size_t n_bytes);

/* Starts the (ACTIVE) send request, whose destination is in another process; it may be COMPLETE on return. */
void ampi_remote_send(struct ampi_rank *self, struct ampi_request *request);

/* +check usage: sends up to 256 bytes about the data of a send that starts now. */
void ampi_remote_announce(const struct ampi_send_args *args, const void *bytes, size_t n_bytes);

/* Asks the destination to return the message of the (ACTIVE) send request if it has not matched; the
 * request waits for the answer. (remote_send.c) */
void ampi_remote_cancel(struct ampi_request *request);

/* Drops a message that is in no table, because its communicator is freed; keeps it if its sender may still
 * cancel it. owner: the rank that it was sent to. Called on that rank's PE. (remote_cancel.c) */
void ampi_remote_drop(struct ampi_rank *owner, struct ampi_message *message);

/* True if a kept message's data is still at its sender: receiving it needs a request. */
bool ampi_remote_is_away(const struct ampi_message *message);

/* Receives such a message, or one that is here into a GPU buffer, with an (ACTIVE) request, which completes
 * when the data has arrived; frees the message. */
void ampi_remote_receive(struct ampi_message *message, struct ampi_request *recv);

/* ampi_message_consume for messages that are remote and not away. */
void ampi_remote_consume(struct ampi_rank *self, struct ampi_message *message, void *buf, MPI_Count count,
                         const struct ampi_type *type, MPI_Status *status);

/* ---- On the destination's PE (p2p_connect.c) ---- */

bool ampi_remote_handle(int pe_id, const struct ampi_am_header *am, const struct machine_data *data);
void ampi_remote_handle_ack(const struct ampi_am_header *am);
void ampi_remote_handle_cancelled(const struct ampi_am_header *am);
void ampi_remote_handle_credit(int pe_id, const struct ampi_am_header *am);

/* Retries messages to communicators that this process has not created yet. */
int ampi_remote_retry(int pe_id);
bool ampi_remote_must_retry(int pe_id);

#endif
