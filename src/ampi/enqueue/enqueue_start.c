/* SPDX-License-Identifier: BSD-3-Clause
 *
 * enqueue_start.c: MPIX_Start_enqueue and MPIX_Startall_enqueue: persistent requests that a stream starts
 * (heddle_mpi_stream.h).
 *
 * A start in a stream is an operation of its own, with the arguments of the persistent request. So the
 * request can be started again before the stream has come to the first start, and a captured start does not
 * depend on it.
 */
#include "ampi/coll/engine/coll.h"
#include "ampi/enqueue/captured.h"
#include "ampi/p2p/p2p_calls.h"

static struct ampi_request *copy(const struct ampi_request *persistent)
{
    const struct ampi_p2p *from = &persistent->u.p2p;

    if (persistent->kind == &ampi_send_kind)
        return ampi_enqueue_create_send(&(struct ampi_send_args){.buf = from->buf,
                                                                 .count = from->count,
                                                                 .type = from->type,
                                                                 .dest = from->peer_rank,
                                                                 .tag = from->tag,
                                                                 .comm = persistent->comm,
                                                                 .mode = from->mode});
    return ampi_enqueue_create_recv(&(struct ampi_recv_args){.buf = from->buf,
                                                             .count = from->count,
                                                             .type = from->type,
                                                             .source = from->node.source,
                                                             .tag = from->node.tag,
                                                             .comm = persistent->comm});
}

static struct ampi_captured_args captured_args(const char *call, const struct ampi_request *persistent,
                                               struct ampi_stream *stream)
{
    const struct ampi_p2p *from = &persistent->u.p2p;
    bool is_send = persistent->kind == &ampi_send_kind;

    if (persistent->kind->is_collective)
        return (struct ampi_captured_args){
            .call = call, .peer = MPI_PROC_NULL, .comm = persistent->comm, .stream = stream};
    return (struct ampi_captured_args){.call = call,
                                       .is_send = is_send,
                                       .buf = from->buf,
                                       .count = from->count,
                                       .type = from->type,
                                       .peer = is_send ? from->peer_rank : from->node.source,
                                       .tag = is_send ? from->tag : from->node.tag,
                                       .comm = persistent->comm,
                                       .stream = stream};
}

/* Finds the request and its stream. */
static int check(MPI_Request handle, struct ampi_request **request_out, struct ampi_stream **stream_out)
{
    struct ampi_request *request = NULL;
    int error = ampi_check_start(handle, &request);

    if (error)
        return error;
    if (request->kind != &ampi_send_kind && request->kind != &ampi_recv_kind && !request->kind->is_collective)
        return ampi_raise_on_comm(request->comm, MPI_ERR_UNSUPPORTED_OPERATION, "a stream cannot start a %s",
                                  request->kind->name);
    error = ampi_enqueue_stream(request->comm, false, stream_out);
    *request_out = request;
    return error;
}

static int start(const char *call, MPI_Request handle)
{
    struct ampi_request *request = NULL;
    struct ampi_captured_args captured;
    struct ampi_enqueue what = {.call = call, .name = "enqueued start"};
    uint64_t capture;
    int error = check(handle, &request, &what.stream);

    if (error)
        return error;
    if (BASE_UNLIKELY(gpu_sync_is_captured(what.stream->sync, &capture))) {
        captured = captured_args(call, request, what.stream);
        return ampi_captured_start(&captured, request, capture);
    }
    if (request->kind->is_collective) {
        what.inner = ampi_coll_create_start(request, request->comm);
        what.start = ampi_coll_start_later;
    } else {
        what.inner = copy(request);
        what.start = ampi_enqueue_start_p2p;
    }
    return ampi_enqueue_persistent(&what, request);
}

static int start_one(const char *call, MPI_Request *request)
{
    if (!request)
        return ampi_raise_self(MPI_ERR_REQUEST, "the address of the request is NULL");
    return start(call, *request);
}

static int start_all(const char *call, int count, MPI_Request requests[])
{
    int error = MPI_SUCCESS;

    if (count < 0)
        return ampi_raise_self(MPI_ERR_COUNT, "the count of requests %d is negative", count);
    if (count > 0 && !requests)
        return ampi_raise_self(MPI_ERR_REQUEST, "the array of %d requests is NULL", count);
    for (int i = 0; i < count && !error; i++)
        error = start(call, requests[i]);
    return error;
}

AMPI_ENQUEUE_FORM(MPIX_Start_enqueue, start_one, (MPI_Request * request), (call, request))
AMPI_ENQUEUE_FORM(MPIX_Startall_enqueue, start_all, (int count, MPI_Request array_of_requests[]),
                  (call, count, array_of_requests))
