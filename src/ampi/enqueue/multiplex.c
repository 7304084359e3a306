/* SPDX-License-Identifier: BSD-3-Clause
 *
 * multiplex.c: messages between streams: MPIX_Stream_send and the like, on communicators of
 * MPIX_Stream_comm_create_multiplex (heddle_mpi_stream.h).
 *
 * They are ordinary messages of the communicator's hidden one BY_STREAM (comm.h), whose members are streams, so the matching
 * engine tells them apart, and messages of ordinary calls do not match them. The program's request is an outer one: its
 * status has the rank instead of the stream, and its errors are raised on the program's communicator.
 */
#include "ampi/enqueue/enqueue.h"

/* ---- The outer request; its `extra` is the inner one, NULL once that is complete ---- */

static int cancel(struct ampi_request *outer)
{
    struct ampi_request *inner = outer->u.extra;

    return inner ? inner->kind->cancel(inner) : MPI_SUCCESS;
}

static const struct ampi_request_kind between_streams_kind = {
    .name = "message between streams",
    .cancel = cancel,
};

static void inner_done(struct ampi_request *inner, struct ampi_request *outer)
{
    outer->status = inner->status;
    outer->status.MPI_SOURCE = ampi_match_rank_of(&inner->comm->match, inner->status.MPI_SOURCE);
    outer->u.extra = NULL;
    ampi_request_destroy(inner);
    ampi_request_complete(outer);
}

/* The inner request has been started: gives the program its outer one, or waits if request_out is NULL. */
static int finish(struct ampi_comm *comm, struct ampi_request *inner, MPI_Status *status,
                  MPI_Request *request_out)
{
    struct ampi_request *outer = ampi_request_create(comm->owner, &between_streams_kind, comm, false);
    MPI_Request handle = (MPI_Request)outer;
    MPI_Status result;

    outer->u.extra = inner;
    ampi_request_attach(outer, inner, inner_done);
    if (request_out) {
        *request_out = handle;
        return MPI_SUCCESS;
    }
    ampi_request_await(outer);
    result = outer->status;
    comm->n_pending++; /* another thread may free it */
    (void)ampi_request_retire(&handle, outer, status);
    result.MPI_ERROR = ampi_p2p_result(comm, &result);
    ampi_comm_drop_pending(comm);
    return result.MPI_ERROR;
}

/* ---- The members of the hidden communicator ---- */

static int check_index(struct ampi_comm *comm, const char *end, int index, int n)
{
    return index >= 0 && index < n
               ? MPI_SUCCESS
               : ampi_raise(comm, MPI_ERR_ARG, "the %s stream index is %d, but there are %d streams", end,
                            index, n);
}

/* Finds the handle of the caller's stream. end: the caller's end of the message. */
static int find_own(struct ampi_comm *comm, const char *end, int index, struct ampi_comm **handle_out)
{
    struct ampi_comm_shared *hidden;
    int error;

    if (!comm->streams || !comm->streams->is_multiplex)
        return ampi_raise(comm, MPI_ERR_COMM,
                          "the communicator is not one of MPIX_Stream_comm_create_multiplex");
    if ((error = check_index(comm, end, index, comm->streams->n)))
        return error;
    hidden = ampi_comm_hidden_shared(comm->shared, AMPI_COMM_BY_STREAM);
    if (!hidden)
        return ampi_raise(comm, MPI_ERR_OTHER,
                          "no context id is left: free communicators that are not needed");
    *handle_out = &hidden->side[0].handles[comm->rank * comm->shared->n_streams + index];
    return MPI_SUCCESS;
}

/* The source of a receive in the hidden communicator. */
static int find_source(struct ampi_comm *comm, int rank, int index, int *source_out)
{
    int n = comm->shared->n_streams, error;

    if (rank == MPI_PROC_NULL || (rank == MPI_ANY_SOURCE && index == MPIX_ANY_INDEX)) {
        *source_out = rank;
    } else if (index == MPIX_ANY_INDEX) {
        *source_out = AMPI_MATCH_RANK(rank);
    } else {
        error =
            check_index(comm, "source", index, rank == MPI_ANY_SOURCE ? n : comm->shared->n_streams_of[rank]);
        if (error)
            return error;
        *source_out = rank == MPI_ANY_SOURCE ? AMPI_MATCH_STREAM(index) : rank * n + index;
    }
    return MPI_SUCCESS;
}

/* ---- The functions. request NULL: a blocking one ---- */

static int send(struct ampi_send_args args, MPI_Datatype type, MPI_Comm comm_handle, int source_index,
                int dest_index, MPI_Request *request)
{
    int error = ampi_check_send(ampi_self(), type, comm_handle, &args);
    struct ampi_comm *comm = args.comm;
    struct ampi_request *inner;

    if (error || (error = find_own(comm, "source", source_index, &args.comm)))
        return error;
    if (args.dest != MPI_PROC_NULL) {
        error = check_index(comm, "destination", dest_index, comm->shared->n_streams_of[args.dest]);
        if (error)
            return error;
        args.dest = args.dest * comm->shared->n_streams + dest_index;
    }
    inner = ampi_send_start(comm->owner, &args);
    if (inner != &ampi_request_done)
        return finish(comm, inner, MPI_STATUS_IGNORE, request);
    if (request)
        *request = (MPI_Request)inner;
    return MPI_SUCCESS;
}

static int recv(struct ampi_recv_args args, MPI_Datatype type, MPI_Comm comm_handle, int source_index,
                int dest_index, MPI_Status *status, MPI_Request *request)
{
    int error = ampi_check_recv(ampi_self(), type, comm_handle, &args);
    struct ampi_comm *comm = args.comm;

    if (error || (error = find_own(comm, "destination", dest_index, &args.comm)) ||
        (error = find_source(comm, args.source, source_index, &args.source)))
        return error;
    return finish(comm, ampi_recv_start(comm->owner, &args), status, request);
}

static int isend(struct ampi_send_args args, MPI_Datatype type, MPI_Comm comm, int source_index,
                 int dest_index, MPI_Request *request)
{
    return request ? send(args, type, comm, source_index, dest_index, request)
                   : ampi_raise_self(MPI_ERR_ARG, "the address of the request is NULL");
}

static int blocking_recv(struct ampi_recv_args args, MPI_Datatype type, MPI_Comm comm, int source_index,
                         int dest_index, MPI_Status *status)
{
    return recv(args, type, comm, source_index, dest_index, status, NULL);
}

static int irecv(struct ampi_recv_args args, MPI_Datatype type, MPI_Comm comm, int source_index,
                 int dest_index, MPI_Request *request)
{
    return request ? recv(args, type, comm, source_index, dest_index, MPI_STATUS_IGNORE, request)
                   : ampi_raise_self(MPI_ERR_ARG, "the address of the request is NULL");
}

/* A function by its parameters behind the stream indices, and the last argument. */
#define SEND(name, COUNT, function, last, ...)                                                        \
    AMPI_ENQUEUE_FORM(name, function,                                                                 \
                      (const void *buf, COUNT count, MPI_Datatype datatype, int dest, int tag,        \
                       MPI_Comm comm, int source_stream_index, int dest_stream_index __VA_ARGS__),    \
                      ((struct ampi_send_args){.buf = buf, .count = count, .dest = dest, .tag = tag}, \
                       datatype, comm, source_stream_index, dest_stream_index, last))
#define RECV(name, COUNT, function, last, ...)                                                            \
    AMPI_ENQUEUE_FORM(name, function,                                                                     \
                      (void *buf, COUNT count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, \
                       int source_stream_index, int dest_stream_index, __VA_ARGS__),                      \
                      ((struct ampi_recv_args){.buf = buf, .count = count, .source = source, .tag = tag}, \
                       datatype, comm, source_stream_index, dest_stream_index, last))

SEND(MPIX_Stream_send, int, send, NULL)
SEND(MPIX_Stream_send_c, MPI_Count, send, NULL)
SEND(MPIX_Stream_isend, int, isend, request, , MPI_Request *request)
SEND(MPIX_Stream_isend_c, MPI_Count, isend, request, , MPI_Request *request)
RECV(MPIX_Stream_recv, int, blocking_recv, status, MPI_Status *status)
RECV(MPIX_Stream_recv_c, MPI_Count, blocking_recv, status, MPI_Status *status)
RECV(MPIX_Stream_irecv, int, irecv, request, MPI_Request *request)
RECV(MPIX_Stream_irecv_c, MPI_Count, irecv, request, MPI_Request *request)
