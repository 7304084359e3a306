/* SPDX-License-Identifier: BSD-3-Clause
 *
 * enqueue_p2p.c: MPIX_Send_enqueue, MPIX_Recv_enqueue and their nonblocking forms (heddle_mpi_stream.h).
 */
#include "ampi/enqueue/captured.h"
#include "ampi/object/gate.h"

/* The same operation for a stream that is being captured. */
static struct ampi_captured_args captured_send(const char *call, const struct ampi_send_args *args,
                                               struct ampi_stream *stream)
{
    return (struct ampi_captured_args){.call = call,
                                       .is_send = true,
                                       .buf = (void *)args->buf,
                                       .count = args->count,
                                       .type = args->type,
                                       .peer = args->dest,
                                       .tag = args->tag,
                                       .comm = args->comm,
                                       .stream = stream};
}

static struct ampi_captured_args captured_recv(const char *call, const struct ampi_recv_args *args,
                                               struct ampi_stream *stream)
{
    return (struct ampi_captured_args){.call = call,
                                       .buf = args->buf,
                                       .count = args->count,
                                       .type = args->type,
                                       .peer = args->source,
                                       .tag = args->tag,
                                       .comm = args->comm,
                                       .stream = stream};
}

/* request NULL: the stream waits until the message is sent. */
static int enqueue_send(const char *call, struct ampi_send_args *args, MPI_Datatype type, MPI_Comm comm,
                        MPI_Request *request)
{
    struct ampi_enqueue what = {.call = call, .name = "enqueued send", .start = ampi_enqueue_start_p2p};
    struct ampi_captured_args captured;
    uint64_t capture;
    int error = ampi_check_send(ampi_self(), type, comm, args);

    if (error || (error = ampi_enqueue_stream(args->comm, !request, &what.stream)))
        return error;
    if (BASE_UNLIKELY(gpu_sync_is_captured(what.stream->sync, &capture))) {
        captured = captured_send(call, args, what.stream);
        return request ? ampi_captured_nonblocking(&captured, capture, request)
                       : ampi_captured_blocking(&captured, MPI_STATUS_IGNORE, capture);
    }
    args->mode = AMPI_SEND_STANDARD;
    what.inner = ampi_enqueue_create_send(args);
    return request ? ampi_enqueue_nonblocking(&what, request)
                   : ampi_enqueue_blocking(&what, MPI_STATUS_IGNORE);
}

/* request NULL: the stream waits until the message is received; then status gets its status. */
static int enqueue_recv(const char *call, struct ampi_recv_args *args, MPI_Datatype type, MPI_Comm comm,
                        MPI_Status *status, MPI_Request *request)
{
    struct ampi_enqueue what = {.call = call, .name = "enqueued receive", .start = ampi_enqueue_start_p2p};
    struct ampi_captured_args captured;
    uint64_t capture;
    int error = ampi_check_recv(ampi_self(), type, comm, args);

    if (error || (error = ampi_enqueue_stream(args->comm, !request, &what.stream)))
        return error;
    if (BASE_UNLIKELY(gpu_sync_is_captured(what.stream->sync, &capture))) {
        captured = captured_recv(call, args, what.stream);
        return request ? ampi_captured_nonblocking(&captured, capture, request)
                       : ampi_captured_blocking(&captured, status, capture);
    }
    what.inner = ampi_enqueue_create_recv(args);
    return request ? ampi_enqueue_nonblocking(&what, request) : ampi_enqueue_blocking(&what, status);
}

static int send(const char *call, const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag,
                MPI_Comm comm)
{
    struct ampi_send_args args = {.buf = buf, .count = count, .dest = dest, .tag = tag};

    return enqueue_send(call, &args, type, comm, NULL);
}

static int isend(const char *call, const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag,
                 MPI_Comm comm, MPI_Request *request)
{
    struct ampi_send_args args = {.buf = buf, .count = count, .dest = dest, .tag = tag};

    if (!request)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the request is NULL");
    return enqueue_send(call, &args, type, comm, request);
}

static int recv(const char *call, void *buf, MPI_Count count, MPI_Datatype type, int source, int tag,
                MPI_Comm comm, MPI_Status *status)
{
    struct ampi_recv_args args = {.buf = buf, .count = count, .source = source, .tag = tag};

    return enqueue_recv(call, &args, type, comm, status, NULL);
}

static int irecv(const char *call, void *buf, MPI_Count count, MPI_Datatype type, int source, int tag,
                 MPI_Comm comm, MPI_Request *request)
{
    struct ampi_recv_args args = {.buf = buf, .count = count, .source = source, .tag = tag};

    if (!request)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the request is NULL");
    return enqueue_recv(call, &args, type, comm, MPI_STATUS_IGNORE, request);
}

/* The int and the _c form of a function, by their parameters behind the datatype. */
#define FUNCTION(name, function, buffer, arguments, ...)                                                     \
    AMPI_ENQUEUE_FORM(name, function, (buffer buf, int count, MPI_Datatype datatype, __VA_ARGS__),           \
                      arguments)                                                                             \
    AMPI_ENQUEUE_FORM(name##_c, function, (buffer buf, MPI_Count count, MPI_Datatype datatype, __VA_ARGS__), \
                      arguments)

FUNCTION(MPIX_Send_enqueue, send, const void *, (call, buf, count, datatype, dest, tag, comm), int dest,
         int tag, MPI_Comm comm)
FUNCTION(MPIX_Isend_enqueue, isend, const void *, (call, buf, count, datatype, dest, tag, comm, request),
         int dest, int tag, MPI_Comm comm, MPI_Request *request)
FUNCTION(MPIX_Recv_enqueue, recv, void *, (call, buf, count, datatype, source, tag, comm, status), int source,
         int tag, MPI_Comm comm, MPI_Status *status)
FUNCTION(MPIX_Irecv_enqueue, irecv, void *, (call, buf, count, datatype, source, tag, comm, request),
         int source, int tag, MPI_Comm comm, MPI_Request *request)
