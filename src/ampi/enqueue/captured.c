/* SPDX-License-Identifier: BSD-3-Clause
 *
 * captured.c: operations in a stream that is being captured; see captured.h.
 */
#include "ampi/enqueue/captured.h"

#include "ampi/coll/engine/coll.h"
#include "ampi/enqueue/captured_end.h"
#include "base/log.h"

/* ---- Capturing ---- */

static BASE_COLD int raise_unsupported(const struct ampi_captured_args *args, const char *why)
{
    return ampi_raise(args->comm, MPI_ERR_UNSUPPORTED_OPERATION, "%s cannot be captured", why);
}

/* comm NULL: on MPI_COMM_SELF. */
static BASE_COLD int raise_status(struct ampi_comm *comm)
{
    return ampi_raise(comm, MPI_ERR_ARG,
                      "a captured operation has no status: use MPI_STATUS_IGNORE or MPI_STATUSES_IGNORE");
}

static int check(const struct ampi_captured_args *args)
{
    if (args->peer == MPI_ANY_SOURCE || args->tag == MPI_ANY_TAG)
        return raise_unsupported(args, "a receive from MPI_ANY_SOURCE or with MPI_ANY_TAG");
    if (args->peer != MPI_PROC_NULL && args->comm->peer->layout->pe_of[args->peer] == AMPI_PE_REMOTE &&
        args->tag >= AMPI_CAPTURED_REMOTE_TAGS_MAX)
        return raise_unsupported(args, "a message to another process with so large a tag");
    return MPI_SUCCESS;
}

/* Raises an error if operations of an earlier capture were not waited for: they are in no graph, or no wait of that
 * graph covers them. */
static int check_capture(struct ampi_stream *stream, struct ampi_comm *comm, uint64_t capture)
{
    if (BASE_UNLIKELY(capture == GPU_SYNC_NO_CAPTURE))
        return ampi_raise(comm, MPI_ERR_OTHER,
                          "the stream's capture is invalid: an earlier call is not allowed in captures");
    if (BASE_LIKELY(!stream->captured || stream->captured->capture == capture))
        return MPI_SUCCESS;
    stream->captured = NULL;
    return ampi_raise(comm, MPI_ERR_REQUEST,
                      "an earlier capture of the stream has started operations, but has not waited for them "
                      "(MPIX_Waitall_enqueue): its graph must not be launched");
}

static void append(struct ampi_captured *made)
{
    made->next_here = made->args.stream->captured;
    made->args.stream->captured = made;
}

/* Captures a send or a receive. *made_out is NULL for MPI_PROC_NULL. */
static int start(const struct ampi_captured_args *args, uint64_t capture, struct ampi_captured **made_out)
{
    int error = check(args);

    *made_out = NULL;
    if (error || (error = check_capture(args->stream, args->comm, capture)) || args->peer == MPI_PROC_NULL)
        return error;
    error = ampi_captured_add_end(args, capture, made_out);
    if (!error)
        append(*made_out);
    return error;
}

/* Captures a start of the persistent collective. */
static int start_coll(const struct ampi_captured_args *args, const struct ampi_request *persistent,
                      uint64_t capture, struct ampi_captured **made_out)
{
    int error = check_capture(args->stream, args->comm, capture);

    if (!error)
        error = ampi_captured_add_coll(args, ampi_coll_create_start(persistent, NULL), capture, made_out);
    if (!error)
        append(*made_out);
    return error;
}

/* Adds the stream's operations to the graph, and a wait for those that are abandoned or for which is_awaited
 * returns true. */
static int hold(struct ampi_stream *stream, struct ampi_comm *comm,
                bool (*is_awaited)(const struct ampi_captured *, void *), void *arg)
{
    struct ampi_captured **link = &stream->captured, *captured;
    struct gpu_graph_end **starts, **waits;
    int n = 0, n_starts = 0, n_waits = 0, error;

    for (captured = stream->captured; captured; captured = captured->next_here)
        n++;
    if (n == 0)
        return MPI_SUCCESS;
    starts = base_malloc(2 * (size_t)n * sizeof(struct gpu_graph_end *), "captured operations");
    waits = starts + n;
    while ((captured = *link)) {
        if (!captured->is_in_graph)
            starts[n_starts++] = &captured->end;
        captured->is_in_graph = true;
        if (captured->is_abandoned || is_awaited(captured, arg)) {
            waits[n_waits++] = &captured->end;
            *link = captured->next_here;
        } else {
            link = &captured->next_here;
        }
    }
    error = gpu_graph_add(stream->sync, starts, n_starts, waits, n_waits);
    free(starts);
    return error ? ampi_enqueue_raise_cuda(comm, error) : MPI_SUCCESS;
}

static bool is_this(const struct ampi_captured *captured, void *arg)
{
    return captured == arg;
}

int ampi_captured_blocking(const struct ampi_captured_args *args, const MPI_Status *status, uint64_t capture)
{
    struct ampi_captured *made;
    int error;

    if (status != MPI_STATUS_IGNORE)
        return raise_status(args->comm);
    error = start(args, capture, &made);
    return error || !made ? error : hold(args->stream, args->comm, is_this, made);
}

int ampi_captured_coll(const char *call, struct ampi_stream *stream, struct ampi_request *persistent,
                       uint64_t capture)
{
    struct ampi_comm *comm = persistent->comm;
    struct ampi_captured_args args = {.call = call, .peer = MPI_PROC_NULL, .comm = comm, .stream = stream};
    struct ampi_captured *made = NULL;
    int error = start_coll(&args, persistent, capture, &made);

    ampi_request_destroy(persistent);
    return error ? error : hold(stream, comm, is_this, made);
}

/* ---- Requests ---- */

/* The program's handle of a captured operation. MPI_Wait finds it complete, and raises an error. */
struct captured_request {
    struct ampi_captured *captured; /* NULL: nothing to do */
    struct ampi_stream *stream;
    bool is_taken; /* a wait covers it */
};

static int query(struct ampi_request *request, MPI_Status *status)
{
    (void)status;
    return ampi_raise(
        request->comm, MPI_ERR_REQUEST,
        "the operation was captured into a CUDA graph: only MPIX_Wait_enqueue and MPIX_Waitall_enqueue "
        "can wait for it, in the same capture");
}

static void release(struct ampi_request *request)
{
    struct captured_request *extra = request->u.extra;

    if (extra->captured && !extra->is_taken)
        extra->captured->is_abandoned = true;
    if (extra->captured)
        ampi_captured_drop_use(extra->captured);
    ampi_stream_unref(extra->stream);
    free(extra);
}

static const struct ampi_request_kind captured_kind = {
    .name = "captured operation",
    .query = query,
    .release = release,
};

static struct captured_request *extra_of(const struct ampi_request *request)
{
    return request->u.extra;
}

/* The stream of a persistent request's communicator; NULL: it has none. */
static struct ampi_stream *stream_of(const struct ampi_request *persistent)
{
    const struct ampi_comm_streams *streams = persistent->comm ? persistent->comm->streams : NULL;
    struct ampi_stream *stream = streams && !streams->is_multiplex ? streams->streams[0] : NULL;

    return stream && stream->sync ? stream : NULL;
}

bool ampi_captured_is(MPI_Request handle)
{
    const struct ampi_request *request = ampi_request_of(handle);
    struct ampi_stream *stream;
    uint64_t capture;

    if (!request)
        return false;
    if (!request->is_persistent)
        return request->kind == &captured_kind;
    stream = request->state == AMPI_REQUEST_INACTIVE ? stream_of(request) : NULL;
    return stream && gpu_sync_is_captured(stream->sync, &capture);
}

int ampi_captured_start(const struct ampi_captured_args *args, const struct ampi_request *persistent,
                        uint64_t capture)
{
    struct ampi_captured *made = NULL;
    int error = persistent->kind->is_collective ? start_coll(args, persistent, capture, &made)
                                                : start(args, capture, &made);

    if (made)
        made->persistent = persistent;
    return error;
}

int ampi_captured_nonblocking(const struct ampi_captured_args *args, uint64_t capture,
                              MPI_Request *request_out)
{
    struct captured_request *extra;
    struct ampi_captured *made;
    struct ampi_request *request;
    int error = start(args, capture, &made);

    if (error)
        return error;
    extra = base_malloc(sizeof *extra, "a captured operation");
    *extra = (struct captured_request){made, args->stream, false};
    ampi_stream_ref(args->stream);
    if (made)
        made->n_uses++;
    request = ampi_request_create(args->comm->owner, &captured_kind, args->comm, false);
    request->u.extra = extra;
    ampi_request_complete(request);
    *request_out = (MPI_Request)request;
    return MPI_SUCCESS;
}

/* ---- Waiting for them ---- */

/* The stream of a request for which ampi_captured_is returns true. */
static struct ampi_stream *stream_behind(const struct ampi_request *request)
{
    return request->is_persistent ? stream_of(request) : extra_of(request)->stream;
}

static int check_requests(int count, const MPI_Request requests[], const MPI_Status *statuses,
                          struct ampi_request **first_out)
{
    struct ampi_request *first = NULL;
    struct ampi_stream *stream = NULL;
    uint64_t capture;

    if (statuses != MPI_STATUSES_IGNORE)
        return raise_status(NULL);
    for (int i = 0; i < count; i++) {
        if (requests[i] == MPI_REQUEST_NULL)
            continue;
        if (!ampi_captured_is(requests[i]))
            return ampi_raise_self(MPI_ERR_REQUEST, "request %d was not captured, unlike those before it", i);
        first = first ? first : ampi_request_of(requests[i]);
        stream = stream_behind(first);
        if (stream_behind(ampi_request_of(requests[i])) != stream)
            return ampi_raise_on_comm(first->comm, MPI_ERR_REQUEST,
                                      "request %d is of another stream than those before it", i);
        for (int j = 0; j < i; j++)
            if (requests[j] == requests[i])
                return ampi_raise_on_comm(first->comm, MPI_ERR_REQUEST, "the array has request %d twice", i);
    }
    *first_out = first;
    if (!gpu_sync_is_captured(stream->sync, &capture))
        return ampi_raise_on_comm(first->comm, MPI_ERR_REQUEST,
                                  "the request was captured, but the stream is not being captured any more");
    return check_capture(stream, first->comm, capture);
}

struct requests {
    const MPI_Request *list;
    int n;
};

static bool is_among(const struct ampi_captured *captured, void *arg)
{
    const struct requests *requests = arg;

    for (int i = 0; i < requests->n; i++) {
        const struct ampi_request *request = ampi_request_of(requests->list[i]);
        if (request && (request->is_persistent ? captured->persistent == request
                                               : extra_of(request)->captured == captured))
            return true;
    }
    return false;
}

int ampi_captured_wait(int count, MPI_Request requests[], const MPI_Status *statuses)
{
    struct requests list = {requests, count};
    struct ampi_request *first = NULL;
    int error = check_requests(count, requests, statuses, &first);

    if (error)
        return error;
    error = hold(stream_behind(first), first->comm, is_among, &list);
    if (error)
        return error;
    for (int i = 0; i < count; i++) {
        struct ampi_request *request = ampi_request_of(requests[i]);
        if (!request || request->is_persistent)
            continue;
        extra_of(request)->is_taken = true;
        ampi_request_destroy(request);
        requests[i] = MPI_REQUEST_NULL;
    }
    return MPI_SUCCESS;
}
