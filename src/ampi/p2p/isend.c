/* SPDX-License-Identifier: BSD-3-Clause
 *
 * isend.c: the other ways to send and receive (MPI 5.0, sections 3.4, 3.7 and 3.10): synchronous and ready
 * mode, nonblocking forms, and send and receive in one call.
 */
#include "ampi/p2p/p2p.h"

/* A blocking send in any mode but buffered. */
static int send_in_mode(struct ampi_rank *self, struct ampi_send_args *args, MPI_Datatype datatype,
                        MPI_Comm comm)
{
    int error = ampi_check_send(self, datatype, comm, args);

    if (BASE_UNLIKELY(error))
        return error;
    return ampi_send_blocking(self, args);
}

/* A nonblocking one. */
static int isend_in_mode(struct ampi_rank *self, struct ampi_send_args *args, MPI_Datatype datatype,
                         MPI_Comm comm, MPI_Request *request)
{
    int error = ampi_check_send(self, datatype, comm, args);

    if (BASE_UNLIKELY(error))
        return error;
    if (BASE_UNLIKELY(!request))
        return ampi_raise(args->comm, MPI_ERR_ARG, "the address of the request is NULL");
    *request = (MPI_Request)ampi_send_start(self, args);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Ssend);
int PMPI_Ssend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    return PMPI_Ssend_c(buf, count, datatype, dest, tag, comm);
}

AMPI_EXPORT(Ssend_c);
int PMPI_Ssend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    struct ampi_send_args args = {
        .buf = buf, .count = count, .dest = dest, .tag = tag, .mode = AMPI_SEND_SYNCHRONOUS};

    return send_in_mode(ampi_enter("MPI_Ssend"), &args, datatype, comm);
}

AMPI_EXPORT(Rsend);
int PMPI_Rsend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    return PMPI_Rsend_c(buf, count, datatype, dest, tag, comm);
}

AMPI_EXPORT(Rsend_c);
int PMPI_Rsend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    struct ampi_send_args args = {
        .buf = buf, .count = count, .dest = dest, .tag = tag, .mode = AMPI_SEND_READY};

    return send_in_mode(ampi_enter("MPI_Rsend"), &args, datatype, comm);
}

AMPI_EXPORT(Isend);
int PMPI_Isend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    return PMPI_Isend_c(buf, count, datatype, dest, tag, comm, request);
}

AMPI_EXPORT(Isend_c);
BASE_FLATTEN int PMPI_Isend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                              MPI_Comm comm, MPI_Request *request)
{
    struct ampi_send_args args = {
        .buf = buf, .count = count, .dest = dest, .tag = tag, .mode = AMPI_SEND_STANDARD};

    return isend_in_mode(ampi_enter("MPI_Isend"), &args, datatype, comm, request);
}

AMPI_EXPORT(Issend);
int PMPI_Issend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                MPI_Request *request)
{
    return PMPI_Issend_c(buf, count, datatype, dest, tag, comm, request);
}

AMPI_EXPORT(Issend_c);
int PMPI_Issend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                  MPI_Request *request)
{
    struct ampi_send_args args = {
        .buf = buf, .count = count, .dest = dest, .tag = tag, .mode = AMPI_SEND_SYNCHRONOUS};

    return isend_in_mode(ampi_enter("MPI_Issend"), &args, datatype, comm, request);
}

AMPI_EXPORT(Irsend);
int PMPI_Irsend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                MPI_Request *request)
{
    return PMPI_Irsend_c(buf, count, datatype, dest, tag, comm, request);
}

AMPI_EXPORT(Irsend_c);
int PMPI_Irsend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                  MPI_Request *request)
{
    struct ampi_send_args args = {
        .buf = buf, .count = count, .dest = dest, .tag = tag, .mode = AMPI_SEND_READY};

    return isend_in_mode(ampi_enter("MPI_Irsend"), &args, datatype, comm, request);
}

AMPI_EXPORT(Irecv);
int PMPI_Irecv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    return PMPI_Irecv_c(buf, count, datatype, source, tag, comm, request);
}

AMPI_EXPORT(Irecv_c);
BASE_FLATTEN int PMPI_Irecv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                              MPI_Comm comm, MPI_Request *request)
{
    struct ampi_rank *self = ampi_enter("MPI_Irecv");
    struct ampi_recv_args args = {.buf = buf, .count = count, .source = source, .tag = tag};
    int error = ampi_check_recv(self, datatype, comm, &args);

    if (BASE_UNLIKELY(error))
        return error;
    if (BASE_UNLIKELY(!request))
        return ampi_raise(args.comm, MPI_ERR_ARG, "the address of the request is NULL");
    *request = (MPI_Request)ampi_recv_start(self, &args);
    return MPI_SUCCESS;
}
