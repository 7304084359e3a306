/* SPDX-License-Identifier: BSD-3-Clause
 *
 * enqueue.c: operations in a stream, and a stream's waits for them. See enqueue.h.
 */
#include "ampi/enqueue/enqueue.h"

#include <stdio.h>

#include "ampi/datatype/buffer.h"
#include "ampi/enqueue/captured.h"
#include "ampi/enqueue/early.h"
#include "ampi/object/gate.h"
#include "base/log.h"

/* A wait of a stream for operations. */
struct stream_wait {
    struct gpu_hold hold;
    struct ampi_stream *stream; /* a reference */
    int n_left;                 /* operations that are not complete; one more while operations are being
                                 * added */
};

/* An operation; the outer request's `extra`. */
struct operation {
    struct gpu_point point;
    struct ampi_stream *stream; /* a reference */
    struct ampi_request *outer;
    struct ampi_request *inner;
    void (*start)(struct ampi_request *request);
    const char *call;
    const char *name;
    struct stream_wait *wait; /* of the stream for it; NULL: none */
    MPI_Status *status;       /* for that wait */
    struct ampi_early *early; /* valid while the outer request is active; NULL: not early, the PE starts it */
    int reported;             /* the error that has been raised, or MPI_SUCCESS */
    bool is_late;             /* counted in the stream's n_late */
    bool is_seen;             /* for check_requests */
};

/* ---- Errors of operations ---- */

/* An error that is raised on the rank's own stack. */
struct failure {
    struct ult_errand errand;
    const char *call;
    struct ampi_comm *comm;     /* counted as pending */
    struct ampi_stream *stream; /* a reference */
    MPI_Status status;
};

static void raise_failure(struct ult_errand *errand)
{
    struct failure *failure = BASE_CONTAINER(errand, struct failure, errand);
    struct ult *u = ult_self();
    const char *call = u->call;
    int error;

    u->call = failure->call;
    error = ampi_p2p_result(failure->comm, &failure->status);
    u->call = call;
    failure->stream->error = error;
    ampi_comm_drop_pending(failure->comm);
    ampi_stream_unref(failure->stream);
    free(failure);
}

void ampi_enqueue_report(const char *call, struct ampi_comm *comm, struct ampi_stream *stream,
                         const MPI_Status *status)
{
    struct failure *failure = base_malloc(sizeof *failure, "an error of an enqueued operation");

    *failure = (struct failure){
        .errand.run = raise_failure, .call = call, .comm = comm, .stream = stream, .status = *status};
    comm->n_pending++;
    ampi_stream_ref(stream);
    ampi_rank_send(comm->owner, &failure->errand);
}

/* ---- The outer request ---- */

static void release(struct ampi_request *request)
{
    struct operation *operation = request->u.extra;

    ampi_stream_unref(operation->stream);
    free(operation);
}

static void describe(const struct ampi_request *request, char *text, size_t size_bytes)
{
    snprintf(text, size_bytes, "%s", ((const struct operation *)request->u.extra)->name);
}

static const struct ampi_request_kind enqueued_kind = {
    .name = "enqueued operation",
    .describe = describe,
    .release = release,
};

/* The outer request of a handle: the handle's own request, or the current start of a persistent one. NULL:
 * none. */
static struct ampi_request *outer_of(MPI_Request handle)
{
    struct ampi_request *request = ampi_request_of(handle);

    if (request && request->is_persistent)
        request = request->whole;
    return request && request->kind == &enqueued_kind ? request : NULL;
}

/* Returns the request if it is persistent, on a stream's communicator, and inactive or complete; else
 * NULL. */
static struct ampi_request *at_rest(MPI_Request handle)
{
    struct ampi_request *request = ampi_request_of(handle);

    return request && request->is_persistent && !ampi_request_is_active(request) && request->comm &&
                   request->comm->streams
               ? request
               : NULL;
}

/* ---- The life of an operation ---- */

static void release_wait(struct stream_wait *wait)
{
    if (--wait->n_left == 0)
        gpu_sync_release(wait->stream->sync, &wait->hold);
}

/* The stream has passed this hold and all earlier ones. */
static void free_wait(struct gpu_hold *hold)
{
    struct stream_wait *wait = BASE_CONTAINER(hold, struct stream_wait, hold);

    ampi_stream_unref(wait->stream);
    free(wait);
}

static void report(struct operation *operation)
{
    const MPI_Status *status = &operation->outer->status;

    if (BASE_LIKELY(status->MPI_ERROR == operation->reported))
        return;
    operation->reported = status->MPI_ERROR;
    ampi_enqueue_report(operation->call, operation->outer->comm, operation->stream, status);
}

void ampi_enqueue_give_result(struct ampi_request *outer, MPI_Status *to)
{
    ampi_status_hand_out(to, &outer->status);
    if (to != MPI_STATUS_IGNORE)
        to->MPI_ERROR = outer->status.MPI_ERROR;
    report(outer->u.extra);
}

static void take_complete(struct ampi_request *outer, MPI_Status *to)
{
    ampi_enqueue_give_result(outer, to);
    ampi_request_destroy(outer);
}

/* The outer request, for which a stream waits, is complete. */
static void awaited(struct ampi_request *outer, struct ampi_request *whole)
{
    struct operation *operation = outer->u.extra;
    struct stream_wait *wait = operation->wait;

    (void)whole;
    take_complete(outer, operation->status);
    release_wait(wait);
}

/* The same for an early operation, whose status has been stored. */
static void passed(struct ampi_request *outer, struct ampi_request *whole)
{
    (void)whole;
    report(outer->u.extra); /* CUDA's error after the status was stored */
    ampi_request_destroy(outer);
}

static void inner_done(struct ampi_request *inner, struct ampi_request *outer)
{
    outer->status = inner->status;
    ampi_request_destroy(inner);
    ampi_request_complete(outer);
}

static void reached(struct gpu_point *point, int error)
{
    struct operation *operation = BASE_CONTAINER(point, struct operation, point);
    struct ampi_request *outer = operation->outer, *inner = operation->inner;

    operation->stream->n_late -= operation->is_late;
    if (BASE_UNLIKELY(error)) {
        inner->status.MPI_ERROR = ampi_device_error(inner->owner, error);
        inner_done(inner, outer);
        return;
    }
    operation->start(inner);
    ampi_request_attach(outer, inner, inner_done);
}

/* ---- Enqueuing ---- */

int ampi_enqueue_stream(struct ampi_comm *comm, bool is_blocking, struct ampi_stream **stream_out)
{
    const struct ampi_comm_streams *streams = comm->streams;
    struct ampi_stream *stream;
    int error;

    if (!streams || streams->is_multiplex || !streams->streams[0] || !streams->streams[0]->sync)
        return ampi_raise(comm, MPI_ERR_OTHER, "%s",
                          streams && streams->is_multiplex
                              ? "the communicator has several streams (MPIX_Stream_comm_create_multiplex)"
                              : "this rank has no CUDA stream on the communicator (MPIX_Stream_comm_create)");
    stream = streams->streams[0];
    if (is_blocking)
        gpu_sync_make_room(stream->sync);
    error = stream->error;
    stream->error = MPI_SUCCESS;
    *stream_out = stream;
    return error;
}

int ampi_enqueue_raise_cuda(struct ampi_comm *comm, int error)
{
    if (error == GPU_SYNC_CAPTURED)
        return ampi_raise(comm, MPI_ERR_UNSUPPORTED_OPERATION,
                          "the stream is being captured: a wait for an operation from before the capture "
                          "cannot become a part of "
                          "a CUDA graph");
    if (error == GPU_SYNC_UNSUPPORTED)
        return ampi_raise(comm, MPI_ERR_UNSUPPORTED_OPERATION,
                          "the GPU cannot write and wait for values in streams (cuStreamBatchMemOp)");
    return ampi_raise(comm, MPI_ERR_OTHER, "%s", gpu_error_text(error));
}

struct ampi_request *ampi_enqueue_create_send(const struct ampi_send_args *args)
{
    struct ampi_request *made = ampi_request_create(args->comm->owner, &ampi_send_kind, args->comm, false);

    ampi_send_fill(made, args);
    made->u.p2p.n_tries = UINT8_MAX; /* never bound (channel.h) */
    ampi_type_ref(args->type);
    return made;
}

struct ampi_request *ampi_enqueue_create_recv(const struct ampi_recv_args *args)
{
    struct ampi_request *made = ampi_request_create(args->comm->owner, &ampi_recv_kind, args->comm, false);

    ampi_recv_fill(made, args);
    ampi_type_ref(args->type);
    return made;
}

/* For ampi_enqueue.start: starts a send or a receive as MPI_Start does. */
void ampi_enqueue_start_p2p(struct ampi_request *request)
{
    (void)request->kind->start(request); /* returns no error for sends and receives */
}

static struct operation *create(const struct ampi_enqueue *what)
{
    struct ampi_request *inner = what->inner;
    struct operation *made = base_malloc(sizeof *made, "an enqueued operation");

    *made = (struct operation){.point.reached = reached,
                               .stream = what->stream,
                               .outer = ampi_request_create(inner->owner, &enqueued_kind, inner->comm, false),
                               .inner = inner,
                               .start = what->start,
                               .call = what->call,
                               .name = what->name};
    made->outer->u.extra = made;
    ampi_stream_ref(made->stream);
    made->early = ampi_early_create(what, made->outer);
    made->is_late = !made->early && what->start == ampi_enqueue_start_p2p;
    made->stream->n_late += made->is_late;
    return made;
}

static struct stream_wait *create_wait(struct ampi_stream *stream)
{
    struct stream_wait *made = base_malloc(sizeof *made, "a wait of a stream");

    made->hold.left = free_wait;
    made->stream = stream;
    made->n_left = 0;
    ampi_stream_ref(stream);
    return made;
}

/* Adds the operation to the stream's wait. */
static void add_to_wait(struct stream_wait *wait, struct ampi_request *outer, MPI_Status *status)
{
    struct operation *operation = outer->u.extra;

    operation->wait = wait;
    operation->status = status;
    outer->on_complete = awaited;
    wait->n_left++;
}

/* Undoes the creation of an operation that could not be enqueued. */
static BASE_COLD int undo(struct operation *operation, int error)
{
    int code = ampi_enqueue_raise_cuda(operation->outer->comm, error);

    operation->stream->n_late -= operation->is_late;
    if (!operation->early)
        ampi_request_destroy(operation->inner);
    ampi_request_destroy(operation->outer);
    return code;
}

static int blocking_early(struct operation *operation, MPI_Status *status)
{
    int error;

    operation->outer->on_complete = passed;
    error = ampi_early_enqueue(operation->early, true, status);
    return BASE_UNLIKELY(error) ? undo(operation, error) : MPI_SUCCESS;
}

int ampi_enqueue_blocking(const struct ampi_enqueue *what, MPI_Status *status)
{
    struct operation *operation = create(what);
    struct stream_wait *wait;
    int error;

    if (operation->early)
        return blocking_early(operation, status);
    wait = create_wait(what->stream);
    error = gpu_sync_add(what->stream->sync, &operation->point, &wait->hold);
    if (BASE_UNLIKELY(error)) {
        ampi_stream_unref(wait->stream);
        free(wait);
        return undo(operation, error);
    }
    add_to_wait(wait, operation->outer, status);
    return MPI_SUCCESS;
}

int ampi_enqueue_nonblocking(const struct ampi_enqueue *what, MPI_Request *request_out)
{
    struct operation *operation = create(what);
    int error = operation->early ? ampi_early_enqueue(operation->early, false, MPI_STATUS_IGNORE)
                                 : gpu_sync_add(what->stream->sync, &operation->point, NULL);

    if (BASE_UNLIKELY(error))
        return undo(operation, error);
    *request_out = (MPI_Request)operation->outer;
    return MPI_SUCCESS;
}

/* The operation of a persistent request, for which no stream waits, is complete. */
static void tell_persistent(struct ampi_request *outer, struct ampi_request *persistent)
{
    persistent->status = outer->status;
    persistent->whole = NULL;
    ampi_request_destroy(outer);
    ampi_request_complete(persistent);
}

int ampi_enqueue_persistent(const struct ampi_enqueue *what, struct ampi_request *persistent)
{
    MPI_Request handle = MPI_REQUEST_NULL;
    int error = ampi_enqueue_nonblocking(what, &handle);
    struct ampi_request *outer;

    if (error)
        return error;
    outer = ampi_request_of(handle);
    persistent->state = AMPI_REQUEST_ACTIVE;
    persistent->on_complete = NULL;
    persistent->whole = outer;
    ampi_request_attach(persistent, outer, tell_persistent);
    return MPI_SUCCESS;
}

/* ---- Waiting ---- */

/* Checks the requests up to the first invalid one; *n_checked_out: the number of valid ones. */
static int check_each(int count, const MPI_Request requests[], struct ampi_stream **stream_out,
                      int *n_active_out, int *n_checked_out)
{
    for (int i = 0; i < count; i++) {
        const struct ampi_request *outer = outer_of(requests[i]);
        struct operation *operation;
        bool is_awaited;
        *n_checked_out = i;
        if (requests[i] == MPI_REQUEST_NULL || at_rest(requests[i]))
            continue;
        if (!outer)
            return ampi_raise_self(MPI_ERR_REQUEST,
                                   "%p is not a request of MPIX_Isend_enqueue, MPIX_Irecv_enqueue or "
                                   "MPIX_Start_enqueue",
                                   (void *)requests[i]);
        operation = outer->u.extra;
        if (*stream_out && operation->stream != *stream_out)
            return ampi_raise_on_comm(outer->comm, MPI_ERR_REQUEST,
                                      "request %d is of another stream than those before it", i);
        is_awaited = ampi_request_of(requests[i])->awaited_by != NULL;
        if (is_awaited || operation->is_seen)
            return ampi_raise_on_comm(outer->comm, MPI_ERR_REQUEST, "%s request %d%s",
                                      is_awaited ? "another thread waits for" : "the array has", i,
                                      is_awaited ? "" : " twice");
        operation->is_seen = true;
        *stream_out = operation->stream;
        *n_active_out += ampi_request_is_active(outer);
    }
    *n_checked_out = count;
    return MPI_SUCCESS;
}

/* Finds the stream of the operations (NULL: all handles are MPI_REQUEST_NULL), and the number of active
 * ones. */
static int check_requests(int count, const MPI_Request requests[], struct ampi_stream **stream_out,
                          int *n_active_out)
{
    int n_checked = 0, error;

    *stream_out = NULL;
    *n_active_out = 0;
    error = check_each(count, requests, stream_out, n_active_out, &n_checked);
    for (int i = 0; i < n_checked; i++) {
        struct ampi_request *outer = outer_of(requests[i]);
        if (outer)
            ((struct operation *)outer->u.extra)->is_seen = false;
    }
    return error;
}

/* The status of a send for which the stream need not wait. */
static void give_sent(MPI_Status *status)
{
    if (status == MPI_STATUS_IGNORE)
        return;
    ampi_status_set_empty(status);
    status->MPI_ERROR = MPI_SUCCESS;
}

/* Stores the result as ampi_enqueue_give_result does; an empty status if the request is NULL or inactive. */
static void take_at_rest(struct ampi_request *persistent, MPI_Status *to)
{
    if (!persistent || persistent->state == AMPI_REQUEST_INACTIVE) {
        if (to != MPI_STATUS_IGNORE)
            ampi_status_set_empty(to);
        return;
    }
    ampi_status_hand_out(to, &persistent->status);
    if (to != MPI_STATUS_IGNORE)
        to->MPI_ERROR = persistent->status.MPI_ERROR;
    if (BASE_UNLIKELY(persistent->status.MPI_ERROR != MPI_SUCCESS))
        ampi_enqueue_report(persistent->kind->name, persistent->comm, persistent->comm->streams->streams[0],
                            &persistent->status);
    persistent->state = AMPI_REQUEST_INACTIVE;
}

static bool needs_hold(const struct ampi_request *outer)
{
    const struct operation *operation = outer->u.extra;

    return ampi_request_is_active(outer) && (!operation->early || ampi_early_needs_hold(operation->early));
}

static void take_early(struct ampi_request *outer, MPI_Status *status)
{
    const struct operation *operation = outer->u.extra;

    if (ampi_early_is_send(operation->early))
        give_sent(status);
    outer->on_complete = passed;
}

/* Takes the request from the program: the handle becomes MPI_REQUEST_NULL; a persistent request becomes
 * inactive. */
static void take_request(MPI_Request *handle, struct stream_wait *wait, MPI_Status *status)
{
    struct ampi_request *request = ampi_request_of(*handle), *outer = outer_of(*handle);

    if (!outer) {
        take_at_rest(request, status);
        return;
    }
    if (!ampi_request_is_active(outer))
        take_complete(outer, status);
    else if (needs_hold(outer))
        add_to_wait(wait, outer, status);
    else
        take_early(outer, status);
    if (request == outer) {
        *handle = MPI_REQUEST_NULL;
    } else {
        request->whole = NULL;
        request->state = AMPI_REQUEST_INACTIVE;
    }
}

static MPI_Status *status_at(MPI_Status *statuses, int i)
{
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

/* Waits by kernels of the stream for the early operations, where possible. */
static int wait_early(int count, const MPI_Request requests[], MPI_Status *statuses)
{
    struct ampi_early **recvs = base_malloc((size_t)count * sizeof *recvs, "a wait of a stream");
    MPI_Status **early_statuses = base_malloc((size_t)count * sizeof *early_statuses, "a wait of a stream");
    int n = 0, error;

    for (int i = 0; i < count; i++) {
        const struct ampi_request *outer = outer_of(requests[i]);
        const struct operation *operation = outer ? outer->u.extra : NULL;
        if (!outer || !ampi_request_is_active(outer) || !operation->early ||
            !ampi_early_can_wait(operation->early))
            continue;
        recvs[n] = operation->early;
        early_statuses[n++] = status_at(statuses, i);
    }
    error = n > 0 ? ampi_early_wait(recvs, early_statuses, n) : 0;
    free(recvs);
    free(early_statuses);
    return error;
}

/* Makes the stream wait for the active requests. *wait_out: the wait for those that the PE does; NULL: there
 * are none. */
static int add_waits(struct ampi_stream *stream, int count, const MPI_Request requests[],
                     MPI_Status *statuses, struct stream_wait **wait_out)
{
    uint64_t capture;
    int n_held = 0, error;

    if (BASE_UNLIKELY(gpu_sync_is_captured(stream->sync, &capture)))
        return GPU_SYNC_CAPTURED;
    error = wait_early(count, requests, statuses);
    for (int i = 0; i < count; i++) {
        const struct ampi_request *outer = outer_of(requests[i]);
        n_held += outer && needs_hold(outer);
    }
    if (error || n_held == 0)
        return error;
    *wait_out = create_wait(stream);
    (*wait_out)->n_left = 1;
    error = gpu_sync_add(stream->sync, NULL, &(*wait_out)->hold);
    if (BASE_UNLIKELY(error)) {
        ampi_stream_unref((*wait_out)->stream);
        free(*wait_out);
    }
    return error;
}

/* statuses: consecutive ones, or MPI_STATUSES_IGNORE. */
static int wait_enqueue(int count, MPI_Request requests[], MPI_Status *statuses)
{
    struct stream_wait *wait = NULL;
    struct ampi_stream *stream;
    int n_active = 0, first = 0, error;

    if (count < 0)
        return ampi_raise_self(MPI_ERR_COUNT, "the count of requests %d is negative", count);
    if (count > 0 && !requests)
        return ampi_raise_self(MPI_ERR_REQUEST, "the address of the requests is NULL");
    while (first < count && requests[first] == MPI_REQUEST_NULL)
        first++;
    if (first < count && ampi_captured_is(requests[first]))
        return ampi_captured_wait(count, requests, statuses);
    if ((error = check_requests(count, requests, &stream, &n_active)))
        return error;
    if (n_active > 0) { /* operations may complete meanwhile */
        gpu_sync_make_room(stream->sync);
        if ((error = check_requests(count, requests, &stream, &n_active)))
            return error;
    }
    if (n_active > 0 && (error = add_waits(stream, count, requests, statuses, &wait)))
        return ampi_enqueue_raise_cuda(NULL, error);
    for (int i = 0; i < count; i++)
        take_request(&requests[i], wait, status_at(statuses, i));
    if (wait) /* all may have completed before they were added: gpu_sync_add may switch */
        release_wait(wait);
    return MPI_SUCCESS;
}

static int wait_one(MPI_Request *request, MPI_Status *status)
{
    return wait_enqueue(1, request, status == MPI_STATUS_IGNORE ? MPI_STATUSES_IGNORE : status);
}

AMPI_ENQUEUE_FORM(MPIX_Wait_enqueue, wait_one, (MPI_Request * request, MPI_Status *status), (request, status))
AMPI_ENQUEUE_FORM(MPIX_Waitall_enqueue, wait_enqueue,
                  (int count, MPI_Request array_of_requests[], MPI_Status *array_of_statuses),
                  (count, array_of_requests, array_of_statuses))
