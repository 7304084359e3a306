/* SPDX-License-Identifier: BSD-3-Clause
 *
 * p2p_calls.h: the functions behind the entry points of point-to-point communication (p2p.bindings). self
 * is the calling rank; args have the program's arguments, without mode, type and communicator, which are
 * filled in after the checks. All raise their errors and return them. Blocking ones may switch.
 */
#ifndef AMPI_P2P_CALLS_H
#define AMPI_P2P_CALLS_H

#include "ampi/p2p/bsend_buffer.h"

/* ---- Synchronous and ready mode, nonblocking sends (isend.c), persistent requests (persistent.c) ---- */

int ampi_send_in_mode(struct ampi_rank *self, enum ampi_send_mode mode, struct ampi_send_args *args,
                      MPI_Datatype datatype, MPI_Comm comm);
int ampi_isend_in_mode(struct ampi_rank *self, enum ampi_send_mode mode, struct ampi_send_args *args,
                       MPI_Datatype datatype, MPI_Comm comm, MPI_Request *request);
int ampi_send_init(struct ampi_rank *self, enum ampi_send_mode mode, struct ampi_send_args *args,
                   MPI_Datatype datatype, MPI_Comm comm, MPI_Request *request);
int ampi_recv_init(struct ampi_rank *self, struct ampi_recv_args *args, MPI_Datatype datatype, MPI_Comm comm,
                   MPI_Request *request);

/* Finds a persistent request that can be started. Raises MPI_ERR_REQUEST if it is not persistent, or is
 * active. */
int ampi_check_start(MPI_Request handle, struct ampi_request **object_out) BASE_MUST_CHECK;

/* ---- Receiving a matched message (probe.c) ---- */

int ampi_mrecv(struct ampi_rank *self, void *buf, MPI_Count count, MPI_Datatype datatype,
               MPI_Message *message, MPI_Status *status);
int ampi_imrecv(struct ampi_rank *self, void *buf, MPI_Count count, MPI_Datatype datatype,
                MPI_Message *message, MPI_Request *request);

/* ---- Sending and receiving in one call (sendrecv.c) ---- */

struct ampi_sendrecv_args {
    struct ampi_send_args send;
    struct ampi_recv_args recv;
};

int ampi_sendrecv(struct ampi_rank *self, struct ampi_sendrecv_args *both, MPI_Datatype sendtype,
                  MPI_Datatype recvtype, MPI_Comm comm, MPI_Status *status);
int ampi_isendrecv(struct ampi_rank *self, struct ampi_sendrecv_args *both, MPI_Datatype sendtype,
                   MPI_Datatype recvtype, MPI_Comm comm, MPI_Request *request);

/* Sends a packed copy of the data, because both halves have the same buffer. */
int ampi_sendrecv_replace(struct ampi_rank *self, struct ampi_sendrecv_args *both, MPI_Datatype datatype,
                          MPI_Comm comm, MPI_Status *status);
int ampi_isendrecv_replace(struct ampi_rank *self, struct ampi_sendrecv_args *both, MPI_Datatype datatype,
                           MPI_Comm comm, MPI_Request *request);

/* ---- Buffered mode, and the buffers of ranks, communicators and sessions (bsend.c) ---- */

int ampi_bsend_call(struct ampi_rank *self, struct ampi_send_args *args, MPI_Datatype datatype,
                    MPI_Comm comm);
int ampi_ibsend(struct ampi_rank *self, struct ampi_send_args *args, MPI_Datatype datatype, MPI_Comm comm,
                MPI_Request *request);
int ampi_bsend_init(struct ampi_rank *self, struct ampi_send_args *args, MPI_Datatype datatype, MPI_Comm comm,
                    MPI_Request *request);

int ampi_bsend_attach_comm(struct ampi_rank *self, MPI_Comm comm, void *buffer, MPI_Count size_bytes);
int ampi_bsend_attach_session(MPI_Session session, void *buffer, MPI_Count size_bytes);

/* size_out: an MPI_Count if is_large, else an int; MPI_ERR_VALUE_TOO_LARGE if the size does not fit there. */
int ampi_bsend_detach_rank(struct ampi_rank *self, void *buffer_addr, void *size_out, bool is_large);
int ampi_bsend_detach_comm(struct ampi_rank *self, MPI_Comm comm, void *buffer_addr, void *size_out,
                           bool is_large);
int ampi_bsend_detach_session(MPI_Session session, void *buffer_addr, void *size_out, bool is_large);

#endif
