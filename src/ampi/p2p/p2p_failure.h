/* SPDX-License-Identifier: BSD-3-Clause
 *
 * p2p_failure.h: point-to-point operations with ranks whose process has failed. They fail with
 * MPI_ERR_PROC_ABORTED: pending ones when their PE handles the failure (procs/failure.c), later ones when
 * they would have to wait.
 *
 * A receive or probe of MPI_ANY_SOURCE fails as soon as one of its possible senders has failed, because it
 * may wait for that one. A message that has arrived is received as usual, even from a failed sender.
 */
#ifndef AMPI_P2P_FAILURE_H
#define AMPI_P2P_FAILURE_H

#include "ampi/p2p/message.h"

/* Fails the owner's receives and probe that may wait for a failed sender. On the owner's PE. */
void ampi_p2p_handle_failure(struct ampi_comm *comm);

/* True if a receive or probe from this source may wait for a failed sender. May be called at any time. */
bool ampi_p2p_is_failed(const struct ampi_comm *comm, int source);

/* Fails a receive that was not posted. */
void ampi_p2p_fail_recv(struct ampi_request *request);

/* Raises the error: the text names the process. comm NULL: on MPI_COMM_SELF. */
int ampi_p2p_raise_failed(struct ampi_comm *comm);

/* Fails the PE's sends that wait to be matched in that process. (remote_send.c) */
void ampi_remote_handle_failure(int pe_id, int proc_id);

/* Value of `away` in a handle that is marked as failed and has no such message. */
extern struct ampi_message ampi_message_failed_mark;

#endif
