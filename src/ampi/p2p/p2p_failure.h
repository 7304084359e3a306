/* SPDX-License-Identifier: BSD-3-Clause
 *
 * p2p_failure.h: point-to-point operations with ranks whose process is lost. They fail with
 * MPI_ERR_PROC_ABORTED: those under way when a PE hears of the loss (procs/failure.c), later ones when they
 * would have to wait.
 *
 * A receive or probe of MPI_ANY_SOURCE fails as soon as one rank that it could hear from is lost, as it may
 * wait for that one. A message that is there already is received as ever, whoever sent it.
 */
#ifndef AMPI_P2P_FAILURE_H
#define AMPI_P2P_FAILURE_H

#include "ampi/p2p/message.h"

/* The owner's receives and probe that cannot be sure of their sender any more fail. On the owner's PE. */
void ampi_p2p_lose(struct ampi_comm *comm);

/* Can a receive or probe from there not be served for sure? May be asked at any time. */
bool ampi_p2p_is_lost(const struct ampi_comm *comm, int source);

/* Fails a receive that was not posted. */
void ampi_p2p_fail_recv(struct ampi_request *request);

/* Raises the error: the text names the process. comm NULL: on MPI_COMM_SELF. */
int ampi_p2p_raise_lost(struct ampi_comm *comm);

/* The PE's sends that wait to be matched there fail. (remote_send.c) */
void ampi_remote_lose(int pe_id, int proc_id);

/* `away` of a handle that is marked as failed, unless it is a message. */
extern struct ampi_message ampi_message_lost_mark;

#endif
