/* SPDX-License-Identifier: BSD-3-Clause
 *
 * enqueue_p2p.c: MPIX_Send_enqueue, MPIX_Recv_enqueue and their nonblocking forms (heddle_mpi_stream.h).
 */
#include "ampi/enqueue/enqueue.h"
#include "ampi/object/gate.h"

/* Persistent requests know how to start later; these never become persistent. */
static void start(struct ampi_request *request)
{
    (void)request->kind->start(request); /* returns no error for sends and receives */
}

/* The stream of the communicator, and the send as a request that has not started. */
static int prepare_send(const char *call, struct ampi_send_args *args, MPI_Datatype type, MPI_Comm comm,
                        struct ampi_enqueue *what)
{
    struct ampi_rank *self = ampi_self();
    int error = ampi_check_send(self, type, comm, args);

    if (error || (error = ampi_enqueue_stream(args->comm, &what->stream)))
        return error;
    args->mode = AMPI_SEND_STANDARD;
    what->call = call;
    what->name = "enqueued send";
    what->start = start;
    what->inner = ampi_request_create(self, &ampi_send_kind, args->comm, false);
    ampi_send_fill(what->inner, args);
    what->inner->u.p2p.n_tries = UINT8_MAX; /* it is never bound (channel.h) */
    ampi_type_ref(args->type);
    return MPI_SUCCESS;
}

static int prepare_recv(const char *call, struct ampi_recv_args *args, MPI_Datatype type, MPI_Comm comm,
                        struct ampi_enqueue *what)
{
    struct ampi_rank *self = ampi_self();
    int error = ampi_check_recv(self, type, comm, args);

    if (error || (error = ampi_enqueue_stream(args->comm, &what->stream)))
        return error;
    what->call = call;
    what->name = "enqueued receive";
    what->start = start;
    what->inner = ampi_request_create(self, &ampi_recv_kind, args->comm, false);
    ampi_recv_fill(what->inner, args);
    ampi_type_ref(args->type);
    return MPI_SUCCESS;
}

static int send(const char *call, const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag,
                MPI_Comm comm)
{
    struct ampi_send_args args = {.buf = buf, .count = count, .dest = dest, .tag = tag};
    struct ampi_enqueue what;
    int error = prepare_send(call, &args, type, comm, &what);

    return error ? error : ampi_enqueue_blocking(&what, MPI_STATUS_IGNORE);
}

static int isend(const char *call, const void *buf, MPI_Count count, MPI_Datatype type, int dest, int tag,
                 MPI_Comm comm, MPI_Request *request)
{
    struct ampi_send_args args = {.buf = buf, .count = count, .dest = dest, .tag = tag};
    struct ampi_enqueue what;
    int error;

    if (!request)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the request is NULL");
    error = prepare_send(call, &args, type, comm, &what);
    return error ? error : ampi_enqueue_nonblocking(&what, request);
}

static int recv(const char *call, void *buf, MPI_Count count, MPI_Datatype type, int source, int tag,
                MPI_Comm comm, MPI_Status *status)
{
    struct ampi_recv_args args = {.buf = buf, .count = count, .source = source, .tag = tag};
    struct ampi_enqueue what;
    int error = prepare_recv(call, &args, type, comm, &what);

    return error ? error : ampi_enqueue_blocking(&what, status);
}

static int irecv(const char *call, void *buf, MPI_Count count, MPI_Datatype type, int source, int tag,
                 MPI_Comm comm, MPI_Request *request)
{
    struct ampi_recv_args args = {.buf = buf, .count = count, .source = source, .tag = tag};
    struct ampi_enqueue what;
    int error;

    if (!request)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the request is NULL");
    error = prepare_recv(call, &args, type, comm, &what);
    return error ? error : ampi_enqueue_nonblocking(&what, request);
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
