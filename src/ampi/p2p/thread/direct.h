/* SPDX-License-Identifier: BSD-3-Clause
 *
 * direct.h: direct calls: functions of MPI on endpoints (endpoint.h), without entering the PE. The gates of
 * MPI's functions (tools/gen_gates.py) call them first.
 *
 * They return false, without an effect, if the call has to be made in the ordinary way, with the PE entered;
 * else *result_out is the result of the call. call and from: as for ampi_gate_enter.
 */
#ifndef AMPI_P2P_DIRECT_H
#define AMPI_P2P_DIRECT_H

#include "ampi/p2p/thread/endpoint.h"

/* The call of a function of MPI. */
struct ampi_direct_call {
    const char *name;
    const void *from;
    int result;
};

bool ampi_direct_send(struct ampi_direct_call *call, const void *buf, MPI_Count count, MPI_Datatype datatype,
                      int dest, int tag, MPI_Comm comm);
bool ampi_direct_isend(struct ampi_direct_call *call, const void *buf, MPI_Count count, MPI_Datatype datatype,
                       int dest, int tag, MPI_Comm comm, MPI_Request *request);
bool ampi_direct_recv(struct ampi_direct_call *call, void *buf, MPI_Count count, MPI_Datatype datatype,
                      int source, int tag, MPI_Comm comm, MPI_Status *status);
bool ampi_direct_irecv(struct ampi_direct_call *call, void *buf, MPI_Count count, MPI_Datatype datatype,
                       int source, int tag, MPI_Comm comm, MPI_Request *request);
bool ampi_direct_sendrecv(struct ampi_direct_call *call, const void *sendbuf, MPI_Count sendcount,
                          MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf, MPI_Count recvcount,
                          MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status *status);
bool ampi_direct_wait(struct ampi_direct_call *call, MPI_Request *request, MPI_Status *status);
bool ampi_direct_waitall(struct ampi_direct_call *call, int count, MPI_Request requests[],
                         MPI_Status statuses[]);
bool ampi_direct_test(struct ampi_direct_call *call, MPI_Request *request, int *flag, MPI_Status *status);

/* Drops n private requests of one handle, linked by next, for which no thread waits. (direct_requests.c) */
void ampi_direct_drop(const struct ampi_direct_call *call, struct ampi_request *first,
                      struct ampi_request *last, int n);

/* ---- For any other function, called before it, with the PE entered ---- */

/* The function uses the matching engine of the handle; of the destination's handle. */
void ampi_direct_leave(MPI_Comm comm);
void ampi_direct_leave_to(MPI_Comm comm, int dest);

/* The function frees the communicator. */
void ampi_direct_close(const MPI_Comm *comm);

/* The function has these requests as arguments. */
void ampi_direct_publish(int count, const MPI_Request requests[]);

/* The function cancels the request. */
void ampi_direct_cancel(const MPI_Request *request);

#endif
