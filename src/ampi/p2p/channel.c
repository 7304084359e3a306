/* SPDX-License-Identifier: BSD-3-Clause
 *
 * channel.c: bound persistent requests. See channel.h for the invariants.
 */
#include "ampi/p2p/channel.h"

#include "ampi/p2p/p2p_device.h"

bool ampi_request_is_send(const struct ampi_request *request)
{
    return request->kind == &ampi_send_kind || request->kind == &ampi_channel_send_kind;
}

bool ampi_request_is_recv(const struct ampi_request *request)
{
    return request->kind == &ampi_recv_kind || request->kind == &ampi_channel_recv_kind;
}

/* ---- Binding ---- */

/* True if this send and this posted receive, which its message would match, can be bound. */
static bool can_bind(const struct ampi_request *send, const struct ampi_request *recv)
{
    const struct ampi_p2p *from = &send->u.p2p, *to = &recv->u.p2p;

    return recv->is_persistent && recv->kind == &ampi_recv_kind && to->node.source == send->comm->rank &&
           to->node.tag == from->tag && !recv->comm->away &&
           from->count * from->type->size_bytes <= to->count * to->type->size_bytes;
}

bool ampi_channel_bind(struct ampi_request *send)
{
    struct ampi_p2p *p2p = &send->u.p2p;
    struct ampi_comm *dest = &send->comm->peer->handles[p2p->peer_rank];
    struct ampi_match_node *node = ampi_match_find_posted(&dest->match, send->comm->rank, p2p->tag);
    struct ampi_request *recv;

    if (!node)
        return false;
    recv = BASE_CONTAINER(node, struct ampi_request, u.p2p.node);
    if (!can_bind(send, recv) || !ampi_match_bind(&dest->match, node))
        return false;
    recv->kind = &ampi_channel_recv_kind;
    recv->u.p2p.bound_send = send;
    recv->u.p2p.memo.changes = 0;
    send->kind = &ampi_channel_send_kind;
    p2p->channel =
        (struct ampi_channel_end){.recv = recv,
                                  .match = &dest->match,
                                  .to = (char *)recv->u.p2p.buf + recv->u.p2p.type->true_lb_bytes,
                                  .from = (const char *)p2p->buf + p2p->type->true_lb_bytes,
                                  .n_bytes = (size_t)(p2p->count * p2p->type->size_bytes),
                                  .is_block = ampi_type_is_block(p2p->type, p2p->count) &&
                                              ampi_type_is_block(recv->u.p2p.type, recv->u.p2p.count)};
    return true;
}

/* Makes a bound receive, which is not posted, and its send ordinary. */
static void leave(struct ampi_request *recv)
{
    struct ampi_request *send = recv->u.p2p.bound_send;

    ampi_match_unbind(&recv->comm->match, &recv->u.p2p.node);
    recv->kind = &ampi_recv_kind;
    if (send)
        send->kind = &ampi_send_kind;
}

/* ---- The send ---- */

static BASE_NOINLINE void copy_layouts(struct ampi_request *send, struct ampi_request *recv)
{
    const struct ampi_p2p *from = &send->u.p2p, *to = &recv->u.p2p;

    ampi_type_copy(to->buf, to->count, to->type, from->buf, from->count, from->type);
}

/* CUDA is in use: true if a GPU makes the copy. */
static BASE_NOINLINE bool is_for_gpu(struct ampi_request *send, const struct ampi_request *recv)
{
    struct ampi_p2p *from = &send->u.p2p;

    from->is_device = ampi_device_has_still(&from->facts, from->buf, from->count, from->type);
    return from->is_device || recv->u.p2p.is_device ||
           (from->channel.n_bytes >= gpu_hop_min_bytes &&
            ampi_device_is_better(send, recv->u.p2p.buf, recv->u.p2p.count, recv->u.p2p.type));
}

static BASE_NOINLINE int start_move(struct ampi_request *send, struct ampi_request *recv)
{
    const struct ampi_channel_end *channel = &send->u.p2p.channel;

    recv->u.p2p.is_posted = false;
    ampi_match_retract_bound(channel->match, &recv->u.p2p.node);
    ampi_status_set_empty(&send->status);
    send->owner->n_sent[AMPI_ROUTE_SAME_PE]++;
    send->state = AMPI_REQUEST_ACTIVE;
    ampi_device_take_sender(recv, send, recv->u.p2p.node.source, recv->u.p2p.node.tag);
    return MPI_SUCCESS;
}

static int start_send(struct ampi_request *send)
{
    const struct ampi_channel_end *channel = &send->u.p2p.channel;
    struct ampi_request *recv = channel->recv;

    if (BASE_UNLIKELY(!recv->u.p2p.is_posted || !ampi_match_has_only_bound(channel->match)))
        return ampi_send_kind.start(send);
    if (BASE_UNLIKELY(gpu_is_used()) && is_for_gpu(send, recv))
        return start_move(send, recv);
    recv->u.p2p.is_posted = false;
    ampi_match_retract_bound(channel->match, &recv->u.p2p.node);
    if (BASE_LIKELY(channel->n_bytes == sizeof(uint64_t) && channel->is_block))
        memcpy(channel->to, channel->from, sizeof(uint64_t)); /* the most common one, without a call */
    else if (BASE_UNLIKELY(!channel->is_block))
        copy_layouts(send, recv);
    else if (channel->n_bytes > 0)
        memcpy(channel->to, channel->from, channel->n_bytes);
    ampi_p2p_fill_status(&recv->status, recv->u.p2p.node.source, recv->u.p2p.node.tag, channel->n_bytes,
                         channel->n_bytes);
    /* The rest of it is empty from its creation, and from each Start on the ordinary path. */
    send->status.MPI_ERROR = MPI_SUCCESS;
    ampi_status_set_cancelled(&send->status, false);
    send->owner->n_sent[AMPI_ROUTE_SAME_PE]++;
    send->state = AMPI_REQUEST_COMPLETE;
    ampi_request_complete(recv); /* may free it, which ends the channel */
    return MPI_SUCCESS;
}

static void release_send(struct ampi_request *send)
{
    send->u.p2p.channel.recv->u.p2p.bound_send = NULL;
    ampi_send_kind.release(send);
}

const struct ampi_request_kind ampi_channel_send_kind = {
    .name = "send",
    .start = start_send,
    .cancel = ampi_send_cancel,
    .release = release_send,
};

/* ---- The receive ---- */

/* The receive cannot be posted at once: unexpected messages may match it, or it cannot stay bound. */
static BASE_COLD int start_recv_specially(struct ampi_request *recv)
{
    struct ampi_p2p *p2p = &recv->u.p2p;
    struct ampi_recv_args args = {p2p->buf,         p2p->count,    p2p->type,
                                  p2p->node.source, p2p->node.tag, recv->comm};

    if (!p2p->bound_send || recv->comm->away) {
        leave(recv);
        return recv->kind->start(recv);
    }
    if (ampi_recv_try_known(recv, &args)) {
        ampi_request_complete(recv);
    } else if (!recv->comm->away || !ampi_recv_post_specially(recv, args.source)) {
        p2p->is_posted = true;
        ampi_match_post_bound(&recv->comm->match, &p2p->node);
    } /* else: the message is being fetched */
    return MPI_SUCCESS;
}

/* CUDA is in use. Before that, is_device is false. */
static BASE_NOINLINE void look_at_memory(struct ampi_request *recv)
{
    struct ampi_p2p *p2p = &recv->u.p2p;

    p2p->is_device = ampi_device_has_still(&p2p->facts, p2p->buf, p2p->count, p2p->type);
}

static int start_recv(struct ampi_request *recv)
{
    struct ampi_p2p *p2p = &recv->u.p2p;
    struct ampi_comm *comm = recv->comm;

    recv->state = AMPI_REQUEST_ACTIVE;
    if (BASE_UNLIKELY(gpu_is_used()))
        look_at_memory(recv);
    if (BASE_UNLIKELY(comm->match.unexpected.n_nodes || comm->away || !p2p->bound_send))
        return start_recv_specially(recv);
    p2p->is_posted = true;
    ampi_match_post_bound(&comm->match, &p2p->node);
    return MPI_SUCCESS;
}

static int cancel_recv(struct ampi_request *recv)
{
    if (!recv->u.p2p.is_posted)
        return MPI_SUCCESS;
    ampi_match_retract_bound(&recv->comm->match, &recv->u.p2p.node);
    ampi_recv_end_cancelled(recv);
    return MPI_SUCCESS;
}

static void release_recv(struct ampi_request *recv)
{
    leave(recv);
    recv->kind->release(recv);
}

const struct ampi_request_kind ampi_channel_recv_kind = {
    .name = "receive",
    .start = start_recv,
    .cancel = cancel_recv,
    .release = release_recv,
};
