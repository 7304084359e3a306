/* SPDX-License-Identifier: BSD-3-Clause
 *
 * direct.c: see direct.h. A message goes from the sender's thread straight into the destination's engine:
 *
 *      some bytes           an item in a ring, if there is room; the receiver does the rest
 *      receive posted       the sender copies the data into its buffer and completes it
 *      none, little data    the sender leaves a message in the engine
 *      none, much data      it leaves a message that names its request, and waits until a receive has fetched the data
 */
#include "ampi/p2p/thread/direct.h"

#include "ampi/object/gate.h"
#include "ampi/p2p/p2p.h"
#include "gpu/gpu.h"

/* ---- Callers, handles, arguments ---- */

/* The handle's object if the caller may use its endpoint; else NULL. */
static struct ampi_comm *find(const struct ampi_direct_call *call, MPI_Comm handle)
{
    struct ampi_comm *comm;

    if (!ampi_handle_has_magic(handle, AMPI_MAGIC_COMM) || BASE_UNLIKELY(gpu_is_active))
        return NULL;
    comm = (struct ampi_comm *)handle;
    return comm->endpoint && ampi_gate_rank(call->from) == comm->owner ? comm : NULL;
}

static bool is_buffer_fine(const void *buf, MPI_Count count, const struct ampi_type *type)
{
    return count >= 0 && type && type->is_committed && !ampi_type_is_too_much(type, count) &&
           (buf || count == 0 || !type->is_predefined);
}

/* Fills in the arguments. False: the call is erroneous, or has no message. */
static bool fill_send(const struct ampi_direct_call *call, struct ampi_send_args *args, MPI_Datatype datatype,
                      MPI_Comm handle)
{
    args->comm = find(call, handle);
    args->type = ampi_type_of(datatype);
    return args->comm && is_buffer_fine(args->buf, args->count, args->type) && args->tag >= 0 &&
           (unsigned)args->dest < (unsigned)args->comm->peer->n_ranks;
}

static bool fill_recv(const struct ampi_direct_call *call, struct ampi_recv_args *args, MPI_Datatype datatype,
                      MPI_Comm handle)
{
    args->comm = find(call, handle);
    args->type = ampi_type_of(datatype);
    return args->comm && is_buffer_fine(args->buf, args->count, args->type) &&
           (args->tag >= 0 || args->tag == MPI_ANY_TAG) &&
           ((unsigned)args->source < (unsigned)args->comm->peer->n_ranks || args->source == MPI_ANY_SOURCE);
}

/* ---- Sending ---- */

/* Copies the data into a receive that has matched. */
static void copy_to(const struct ampi_send_args *args, size_t n_bytes, struct ampi_request *recv)
{
    struct ampi_p2p *p2p = &recv->u.p2p;

    if (BASE_LIKELY(ampi_type_is_block(args->type, args->count))) {
        ampi_p2p_unpack((const char *)args->buf + args->type->true_lb_bytes, n_bytes, args->comm->rank,
                        args->tag, p2p->buf, p2p->count, p2p->type, &recv->status);
    } else {
        struct ampi_request sender = {
            .u.p2p = {.buf = (void *)args->buf, .count = args->count, .type = args->type}};
        ampi_p2p_copy_from_sender(&sender, n_bytes, args->comm->rank, args->tag, p2p->buf, p2p->count,
                                  p2p->type, &recv->status);
    }
}

/* Leaves a message. With the destination's lock. */
static void leave_message(const struct ampi_send_args *args, size_t n_bytes, struct ampi_request *waits,
                          struct ampi_comm *dest)
{
    struct ampi_message *message = ampi_message_alloc(dest->endpoint->messages, waits ? 0 : n_bytes);

    if (waits) {
        message->size_bytes = n_bytes;
        message->sender = waits;
    } else {
        ampi_p2p_pack(message->data, args, n_bytes);
    }
    ampi_message_keep(dest, message, args->comm->rank, args->tag);
}

/* The outcome of a send. */
enum outcome { REFUSED, SENT, WAITS };

/* Puts the message into the destination's engine. waits: the request of the send if there is much data, else NULL. */
static enum outcome send_to_engine(const struct ampi_send_args *args, size_t n_bytes,
                                   struct ampi_request *waits)
{
    struct ampi_comm *dest = &args->comm->peer->handles[args->dest];
    struct ampi_endpoint *endpoint = dest->endpoint;
    struct ampi_match_node *node;
    struct ampi_request *recv;

    ult_lock_take(&endpoint->lock);
    if (!ampi_endpoint_is_direct(dest)) {
        ult_lock_give(&endpoint->lock);
        return REFUSED;
    }
    ult_inbox_drain(&endpoint->inbox);
    node = ampi_match_take_posted(&dest->match, args->comm->rank, args->tag);
    if (!node) {
        leave_message(args, n_bytes, waits, dest);
        ult_lock_give(&endpoint->lock);
        return waits ? WAITS : SENT;
    }
    recv = BASE_CONTAINER(node, struct ampi_request, u.p2p.node);
    recv->u.p2p.is_posted = false;
    if (waits) { /* a long copy */
        ult_lock_give(&endpoint->lock);
        copy_to(args, n_bytes, recv);
        ampi_endpoint_complete(recv);
        return SENT;
    }
    copy_to(args, n_bytes, recv);
    ampi_endpoint_complete_locked(recv);
    ult_lock_give(&endpoint->lock);
    return SENT;
}

/* A message in a ring. */
struct direct_item {
    struct ampi_comm *dest;
    int source;
    int tag;
    uint32_t n_bytes;
    unsigned char data[ULT_ITEM_BYTES - 20];
};
_Static_assert(sizeof(struct direct_item) <= ULT_ITEM_BYTES, "fits into an item");

/* With the destination's lock. */
static void handle_item(const struct ult_item *item)
{
    const struct direct_item *small = (const struct direct_item *)item->body;
    struct ampi_comm *dest = small->dest;
    struct ampi_match_node *node = ampi_match_take_posted(&dest->match, small->source, small->tag);
    struct ampi_message *message;
    struct ampi_request *recv;

    if (node) {
        recv = BASE_CONTAINER(node, struct ampi_request, u.p2p.node);
        recv->u.p2p.is_posted = false;
        ampi_p2p_unpack(small->data, small->n_bytes, small->source, small->tag, recv->u.p2p.buf,
                        recv->u.p2p.count, recv->u.p2p.type, &recv->status);
        ampi_endpoint_complete_locked(recv);
        return;
    }
    message = ampi_message_alloc(dest->endpoint->messages, small->n_bytes);
    memcpy(message->data, small->data, small->n_bytes);
    ampi_message_keep(dest, message, small->source, small->tag);
}

/* The destination waits in its PE, or is not direct any more: empties its rings for it. */
static BASE_COLD enum outcome deliver(struct ampi_comm *dest, struct ult_ring *ring)
{
    bool is_left = false;

    ult_lock_take(&dest->endpoint->lock);
    if (ampi_endpoint_is_direct(dest))
        ult_inbox_drain(&dest->endpoint->inbox);
    else
        is_left = ult_ring_take_back(ring);
    ult_lock_give(&dest->endpoint->lock);
    return is_left ? REFUSED : SENT;
}

static enum outcome send_small(const struct ampi_send_args *args, size_t n_bytes)
{
    struct ampi_comm *dest = &args->comm->peer->handles[args->dest];
    struct ult_ring *ring = ampi_endpoint_ring_to(args->comm, args->dest);
    struct ult_item item = {.handle = handle_item};
    struct direct_item *small = (struct direct_item *)item.body;

    small->dest = dest;
    small->source = args->comm->rank;
    small->tag = args->tag;
    small->n_bytes = (uint32_t)n_bytes;
    ampi_p2p_pack(small->data, args, n_bytes);
    if (!ult_ring_try_put(ring, &item))
        return send_to_engine(args, n_bytes, NULL);
    atomic_thread_fence(memory_order_seq_cst);
    if (BASE_UNLIKELY(atomic_load_explicit(&dest->endpoint->watched, memory_order_relaxed)))
        return deliver(dest, ring);
    return SENT;
}

static enum outcome send_to(const struct ampi_send_args *args, size_t n_bytes, struct ampi_request *waits)
{
    const struct ampi_comm *dest = &args->comm->peer->handles[args->dest];

    if (!dest->endpoint || !ampi_endpoint_is_direct(dest))
        return REFUSED;
    if (n_bytes <= sizeof(((struct direct_item *)0)->data))
        return send_small(args, n_bytes);
    return send_to_engine(args, n_bytes, waits);
}

static inline size_t bytes_of(const struct ampi_send_args *args)
{
    return (size_t)(args->count * args->type->size_bytes);
}

/* ---- Waiting ---- */

/* Waits for a request on the caller's stack. */
static void await(const struct ampi_direct_call *call, struct ampi_request *request)
{
    struct ult *entered;

    if (ampi_endpoint_spin(request))
        return;
    entered = ampi_gate_enter(call->name, call->from);
    ampi_enter(call->name);
    ampi_endpoint_publish_on_stack(request);
    ampi_request_await(request);
    ampi_gate_leave(entered);
}

static BASE_COLD int raise_result(const struct ampi_direct_call *call, struct ampi_comm *comm,
                                  const MPI_Status *status)
{
    struct ult *entered = ampi_gate_enter(call->name, call->from);
    int error;

    ampi_enter(call->name);
    error = ampi_p2p_result(comm, status);
    ampi_gate_leave(entered);
    return error;
}

/* False: the destination is not direct. */
static bool send_blocking(const struct ampi_direct_call *call, const struct ampi_send_args *args)
{
    size_t n_bytes = bytes_of(args);
    struct ampi_request request;
    enum outcome outcome;

    if (BASE_LIKELY(n_bytes <= AMPI_EAGER_MAX_BYTES)) {
        outcome = send_to(args, n_bytes, NULL);
    } else {
        ampi_request_init_on_stack(&request, args->comm->owner, &ampi_private_send_kind, args->comm);
        request.status.MPI_ERROR = MPI_SUCCESS;
        ampi_send_fill(&request, args);
        outcome = send_to(args, n_bytes, &request);
    }
    if (outcome == REFUSED)
        return false;
    ampi_endpoint_count(args->comm, args->dest);
    if (outcome == WAITS)
        await(call, &request);
    return true;
}

bool ampi_direct_send(struct ampi_direct_call *call, const void *buf, MPI_Count count, MPI_Datatype datatype,
                      int dest, int tag, MPI_Comm comm)
{
    struct ampi_send_args args = {.buf = buf, .count = count, .dest = dest, .tag = tag};

    call->result = MPI_SUCCESS;
    return fill_send(call, &args, datatype, comm) && send_blocking(call, &args);
}

bool ampi_direct_isend(struct ampi_direct_call *call, const void *buf, MPI_Count count, MPI_Datatype datatype,
                       int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_send_args args = {.buf = buf, .count = count, .dest = dest, .tag = tag};
    struct ampi_request *waits = NULL;
    enum outcome outcome;
    size_t n_bytes;

    if (!request || !fill_send(call, &args, datatype, comm))
        return false;
    n_bytes = bytes_of(&args);
    if (n_bytes > AMPI_EAGER_MAX_BYTES) {
        if (!args.type->is_predefined)
            return false; /* the request would have to keep the type */
        waits = ampi_endpoint_request(args.comm, &ampi_private_send_kind);
        ampi_send_fill(waits, &args);
    }
    outcome = send_to(&args, n_bytes, waits);
    if (outcome != WAITS && waits)
        ampi_direct_drop(call, waits, waits, 1);
    if (outcome == REFUSED)
        return false;
    ampi_endpoint_count(args.comm, dest);
    *request = (MPI_Request)(outcome == WAITS ? waits : &ampi_request_done);
    call->result = MPI_SUCCESS;
    return true;
}

/* ---- Receiving ---- */

/* Receives a message that the engine had. With the lock, which it releases. */
static void consume(const struct ampi_recv_args *args, struct ampi_message *message, MPI_Status *status)
{
    struct ampi_endpoint *endpoint = args->comm->endpoint;
    struct ampi_request *sender = message->sender;

    if (BASE_LIKELY(!sender)) {
        ampi_p2p_unpack(message->data, message->size_bytes, message->node.source, message->node.tag,
                        args->buf, args->count, args->type, status);
        ampi_message_free(endpoint->messages, message);
        ult_lock_give(&endpoint->lock);
        return;
    }
    ult_lock_give(&endpoint->lock);
    ampi_p2p_copy_from_sender(sender, message->size_bytes, message->node.source, message->node.tag, args->buf,
                              args->count, args->type, status);
    ampi_endpoint_complete(sender);
    ult_lock_take(&endpoint->lock);
    ampi_message_free(endpoint->messages, message);
    ult_lock_give(&endpoint->lock);
}

/* Receives a message that has come, or posts the request, which is new. False: the handle is not direct any more. */
static bool start(const struct ampi_recv_args *args, struct ampi_request *request)
{
    struct ampi_endpoint *endpoint = args->comm->endpoint;
    struct ampi_match_node *node;

    ampi_recv_fill(request, args);
    ult_lock_take(&endpoint->lock);
    if (!ampi_endpoint_is_direct(args->comm)) {
        ult_lock_give(&endpoint->lock);
        return false;
    }
    ult_inbox_drain(&endpoint->inbox);
    node = ampi_match_take_unexpected(&args->comm->match, args->source, args->tag);
    if (node) {
        consume(args, BASE_CONTAINER(node, struct ampi_message, node), &request->status);
        request->state = AMPI_REQUEST_COMPLETE;
        return true;
    }
    request->u.p2p.is_posted = true;
    ampi_match_add_posted(&args->comm->match, &request->u.p2p.node, args->source, args->tag);
    ult_lock_give(&endpoint->lock);
    return true;
}

/* Starts a blocking receive, with a request on the caller's stack. */
static bool receive(const struct ampi_recv_args *args, struct ampi_request *request)
{
    ampi_request_init_on_stack(request, args->comm->owner, &ampi_private_recv_kind, args->comm);
    return start(args, request);
}

/* Ends a blocking receive. */
static int finish(const struct ampi_direct_call *call, struct ampi_request *request, MPI_Status *status)
{
    await(call, request);
    ampi_status_hand_out(status, &request->status);
    if (BASE_LIKELY(request->status.MPI_ERROR == MPI_SUCCESS))
        return MPI_SUCCESS;
    return raise_result(call, request->comm, &request->status);
}

bool ampi_direct_recv(struct ampi_direct_call *call, void *buf, MPI_Count count, MPI_Datatype datatype,
                      int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    struct ampi_recv_args args = {.buf = buf, .count = count, .source = source, .tag = tag};
    struct ampi_request request;

    if (!fill_recv(call, &args, datatype, comm) || !receive(&args, &request))
        return false;
    call->result = finish(call, &request, status);
    return true;
}

/* Sends inside of the PE. */
static int send_inside(const struct ampi_direct_call *call, const struct ampi_send_args *args)
{
    struct ult *entered = ampi_gate_enter(call->name, call->from);
    int error = ampi_send_blocking(ampi_enter(call->name), args);

    ampi_gate_leave(entered);
    return error;
}

bool ampi_direct_sendrecv(struct ampi_direct_call *call, const void *sendbuf, MPI_Count sendcount,
                          MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf, MPI_Count recvcount,
                          MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
    struct ampi_send_args send = {.buf = sendbuf, .count = sendcount, .dest = dest, .tag = sendtag};
    struct ampi_recv_args recv = {.buf = recvbuf, .count = recvcount, .source = source, .tag = recvtag};
    struct ampi_request request;
    int error = MPI_SUCCESS, recv_error;

    if (!fill_send(call, &send, sendtype, comm) || !fill_recv(call, &recv, recvtype, comm) ||
        !receive(&recv, &request))
        return false;
    if (!send_blocking(call, &send))
        error = send_inside(call, &send);
    recv_error = finish(call, &request, status);
    call->result = error ? error : recv_error;
    return true;
}

bool ampi_direct_irecv(struct ampi_direct_call *call, void *buf, MPI_Count count, MPI_Datatype datatype,
                       int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_recv_args args = {.buf = buf, .count = count, .source = source, .tag = tag};
    struct ampi_request *object;

    if (!request || !fill_recv(call, &args, datatype, comm) || !args.type->is_predefined)
        return false;
    object = ampi_endpoint_request(args.comm, &ampi_private_recv_kind);
    if (!start(&args, object)) {
        ampi_direct_drop(call, object, object, 1);
        return false;
    }
    *request = (MPI_Request)object;
    call->result = MPI_SUCCESS;
    return true;
}
