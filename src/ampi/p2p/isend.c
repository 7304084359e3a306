/* SPDX-License-Identifier: BSD-3-Clause
 *
 * isend.c: the other ways to send and receive (MPI 5.0, sections 3.4, 3.7 and 3.10): synchronous and ready
 * mode, nonblocking forms, and send and receive in one call.
 */
#include "ampi/p2p/p2p_calls.h"

int ampi_send_in_mode(struct ampi_rank *self, enum ampi_send_mode mode, struct ampi_send_args *args,
                      MPI_Datatype datatype, MPI_Comm comm)
{
    int error = ampi_check_send(self, datatype, comm, args);

    if (BASE_UNLIKELY(error))
        return error;
    args->mode = mode;
    return ampi_send_blocking(self, args);
}

int ampi_isend_in_mode(struct ampi_rank *self, enum ampi_send_mode mode, struct ampi_send_args *args,
                       MPI_Datatype datatype, MPI_Comm comm, MPI_Request *request)
{
    int error = ampi_check_send(self, datatype, comm, args);

    if (BASE_UNLIKELY(error))
        return error;
    if (BASE_UNLIKELY(!request))
        return ampi_raise(args->comm, MPI_ERR_ARG, "the address of the request is NULL");
    args->mode = mode;
    *request = (MPI_Request)ampi_send_start(self, args);
    return MPI_SUCCESS;
}

/* MPI_Isend and MPI_Isend_c. */
static BASE_NOINLINE BASE_FLATTEN int isend_either(const void *buf, MPI_Count count, MPI_Datatype datatype,
                                                   int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_send_args args = {.buf = buf, .count = count, .dest = dest, .tag = tag};

    return ampi_isend_in_mode(ampi_entered(), AMPI_SEND_STANDARD, &args, datatype, comm, request);
}

AMPI_EXPORT(Isend);
int PMPI_Isend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    ampi_enter("MPI_Isend");
    return isend_either(buf, count, datatype, dest, tag, comm, request);
}

AMPI_EXPORT(Isend_c);
int PMPI_Isend_c(const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                 MPI_Request *request)
{
    ampi_enter("MPI_Isend_c");
    return isend_either(buf, count, datatype, dest, tag, comm, request);
}

/* MPI_Irecv and MPI_Irecv_c. */
static BASE_NOINLINE BASE_FLATTEN int irecv_either(void *buf, MPI_Count count, MPI_Datatype datatype,
                                                   int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_rank *self = ampi_entered();
    struct ampi_recv_args args = {.buf = buf, .count = count, .source = source, .tag = tag};
    int error = ampi_check_recv(self, datatype, comm, &args);

    if (BASE_UNLIKELY(error))
        return error;
    if (BASE_UNLIKELY(!request))
        return ampi_raise(args.comm, MPI_ERR_ARG, "the address of the request is NULL");
    *request = (MPI_Request)ampi_recv_start(self, &args);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Irecv);
int PMPI_Irecv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    ampi_enter("MPI_Irecv");
    return irecv_either(buf, count, datatype, source, tag, comm, request);
}

AMPI_EXPORT(Irecv_c);
int PMPI_Irecv_c(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                 MPI_Request *request)
{
    ampi_enter("MPI_Irecv_c");
    return irecv_either(buf, count, datatype, source, tag, comm, request);
}
