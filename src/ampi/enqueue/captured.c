/* SPDX-License-Identifier: BSD-3-Clause
 *
 * captured.c: sends and receives in CUDA graphs; see captured.h.
 */
#include "ampi/enqueue/captured.h"

#include <pthread.h>
#include <stdio.h>

#include "ampi/datatype/buffer.h"
#include "base/log.h"

/* Messages that the PEs move have negative tags on the hidden communicator, apart from those of partitioned
 * communication (partitioned.c): one per pair of ends. Between processes it is made of the program's tag and the number
 * of the message among those of the two ranks with that tag, which both ends count. */
#define PAIR_TAG_FIRST (-2)
#define PAIRS_MAX 90000000
#define REMOTE_TAG_BASE (-2140000000)
#define REMOTE_TAGS_MAX (1 << 15)
#define REMOTE_NUMBERS (1 << 12)

/* An end. */
struct ampi_captured {
    struct gpu_graph_end end;
    struct ampi_captured *next;      /* of all */
    struct ampi_captured *next_here; /* of the stream's that are not waited for yet */
    struct ampi_captured_args args;
    struct ampi_rank *owner;
    struct ampi_comm *hidden;
    size_t n_bytes;
    uint64_t capture;          /* that it is in */
    int wire_tag;              /* if the PEs do it */
    bool is_matched;           /* has its other end, or needs none */
    bool is_in_graph;          /* its node is there */
    bool is_abandoned;         /* the request was freed */
    bool is_closed;            /* the communicator is freed ... */
    int n_uses;                /* ... but not the program's handle, or a launch is being served */
    struct ampi_request whole; /* what a launch's request is a part of; unused */
};

/* Ends of all ranks, the newest first. Ranks of several PEs meet here, when they capture. */
static struct {
    pthread_mutex_t lock;
    struct ampi_captured *first;
    unsigned n_pairs;
    atomic_bool is_used;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Launches that the PE serves ---- */

static void destroy(struct ampi_captured *captured)
{
    ampi_type_unref(captured->args.type);
    ampi_stream_unref(captured->args.stream);
    free(captured);
}

static void drop_use(struct ampi_captured *captured)
{
    if (--captured->n_uses == 0 && captured->is_closed)
        destroy(captured);
}

static void inner_done(struct ampi_request *inner, struct ampi_request *whole)
{
    struct ampi_captured *captured = BASE_CONTAINER(whole, struct ampi_captured, whole);
    struct ampi_comm *comm = captured->args.comm;

    if (BASE_UNLIKELY(inner->status.MPI_ERROR != MPI_SUCCESS))
        ampi_enqueue_report(captured->args.call, comm, captured->args.stream, &inner->status);
    ampi_request_destroy(inner);
    gpu_graph_release(&captured->end);
    drop_use(captured);
    ampi_comm_drop_pending(comm);
}

static struct ampi_request *create_inner(const struct ampi_captured *captured)
{
    const struct ampi_captured_args *args = &captured->args;
    struct ampi_request *made = ampi_request_create(
        captured->owner, args->is_send ? &ampi_send_kind : &ampi_recv_kind, captured->hidden, false);

    ampi_type_ref(args->type);
    if (args->is_send) {
        ampi_send_fill(made, &(struct ampi_send_args){.buf = args->buf,
                                                      .count = args->count,
                                                      .type = args->type,
                                                      .dest = args->peer,
                                                      .tag = captured->wire_tag,
                                                      .comm = captured->hidden,
                                                      .mode = AMPI_SEND_STANDARD});
        made->u.p2p.n_tries = UINT8_MAX; /* it is never bound (channel.h) */
    } else {
        ampi_recv_fill(made, &(struct ampi_recv_args){.buf = args->buf,
                                                      .count = args->count,
                                                      .type = args->type,
                                                      .source = args->peer,
                                                      .tag = captured->wire_tag,
                                                      .comm = captured->hidden});
    }
    return made;
}

static void reached(struct gpu_graph_end *end)
{
    struct ampi_captured *captured = BASE_CONTAINER(end, struct ampi_captured, end);
    struct ampi_request *inner = create_inner(captured);

    captured->n_uses++;
    captured->args.comm->n_pending++;
    (void)inner->kind->start(inner); /* returns no error for sends and receives */
    ampi_request_attach(&captured->whole, inner, inner_done);
}

static void lonely(struct gpu_graph_end *end)
{
    const struct ampi_captured *captured = BASE_CONTAINER(end, struct ampi_captured, end);

    base_log("rank %d: a CUDA graph waits at its %s rank %d with tag %d, but that rank has captured no %s "
             "that matches",
             captured->owner->world_rank, captured->args.is_send ? "send to" : "receive from",
             captured->args.peer, captured->args.tag, captured->args.is_send ? "receive" : "send");
}

/* ---- Matching ---- */

/* The earliest end that matches. Lock held. */
static struct ampi_captured *find_other(const struct ampi_captured *captured)
{
    const struct ampi_captured_args *args = &captured->args;
    struct ampi_captured *found = NULL;

    for (struct ampi_captured *i = all.first; i; i = i->next)
        if (!i->is_matched && i->args.is_send != args->is_send && i->args.tag == args->tag &&
            i->args.comm->shared == args->comm->shared && i->args.peer == args->comm->rank &&
            i->args.comm->rank == args->peer)
            found = i;
    return found;
}

/* Lock held. */
static void add(struct ampi_captured *captured)
{
    captured->next = all.first;
    all.first = captured;
    atomic_store_explicit(&all.is_used, true, memory_order_release);
}

/* Lock held. */
static int match(struct ampi_captured *captured)
{
    struct ampi_captured *other = find_other(captured);
    struct ampi_captured *send = captured->args.is_send ? captured : other;
    struct ampi_captured *recv = captured->args.is_send ? other : captured;

    if (other && send->n_bytes > recv->n_bytes)
        return MPI_ERR_TRUNCATE;
    if (other) {
        captured->is_matched = other->is_matched = true;
        captured->wire_tag = other->wire_tag = PAIR_TAG_FIRST - (int)(all.n_pairs++ % PAIRS_MAX);
        (void)gpu_graph_agree(&send->end, &recv->end, &captured->end, send->n_bytes);
    }
    add(captured);
    return MPI_SUCCESS;
}

/* The number of this rank's earlier ends with the same other rank, direction and tag. Lock held. */
static unsigned count_alike(const struct ampi_captured *captured)
{
    const struct ampi_captured_args *args = &captured->args;
    unsigned n = 0;

    for (const struct ampi_captured *i = all.first; i; i = i->next)
        n += i->args.comm == args->comm && i->args.is_send == args->is_send && i->args.peer == args->peer &&
             i->args.tag == args->tag;
    return n;
}

static void match_remote(struct ampi_captured *captured)
{
    bool is_send = captured->args.is_send;

    captured->is_matched = true;
    (void)gpu_graph_agree(is_send ? &captured->end : NULL, is_send ? NULL : &captured->end, &captured->end,
                          captured->n_bytes);
    pthread_mutex_lock(&all.lock);
    captured->wire_tag =
        REMOTE_TAG_BASE + captured->args.tag * REMOTE_NUMBERS + (int)(count_alike(captured) % REMOTE_NUMBERS);
    add(captured);
    pthread_mutex_unlock(&all.lock);
}

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
        args->tag >= REMOTE_TAGS_MAX)
        return raise_unsupported(args, "a message to another process with so large a tag");
    return MPI_SUCCESS;
}

/* Operations of the stream that belong to an earlier capture are in no graph, or nothing waits for them there. */
static int check_capture(struct ampi_stream *stream, struct ampi_comm *comm, uint64_t capture)
{
    if (BASE_UNLIKELY(capture == GPU_SYNC_NO_CAPTURE))
        return ampi_raise(comm, MPI_ERR_OTHER,
                          "the stream's capture is invalid: an earlier call is not allowed in captures");
    if (BASE_LIKELY(!stream->captured || stream->captured->capture == capture))
        return MPI_SUCCESS;
    stream->captured = NULL;
    return ampi_raise(
        comm, MPI_ERR_REQUEST,
        "operations that an earlier capture of the stream has started were not waited for in it "
        "(MPIX_Waitall_enqueue): that graph must not be launched");
}

static int prepare(struct ampi_captured *captured)
{
    const struct ampi_captured_args *args = &captured->args;
    bool is_block = ampi_type_is_block(args->type, args->count);
    int error =
        gpu_graph_prepare(args->stream->sync, &captured->end,
                          is_block ? (char *)args->buf + args->type->true_lb_bytes : NULL, captured->n_bytes);

    return error ? ampi_enqueue_raise_cuda(args->comm, error) : MPI_SUCCESS;
}

/* *made_out: NULL: there is nothing to do. */
static int start(const struct ampi_captured_args *args, uint64_t capture, struct ampi_captured **made_out)
{
    struct ampi_captured *made;
    int error = check(args);

    *made_out = NULL;
    if (error || (error = check_capture(args->stream, args->comm, capture)) || args->peer == MPI_PROC_NULL)
        return error;
    made = base_calloc(1, sizeof *made, "a captured operation");
    made->end.reached = reached;
    made->end.lonely = lonely;
    made->args = *args;
    made->owner = args->comm->owner;
    made->n_bytes = (size_t)args->count * args->type->size_bytes;
    made->capture = capture;
    made->hidden = ampi_comm_hidden(args->comm);
    ampi_type_ref(args->type);
    ampi_stream_ref(args->stream);
    error = made->hidden ? prepare(made)
                         : ampi_raise(args->comm, MPI_ERR_OTHER, "no context id is left: free communicators");
    if (!error && args->comm->peer->layout->pe_of[args->peer] == AMPI_PE_REMOTE) {
        match_remote(made);
    } else if (!error) {
        pthread_mutex_lock(&all.lock);
        error = match(made);
        pthread_mutex_unlock(&all.lock);
        if (error) {
            gpu_graph_forget(&made->end);
            error = ampi_raise(args->comm, error,
                               "the captured send is longer than the captured receive that it matches");
        }
    }
    if (error) {
        destroy(made);
        return error;
    }
    made->next_here = args->stream->captured;
    args->stream->captured = made;
    *made_out = made;
    return MPI_SUCCESS;
}

/* Adds the stream's operations to the graph, in one node, and then a wait for the abandoned ones and those that
 * `is_awaited` says. */
static int hold(struct ampi_stream *stream, struct ampi_comm *comm,
                bool (*is_awaited)(const struct ampi_captured *, void *), void *arg)
{
    struct ampi_captured **link = &stream->captured, *captured;
    struct gpu_graph_end **ends;
    int n = 0, n_starts = 0, n_waits = 0, error;

    for (captured = stream->captured; captured; captured = captured->next_here)
        n++;
    if (n == 0)
        return MPI_SUCCESS;
    ends = base_malloc((size_t)n * sizeof(struct gpu_graph_end *), "captured operations");
    for (captured = stream->captured; captured; captured = captured->next_here)
        if (!captured->is_in_graph) {
            captured->is_in_graph = true;
            ends[n_starts++] = &captured->end;
        }
    error = gpu_graph_start(stream->sync, ends, n_starts);
    while ((captured = *link)) {
        if (captured->is_abandoned || is_awaited(captured, arg)) {
            ends[n_waits++] = &captured->end;
            *link = captured->next_here;
        } else {
            link = &captured->next_here;
        }
    }
    if (!error)
        error = gpu_graph_hold(stream->sync, ends, n_waits);
    free(ends);
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

/* ---- Requests ---- */

/* What the program gets. Complete at once for MPI_Wait, which only raises an error. */
struct captured_request {
    struct ampi_captured *captured; /* NULL: nothing to do */
    struct ampi_stream *stream;
    bool is_taken; /* by a wait */
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
        drop_use(extra->captured);
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

bool ampi_captured_is(MPI_Request handle)
{
    const struct ampi_request *request = ampi_request_of(handle);

    return request && request->kind == &captured_kind;
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

static int check_requests(int count, const MPI_Request requests[], const MPI_Status *statuses,
                          struct ampi_request **first_out)
{
    struct ampi_request *first = NULL;
    uint64_t capture;

    if (statuses != MPI_STATUSES_IGNORE)
        return raise_status(NULL);
    for (int i = 0; i < count; i++) {
        if (requests[i] == MPI_REQUEST_NULL)
            continue;
        if (!ampi_captured_is(requests[i]))
            return ampi_raise_self(MPI_ERR_REQUEST, "request %d was not captured, unlike those before it", i);
        first = first ? first : ampi_request_of(requests[i]);
        if (extra_of(ampi_request_of(requests[i]))->stream != extra_of(first)->stream)
            return ampi_raise_on_comm(first->comm, MPI_ERR_REQUEST,
                                      "request %d is of another stream than those before it", i);
        for (int j = 0; j < i; j++)
            if (requests[j] == requests[i])
                return ampi_raise_on_comm(first->comm, MPI_ERR_REQUEST, "the array has request %d twice", i);
    }
    *first_out = first;
    if (!gpu_sync_is_captured(extra_of(first)->stream->sync, &capture))
        return ampi_raise_on_comm(first->comm, MPI_ERR_REQUEST,
                                  "the request was captured, but the stream is not being captured any more");
    return check_capture(extra_of(first)->stream, first->comm, capture);
}

struct requests {
    const MPI_Request *list;
    int n;
};

static bool is_among(const struct ampi_captured *captured, void *arg)
{
    const struct requests *requests = arg;

    for (int i = 0; i < requests->n; i++)
        if (requests->list[i] != MPI_REQUEST_NULL &&
            extra_of(ampi_request_of(requests->list[i]))->captured == captured)
            return true;
    return false;
}

int ampi_captured_wait(int count, MPI_Request requests[], const MPI_Status *statuses)
{
    struct requests list = {requests, count};
    struct ampi_request *first = NULL;
    int error = check_requests(count, requests, statuses, &first);

    if (error)
        return error;
    error = hold(extra_of(first)->stream, first->comm, is_among, &list);
    if (error)
        return error;
    for (int i = 0; i < count; i++) {
        if (requests[i] == MPI_REQUEST_NULL)
            continue;
        extra_of(ampi_request_of(requests[i]))->is_taken = true;
        ampi_request_destroy(ampi_request_of(requests[i]));
        requests[i] = MPI_REQUEST_NULL;
    }
    return MPI_SUCCESS;
}

/* ---- The end ---- */

/* Takes the communicator's ends of this rank out of the list. */
static struct ampi_captured *take_all(const struct ampi_comm *comm)
{
    struct ampi_captured **link = &all.first, *captured, *taken = NULL;

    pthread_mutex_lock(&all.lock);
    while ((captured = *link)) {
        if (captured->args.comm != comm) {
            link = &captured->next;
            continue;
        }
        *link = captured->next;
        captured->next = taken;
        taken = captured;
    }
    pthread_mutex_unlock(&all.lock);
    return taken;
}

/* The communicator is freed: its graphs must not be launched any more. */
static void close_comm(struct ampi_comm *comm)
{
    struct ampi_captured *next;

    if (!atomic_load_explicit(&all.is_used, memory_order_acquire))
        return;
    for (struct ampi_captured *captured = take_all(comm); captured; captured = next) {
        next = captured->next;
        gpu_graph_forget(&captured->end);
        if (captured->args.stream->captured)
            captured->args.stream->captured =
                NULL; /* of this communicator or a duplicate: the capture is in vain */
        captured->is_closed = true;
        if (captured->n_uses == 0)
            destroy(captured);
    }
}

void ampi_enqueue_connect(void)
{
    static const struct ampi_comm_client client = {.release = close_comm};

    ampi_comm_add_client(&client);
}
