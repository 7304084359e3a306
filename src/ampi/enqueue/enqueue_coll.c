/* SPDX-License-Identifier: BSD-3-Clause
 *
 * enqueue_coll.c: MPIX_Allreduce_enqueue and the other collectives in a stream (heddle_mpi_stream.h).
 */
#include "ampi/coll/plan/coll_calls.h"
#include "ampi/enqueue/captured.h"
#include "ampi/object/gate.h"

/* A collective whose request exists, but has not started. */
struct later {
    struct ampi_coll_call call;
    struct ampi_stream *stream;
    MPI_Request inner; /* persistent, if the stream is being captured */
    bool is_captured;
    uint64_t capture;
};

/* Finds the stream, and prepares the call of a collective so that it creates the request later->inner. */
static int prepare(struct later *later, const char *name, MPI_Comm handle)
{
    struct ampi_comm *comm = ampi_comm_of(ampi_self(), handle);
    int error;

    if (!comm)
        return ampi_comm_raise_invalid(handle);
    error = ampi_enqueue_stream(comm, true, &later->stream);
    if (error)
        return error;
    later->is_captured = gpu_sync_is_captured(later->stream->sync, &later->capture);
    later->call = (struct ampi_coll_call){name, later->is_captured ? AMPI_COLL_PERSISTENT : AMPI_COLL_LATER,
                                          &later->inner};
    return MPI_SUCCESS;
}

/* Enqueues the collective, unless its call has returned an error. */
static int enqueue(struct later *later, int error)
{
    struct ampi_enqueue what = {.call = later->call.name,
                                .name = "enqueued collective",
                                .stream = later->stream,
                                .start = ampi_coll_start_later};

    if (error)
        return error;
    what.inner = ampi_request_of(later->inner);
    if (BASE_UNLIKELY(later->is_captured))
        return ampi_captured_coll(later->call.name, later->stream, what.inner, later->capture);
    return ampi_enqueue_blocking(&what, MPI_STATUS_IGNORE);
}

static int barrier(const char *name, MPI_Comm comm)
{
    struct later later;
    int error = prepare(&later, name, comm);

    return error ? error : enqueue(&later, ampi_coll_start_barrier(&later.call, comm));
}

static int bcast(const char *name, void *buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm)
{
    struct ampi_coll_args args;
    struct later later;
    int error = prepare(&later, name, comm);

    if (error)
        return error;
    ampi_coll_set_one(&args.recv, buffer, count, type);
    return enqueue(&later, ampi_coll_bcast(&later.call, comm, root, &args));
}

static int reduce(const char *name, const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type,
                  MPI_Op op, int root, MPI_Comm comm)
{
    struct later later;
    int error = prepare(&later, name, comm);

    return error ? error
                 : enqueue(&later,
                           ampi_coll_reduce(&later.call, comm, root, sendbuf, recvbuf, count, type, op));
}

static int allreduce(const char *name, const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type,
                     MPI_Op op, MPI_Comm comm)
{
    struct later later;
    int error = prepare(&later, name, comm);

    return error ? error
                 : enqueue(&later, ampi_coll_allreduce(&later.call, comm, sendbuf, recvbuf, count, type, op));
}

/* MPI_Allgather and MPI_Alltoall. */
static int exchange(const char *name,
                    int (*function)(const struct ampi_coll_call *, MPI_Comm, struct ampi_coll_args *),
                    const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                    MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    struct ampi_coll_args args;
    struct later later;
    int error = prepare(&later, name, comm);

    if (error)
        return error;
    ampi_coll_set_one(&args.send, sendbuf, sendcount, sendtype);
    ampi_coll_set_one(&args.recv, recvbuf, recvcount, recvtype);
    return enqueue(&later, function(&later.call, comm, &args));
}

/* The int and the _c form of a function, by their parameters in terms of COUNT. */
#define REDUCTION(COUNT, ...) \
    (const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype datatype, MPI_Op op, __VA_ARGS__)
#define EXCHANGE(COUNT)                                                                           \
    (const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype, void *recvbuf, COUNT recvcount, \
     MPI_Datatype recvtype, MPI_Comm comm)
#define BCAST(COUNT) (void *buffer, COUNT count, MPI_Datatype datatype, int root, MPI_Comm comm)
#define EXCHANGED(plan) (call, plan, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm)

AMPI_ENQUEUE_FORM(MPIX_Barrier_enqueue, barrier, (MPI_Comm comm), (call, comm))
AMPI_ENQUEUE_FORM(MPIX_Bcast_enqueue, bcast, BCAST(int), (call, buffer, count, datatype, root, comm))
AMPI_ENQUEUE_FORM(MPIX_Bcast_enqueue_c, bcast, BCAST(MPI_Count), (call, buffer, count, datatype, root, comm))
AMPI_ENQUEUE_FORM(MPIX_Reduce_enqueue, reduce, REDUCTION(int, int root, MPI_Comm comm),
                  (call, sendbuf, recvbuf, count, datatype, op, root, comm))
AMPI_ENQUEUE_FORM(MPIX_Reduce_enqueue_c, reduce, REDUCTION(MPI_Count, int root, MPI_Comm comm),
                  (call, sendbuf, recvbuf, count, datatype, op, root, comm))
AMPI_ENQUEUE_FORM(MPIX_Allreduce_enqueue, allreduce, REDUCTION(int, MPI_Comm comm),
                  (call, sendbuf, recvbuf, count, datatype, op, comm))
AMPI_ENQUEUE_FORM(MPIX_Allreduce_enqueue_c, allreduce, REDUCTION(MPI_Count, MPI_Comm comm),
                  (call, sendbuf, recvbuf, count, datatype, op, comm))
AMPI_ENQUEUE_FORM(MPIX_Allgather_enqueue, exchange, EXCHANGE(int), EXCHANGED(ampi_coll_allgather))
AMPI_ENQUEUE_FORM(MPIX_Allgather_enqueue_c, exchange, EXCHANGE(MPI_Count), EXCHANGED(ampi_coll_allgather))
AMPI_ENQUEUE_FORM(MPIX_Alltoall_enqueue, exchange, EXCHANGE(int), EXCHANGED(ampi_coll_alltoall))
AMPI_ENQUEUE_FORM(MPIX_Alltoall_enqueue_c, exchange, EXCHANGE(MPI_Count), EXCHANGED(ampi_coll_alltoall))
