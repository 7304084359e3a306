/* SPDX-License-Identifier: BSD-3-Clause
 *
 * early.c: enqueued operations that match at the call. See early.h.
 */
#include "ampi/enqueue/early.h"

#include "ampi/p2p/p2p_device.h"
#include "base/log.h"

enum send_state { SLOT_EMPTY, SLOT_FULL, SLOT_FAILED };

/* A match whose data the PE moves when a stream has come to one of its ends. */
struct pending {
    struct gpu_watch watch;
    struct ampi_device_match match;
    struct ampi_early *send; /* NULL: an ordinary send */
    struct ampi_early *recv; /* NULL: an ordinary receive */
    bool is_over;            /* the GPUs exchange the data after all: the PE does nothing more */
};

struct ampi_early {
    struct gpu_point point; /* send: reached when its slot is full; receive: when the stream has come to it */
    struct ampi_request *inner;
    struct ampi_request *outer; /* NULL: complete, so it may have been freed */
    struct ampi_stream *stream; /* a reference */
    int n_uses; /* of the inner request, the point and the stream's wait: those that are not over */
    bool is_send;
    /* Of a send: */
    struct gpu_slot *slot;
    const void *data;
    _Atomic int state; /* enum send_state; written by its PE, read by the receiver's */
    /* Of a receive: */
    struct gpu_inbox inbox;
    struct pending *pending;     /* NULL: no match, or one that does not wait */
    struct ampi_request *sender; /* the send whose slot the GPU reads; NULL: the GPU reads none */
    MPI_Status *status;          /* of the program, for a stream that waits */
    struct batch *batch;         /* the stream's wait; NULL: none */
    bool has_arrived;            /* the stream has come to it */
    bool is_awaited;             /* the stream waits for it, or is about to */
    bool is_begun;               /* the PE moves the data, or has moved it */
};

/* Receives for which a stream waits together. */
struct batch {
    struct gpu_point done;
    int n_undecided; /* receives whose part of the wait is not decided: not matched, or being received by the
                      * PE */
    bool is_launched;
    int n;
    struct ampi_early *recvs[];
};

/* ---- Objects ---- */

static void release_type(struct ampi_request *request)
{
    ampi_type_unref(request->u.p2p.type);
}

static const struct ampi_request_kind send_kind = {.name = "enqueued send", .release = release_type};
static const struct ampi_request_kind recv_kind = {.name = "enqueued receive", .release = release_type};

static void drop(struct ampi_early *early)
{
    if (--early->n_uses > 0)
        return;
    if (early->is_send)
        gpu_slot_put(early->slot);
    else
        gpu_inbox_put(&early->inbox);
    ampi_stream_unref(early->stream);
    free(early);
}

bool ampi_early_is_send(const struct ampi_early *early)
{
    return early->is_send;
}

static void complete_outer(struct ampi_early *early, int gpu_error)
{
    struct ampi_request *outer = early->outer;

    early->outer = NULL;
    if (!outer)
        return;
    if (BASE_UNLIKELY(gpu_error))
        outer->status.MPI_ERROR = ampi_device_error(outer->owner, gpu_error);
    ampi_request_complete(outer);
}

/* Stores the result of a receive in the program's status, which exists because the stream has not passed the
 * wait. */
static void give_result(const struct ampi_early *early)
{
    if (early->outer)
        ampi_enqueue_give_result(early->outer, early->status);
}

/* The receive's part of the batch's wait is decided, or over. */
static void tell_batch(struct ampi_early *early)
{
    struct batch *batch = early->batch;

    if (--batch->n_undecided == 0 && batch->is_launched)
        gpu_point_expect(&batch->done);
}

/* ---- Matches that wait ---- */

static struct ampi_early *early_of(const struct ampi_request *request, const struct ampi_request_kind *kind)
{
    return request && request->kind == kind ? request->u.p2p.early : NULL;
}

static bool is_ready(const struct ampi_early *send, const struct ampi_early *recv)
{
    return (!send || atomic_load_explicit(&send->state, memory_order_acquire) != SLOT_EMPTY) &&
           (!recv || recv->has_arrived);
}

/* The slot will never be full. The send is complete, so only the receive gets an error. */
static BASE_COLD void fail(const struct ampi_device_match *match)
{
    ampi_p2p_fill_status(&match->recv->status, match->source, match->tag, 0, 0);
    match->recv->status.MPI_ERROR = MPI_ERR_OTHER;
    ampi_p2p_complete_sender(match->recv->owner->pe_id, match->sender->owner->pe_id, match->sender);
    ampi_request_complete(match->recv);
}

static void begin(const struct ampi_device_match *match, struct ampi_early *send, struct ampi_early *recv)
{
    if (recv) {
        recv->pending = NULL;
        recv->is_begun = true;
    }
    if (BASE_UNLIKELY(send && atomic_load_explicit(&send->state, memory_order_relaxed) == SLOT_FAILED))
        fail(match);
    else
        ampi_device_move(match);
}

/* Polls a waiting match. error: the context is broken, so the move will fail. */
static bool look(struct gpu_watch *watch, int error)
{
    struct pending *pending = BASE_CONTAINER(watch, struct pending, watch);

    if (!pending->is_over && !error && !is_ready(pending->send, pending->recv))
        return true;
    if (!pending->is_over)
        begin(&pending->match, pending->send, pending->recv);
    free(pending);
    return false;
}

static void wait_for_streams(const struct ampi_device_match *match, struct ampi_early *send,
                             struct ampi_early *recv)
{
    struct pending *made = base_malloc(sizeof *made, "a message between streams");

    *made = (struct pending){.watch.look = look, .match = *match, .send = send, .recv = recv};
    gpu_sync_watch((recv ? recv : send)->stream->sync, &made->watch);
    if (recv)
        recv->pending = made;
    gpu_watch_begin(&made->watch);
}

/* ---- Matches of the GPUs ---- */

static bool can_be_direct(const struct ampi_early *send, const struct ampi_early *recv)
{
    return send && recv && recv->is_awaited && !recv->is_begun && recv->outer &&
           gpu_inbox_can(&recv->inbox, send->slot);
}

static void make_direct(const struct ampi_device_match *match, const struct ampi_early *send,
                        struct ampi_early *recv)
{
    const struct ampi_p2p *p2p = &recv->inner->u.p2p;
    size_t n_bytes = match->src.size_bytes, n_room = (size_t)(p2p->count * p2p->type->size_bytes);

    ampi_p2p_fill_status(&recv->outer->status, match->source, match->tag, n_bytes, n_room);
    recv->sender = match->sender;
    give_result(recv);
    gpu_inbox_tell(&recv->inbox, send->slot, n_bytes < n_room ? n_bytes : n_room);
    tell_batch(recv);
}

/* ampi_device_defer */
static bool defer(const struct ampi_device_match *match)
{
    struct ampi_early *send = early_of(match->sender, &send_kind), *recv = early_of(match->recv, &recv_kind);

    if (!send && !recv)
        return false;
    if (can_be_direct(send, recv))
        make_direct(match, send, recv);
    else if (is_ready(send, recv))
        begin(match, send, recv);
    else
        wait_for_streams(match, send, recv);
    return true;
}

/* ---- Sends ---- */

/* The receiver has the data: frees the slot. */
static void send_taken(struct ampi_request *inner, struct ampi_request *whole)
{
    struct ampi_early *early = inner->u.p2p.early;

    (void)whole;
    ampi_request_destroy(inner);
    drop(early);
}

static void send_filled(struct gpu_point *point, int error)
{
    struct ampi_early *early = BASE_CONTAINER(point, struct ampi_early, point);

    atomic_store_explicit(&early->state, BASE_UNLIKELY(error) ? SLOT_FAILED : SLOT_FULL,
                          memory_order_release);
    complete_outer(early, error);
    drop(early);
}

static void become_slot(struct ampi_early *early)
{
    struct ampi_request *inner = early->inner;
    struct ampi_p2p *p2p = &inner->u.p2p;
    size_t n_bytes = (size_t)(p2p->count * p2p->type->size_bytes);

    ampi_type_unref(p2p->type);
    p2p->type = ampi_type_of(MPI_BYTE);
    ampi_type_ref(p2p->type);
    p2p->buf = gpu_slot_data(early->slot);
    p2p->count = (MPI_Count)n_bytes;
    p2p->mode = AMPI_SEND_SYNCHRONOUS; /* the slot is needed until a receive has the data */
    p2p->early = early;
    inner->kind = &send_kind;
    inner->on_complete = send_taken;
    inner->whole = NULL;
}

static int enqueue_send(struct ampi_early *early)
{
    int error = gpu_slot_fill(early->slot, early->data, &early->point);

    if (error)
        return error;
    early->n_uses = 2;
    become_slot(early);
    ampi_send_queue_device(early->inner->owner, early->inner);
    return 0;
}

/* ---- Receives ---- */

static void recv_arrived(struct gpu_point *point, int error)
{
    struct ampi_early *early = BASE_CONTAINER(point, struct ampi_early, point);

    early->has_arrived = true; /* a waiting match finds this, and moves the data */
    if (BASE_UNLIKELY(error) && !early->pending && !early->is_begun && !early->is_awaited &&
        early->inner->u.p2p.is_posted) {
        ampi_match_remove_posted(&early->inner->comm->match, &early->inner->u.p2p.node);
        ampi_request_destroy(early->inner);
        early->n_uses--;
        complete_outer(early, error);
    }
    drop(early);
}

/* The PE has received the message for a receive. */
static void recv_moved(struct ampi_request *inner, struct ampi_request *whole)
{
    struct ampi_early *early = inner->u.p2p.early;

    (void)whole;
    if (early->outer)
        early->outer->status = inner->status;
    ampi_request_destroy(inner);
    early->is_begun = true;
    if (early->is_awaited) {
        give_result(early);
        gpu_inbox_release(&early->inbox);
        if (early->batch)
            tell_batch(early);
    } else {
        complete_outer(early, 0);
    }
    drop(early);
}

/* The stream has passed the wait, or error says why it never will. */
static void end_wait(struct ampi_early *early, int error)
{
    struct ampi_request *inner = early->inner;

    if (early->sender) {
        ampi_p2p_complete_sender(inner->owner->pe_id, early->sender->owner->pe_id, early->sender);
        ampi_request_destroy(inner);
        early->n_uses--;
        gpu_slot_count_one();
    } else if (BASE_UNLIKELY(error) && !early->is_begun && !early->pending && inner->u.p2p.is_posted) {
        ampi_match_remove_posted(&inner->comm->match, &inner->u.p2p.node);
        inner->u.p2p.is_posted = false;
        ampi_request_destroy(inner);
        early->n_uses--;
    }
    complete_outer(early, error);
    drop(early);
}

static void batch_done(struct gpu_point *point, int error)
{
    struct batch *batch = BASE_CONTAINER(point, struct batch, done);

    for (int i = 0; i < batch->n; i++) {
        batch->recvs[i]->batch = NULL;
        end_wait(batch->recvs[i], error);
    }
    free(batch);
}

static struct batch *make_batch(struct ampi_early *const *recvs, int n)
{
    struct batch *made = base_malloc(sizeof *made + (size_t)n * sizeof made->recvs[0], "a wait of a stream");

    made->done.reached = batch_done;
    made->is_launched = false;
    made->n = made->n_undecided = n;
    for (int i = 0; i < n; i++) {
        made->recvs[i] = recvs[i];
        recvs[i]->batch = made;
    }
    return made;
}

/* Launches the batch's kernel. After an error no receive refers to the batch. */
static int launch(struct batch *batch, struct gpu_point *arrived)
{
    struct gpu_inbox *few[4] = {NULL}, **inboxes = few;
    int error;

    if (batch->n > (int)BASE_COUNT(few))
        inboxes = base_malloc((size_t)batch->n * sizeof *inboxes, "a wait of a stream");
    for (int i = 0; i < batch->n; i++)
        inboxes[i] = &batch->recvs[i]->inbox;
    error = gpu_inbox_empty(batch->recvs[0]->stream->sync, inboxes, batch->n, arrived, &batch->done);
    if (inboxes != few)
        free(inboxes);
    batch->is_launched = !error;
    if (!error && batch->n_undecided > 0)
        gpu_point_rest(&batch->done);
    for (int i = 0; i < batch->n && error; i++)
        batch->recvs[i]->batch = NULL;
    return error;
}

/* Matches the receive, or posts it. */
static void post(struct ampi_early *early)
{
    struct ampi_request *inner = early->inner;
    struct ampi_p2p *p2p = &inner->u.p2p;
    struct ampi_recv_args args = {p2p->buf,         p2p->count,    p2p->type,
                                  p2p->node.source, p2p->node.tag, inner->comm};
    bool is_received;

    p2p->early = early;
    p2p->is_device = true;
    inner->kind = &recv_kind;
    inner->on_complete = recv_moved;
    inner->whole = NULL;
    is_received = ampi_recv_try(inner->owner, &args, &inner->status);
    BASE_ASSERT(!is_received); /* into a device buffer, never at once */
    ampi_recv_post(inner, args.source, args.tag);
}

/* The launch has failed, but the receive has matched meanwhile, because other threads ran: it continues
 * without the stream. */
static BASE_COLD void orphan(struct ampi_early *early)
{
    early->outer = NULL;
    early->has_arrived = true;
    if (early->sender)
        end_wait(early, 0);
}

static int enqueue_recv(struct ampi_early *early, bool is_awaited, MPI_Status *status)
{
    struct batch *batch = is_awaited ? make_batch(&early, 1) : NULL;
    int error;

    early->is_awaited = is_awaited;
    early->status = status;
    early->n_uses = 2 + is_awaited;
    post(early);
    error =
        is_awaited ? launch(batch, &early->point) : gpu_sync_add(early->stream->sync, &early->point, NULL);
    if (BASE_LIKELY(!error))
        return 0;
    free(batch);
    early->n_uses = 1;
    early->is_awaited = false;
    if (early->inner->u.p2p.is_posted) {
        ampi_match_remove_posted(&early->inner->comm->match, &early->inner->u.p2p.node);
        ampi_request_destroy(early->inner);
        drop(early);
    } else {
        early->n_uses += early->sender != NULL;
        orphan(early);
    }
    return error;
}

/* ---- Both ---- */

/* True if all ranks that the operation may match are in this process. */
static bool is_local(const struct ampi_comm *comm, int peer)
{
    const struct ampi_layout *layout = comm->peer->layout;

    if (peer == MPI_PROC_NULL || comm->has_failed)
        return false;
    return peer == MPI_ANY_SOURCE ? layout->n_local == comm->peer->n_ranks
                                  : layout->pe_of[peer] != AMPI_PE_REMOTE;
}

static bool take(struct ampi_early *early, const struct ampi_p2p *p2p)
{
    size_t n_bytes = (size_t)(p2p->count * p2p->type->size_bytes);
    void *data = n_bytes ? (char *)p2p->buf + p2p->type->true_lb_bytes : NULL;

    if (!ampi_type_is_block(p2p->type, p2p->count) || n_bytes > gpu_slot_bytes)
        return false;
    if (!early->is_send)
        return ampi_device_has(p2p->buf, p2p->count, p2p->type) &&
               gpu_inbox_take(early->stream->sync, &early->inbox, data, n_bytes);
    early->data = data;
    early->slot = gpu_slot_take(early->stream->sync, data, n_bytes);
    return early->slot != NULL;
}

struct ampi_early *ampi_early_create(const struct ampi_enqueue *what, struct ampi_request *outer)
{
    struct ampi_request *inner = what->inner;
    const struct ampi_p2p *p2p = &inner->u.p2p;
    bool is_send = inner->kind == &ampi_send_kind;
    struct ampi_early *made;

    if (what->start != ampi_enqueue_start_p2p || what->stream->n_late > 0 ||
        gpu_sync_is_full(what->stream->sync) ||
        !is_local(inner->comm, is_send ? p2p->peer_rank : p2p->node.source) ||
        (is_send && p2p->mode == AMPI_SEND_SYNCHRONOUS))
        return NULL;
    made = base_calloc(1, sizeof *made, "an enqueued operation");
    made->is_send = is_send;
    made->stream = what->stream;
    if (!take(made, p2p)) {
        free(made);
        return NULL;
    }
    atomic_store_explicit(&ampi_device_defer, defer, memory_order_relaxed);
    made->point.reached = is_send ? send_filled : recv_arrived;
    made->inner = inner;
    made->outer = outer;
    ampi_stream_ref(made->stream);
    return made;
}

int ampi_early_enqueue(struct ampi_early *early, bool is_awaited, MPI_Status *status)
{
    int error;

    if (!early->is_send)
        return enqueue_recv(early, is_awaited, status);
    error = enqueue_send(early);
    if (BASE_UNLIKELY(error)) {
        ampi_request_destroy(early->inner);
        early->n_uses = 1;
        drop(early);
    }
    return error;
}

bool ampi_early_can_wait(const struct ampi_early *early)
{
    return !early->is_send && !early->is_awaited && !early->is_begun;
}

bool ampi_early_needs_hold(const struct ampi_early *early)
{
    return !early->is_send && !early->is_awaited;
}

/* The stream waits for the receive from now on: if it has matched an early send, the GPUs may exchange the
 * data. */
static void await(struct ampi_early *early, MPI_Status *status)
{
    struct pending *pending = early->pending;

    early->is_awaited = true;
    early->status = status;
    early->n_uses++;
    if (!pending || !can_be_direct(pending->send, early))
        return;
    pending->is_over = true;
    early->pending = NULL;
    make_direct(&pending->match, pending->send, early);
}

int ampi_early_wait(struct ampi_early *const *recvs, MPI_Status *const *statuses, int n)
{
    struct batch *batch = make_batch(recvs, n);
    int error;

    for (int i = 0; i < n; i++)
        await(recvs[i], statuses[i]);
    error = launch(batch, NULL);
    if (BASE_LIKELY(!error))
        return 0;
    for (int i = 0; i < n; i++) /* the context is broken: complete the requests */
        end_wait(recvs[i], error);
    free(batch);
    return error;
}
