/* SPDX-License-Identifier: BSD-3-Clause
 *
 * channel.h: channels: a persistent send and a persistent receive of ranks of one PE that have matched are
 * *bound* to each other (docs/decisions/0034-channels.md).
 *
 * A channel is a remembered match. If MPI's order could give the message of a Start to another receive, or another
 * message to the receive, the Start takes the ordinary path. The requests stay bound. A channel has no message: a
 * Start of the send completes both requests if the receive is posted, and else takes the ordinary path.
 *
 * Invariants:
 *   1. A bound receive's node is in its engine's table of bound receives (match.h) instead of the table of
 *      posted ones. So ordinary messages with its key find it there, and order it among other receives.
 *   2. A bound send's `channel` names the bound receive, whose `bound_send` names the send. Freeing either
 *      ends this: a send becomes ordinary at once, a receive at its next Start.
 *   3. The receive has room for the message. If either buffer is in GPU memory, a Start of the send starts the move
 *      between them.
 *
 *      ordinary  --MPI_Start of the send finds the receive: ampi_channel_bind-->  bound
 *      bound     --release_send, release_recv, leave-->                           ordinary
 */
#ifndef AMPI_P2P_CHANNEL_H
#define AMPI_P2P_CHANNEL_H

#include "ampi/p2p/p2p.h"

/* MPI_Start of an ordinary persistent send: binds it to the persistent receive that is posted and that its
 * message would match. False: there is none, or they cannot be bound. On the PE of both. Never switches. */
bool ampi_channel_bind(struct ampi_request *send);

extern const struct ampi_request_kind ampi_channel_send_kind;
extern const struct ampi_request_kind ampi_channel_recv_kind;

#endif
