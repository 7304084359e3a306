/* SPDX-License-Identifier: BSD-3-Clause
 *
 * p2p_watch.c: events of messages. See p2p_watch.h.
 */
#include "ampi/p2p/p2p_watch.h"

#include "ampi/p2p/channel.h"
#include "ampi/p2p/p2p_failure.h"
#include "ampi/p2p/schedule.h"

struct ampi_message ampi_message_watch_mark;
struct ampi_p2p_checker ampi_p2p_checker;
struct ampi_p2p_message (*ampi_p2p_partitioned_message)(const struct ampi_request *request);

struct ampi_message *ampi_p2p_mark_of(const struct ampi_comm *comm)
{
    if (comm->has_failed)
        return &ampi_message_failed_mark;
    return comm->at_post & AMPI_AT_POST_EVENTS ? &ampi_message_watch_mark : NULL;
}

void ampi_p2p_watch_comm(struct ampi_comm *comm, bool is_on)
{
    struct ampi_prober **link = &comm->probers;

    ampi_match_set_watched(&comm->match, is_on);
    comm->match.is_lazy = ampi_schedule == AMPI_SCHEDULE_CHOICES && comm->match.n_streams == 0;
    if (!comm->away || comm->away == &ampi_message_watch_mark)
        comm->away = ampi_p2p_mark_of(comm);
    while (*link && *link != &ampi_prober_watch)
        link = &(*link)->next;
    *link = is_on ? &ampi_prober_watch : NULL;
}

void ampi_p2p_emit(const struct ampi_comm *comm, enum ampi_event_kind kind, int peer, int tag, int64_t last)
{
    const int64_t values[] = {(int64_t)comm->shared->context_id, peer, tag, last};

    if (!comm->shared->window && !comm->shared->file)
        ampi_event_emit(comm->owner, kind, comm, values);
}

static void emit_send(const struct ampi_send_args *args, enum ampi_event_kind kind)
{
    if ((args->comm->at_post & AMPI_AT_POST_EVENTS) && args->dest != MPI_PROC_NULL)
        ampi_p2p_emit(args->comm, kind, args->dest, args->tag, args->count * args->type->size_bytes);
}

static void begin_send(const struct ampi_send_args *args)
{
    if (args->comm->at_post & AMPI_AT_POST_STREAMS)
        gpu_sync_catch_up();
    emit_send(args, AMPI_EVENT_SEND_POSTED);
    ampi_event_hand_out(args->comm->owner);
}

void ampi_p2p_before_send(const struct ampi_send_args *args)
{
    begin_send(args);
    if (ampi_p2p_is_checked(args->comm))
        ampi_p2p_checker.send(args);
}

void ampi_p2p_after_send(const struct ampi_send_args *args)
{
    emit_send(args, AMPI_EVENT_SEND_COMPLETED);
    ampi_event_hand_out(args->comm->owner);
}

static void begin_recv(const struct ampi_recv_args *args)
{
    if (args->comm->at_post & AMPI_AT_POST_STREAMS)
        gpu_sync_catch_up();
    if ((args->comm->at_post & AMPI_AT_POST_EVENTS) && args->source != MPI_PROC_NULL)
        ampi_p2p_emit(args->comm, AMPI_EVENT_RECEIVE_POSTED, args->source, args->tag,
                      args->count * args->type->size_bytes);
    ampi_event_hand_out(args->comm->owner);
}

void ampi_p2p_before_recv(const struct ampi_recv_args *args)
{
    begin_recv(args);
    if (ampi_p2p_is_checked(args->comm))
        ampi_p2p_checker.receive(args);
}

void ampi_p2p_before_probed(const struct ampi_message *message, const struct ampi_recv_args *args)
{
    begin_recv(args);
    if (ampi_p2p_is_checked(args->comm))
        ampi_p2p_checker.receive_probed(message, args);
}

static void emit_received(const struct ampi_comm *comm, const MPI_Status *status)
{
    if ((comm->at_post & AMPI_AT_POST_EVENTS) && status->MPI_SOURCE >= 0)
        ampi_p2p_emit(comm, AMPI_EVENT_RECEIVE_COMPLETED, status->MPI_SOURCE, status->MPI_TAG,
                      (int64_t)ampi_status_bytes(status));
}

void ampi_p2p_after_recv(const struct ampi_comm *comm, const MPI_Status *status)
{
    emit_received(comm, status);
    ampi_event_hand_out(comm->owner);
}

static struct ampi_p2p_message find_message(const struct ampi_request *request)
{
    const struct ampi_p2p *p2p = &request->u.p2p;
    struct ampi_p2p_message message = {.count = p2p->count, .type = p2p->type};
    struct ampi_p2p_message (*partitioned)(const struct ampi_request *);

    if (ampi_request_is_recv(request)) {
        message.role = AMPI_P2P_RECEIVES;
        message.peer = p2p->node.source;
        message.tag = p2p->node.tag;
    } else if (request->kind == &ampi_send_kind || request->kind == &ampi_channel_send_kind) {
        message.role = AMPI_P2P_SENDS;
        message.peer = p2p->peer_rank;
        message.tag = p2p->tag;
    } else if ((partitioned = __atomic_load_n(&ampi_p2p_partitioned_message, __ATOMIC_RELAXED))) {
        message = partitioned(request);
    } /* else: it reports itself */
    return message;
}

void ampi_p2p_before_start(const struct ampi_request *request)
{
    struct ampi_p2p_message message = find_message(request);
    bool is_checked = ampi_p2p_is_checked(request->comm);

    if (message.role == AMPI_P2P_SENDS) {
        struct ampi_send_args args = {.buf = request->u.p2p.buf,
                                      .comm = request->comm,
                                      .dest = message.peer,
                                      .tag = message.tag,
                                      .count = message.count,
                                      .type = message.type};
        begin_send(&args);
        if (!ampi_request_is_send(request) && message.peer != MPI_PROC_NULL)
            ampi_p2p_emit(request->comm, AMPI_EVENT_SEND_UNMATCHED, message.peer, message.tag, 0);
        if (is_checked && ampi_request_is_send(request))
            ampi_p2p_checker.send(&args);
    } else if (message.role == AMPI_P2P_RECEIVES) {
        struct ampi_recv_args args = {request->u.p2p.buf, message.count, message.type,
                                      message.peer,       message.tag,   request->comm};
        begin_recv(&args);
        if (is_checked && ampi_request_is_recv(request))
            ampi_p2p_checker.receive(&args);
    }
}

void ampi_p2p_completed(struct ampi_request *request, struct ampi_request *whole)
{
    struct ampi_p2p_message message = find_message(request);

    request->on_complete = request->then;
    if (message.role == AMPI_P2P_SENDS)
        emit_send(&(struct ampi_send_args){.comm = request->comm,
                                           .dest = message.peer,
                                           .tag = message.tag,
                                           .count = message.count,
                                           .type = message.type},
                  AMPI_EVENT_SEND_COMPLETED);
    else
        emit_received(request->comm, &request->status);
    if (message.role == AMPI_P2P_RECEIVES && ampi_p2p_is_checked(request->comm))
        ampi_p2p_checker.completed(request);
    if (ampi_schedule_asks() && message.role == AMPI_P2P_RECEIVES)
        ampi_schedule_received(request->owner, request->u.p2p.peer_rank, &request->status);
    if (request->on_complete)
        request->on_complete(request, whole);
}

void ampi_p2p_watch(struct ampi_request *request)
{
    if (!(request->comm->at_post & AMPI_AT_POST_EVENTS) || request->on_complete == ampi_p2p_completed ||
        find_message(request).role == AMPI_P2P_REPORTS_ITSELF)
        return;
    request->then = request->on_complete;
    if (ampi_request_is_active(request))
        request->on_complete = ampi_p2p_completed;
    else /* a send that was complete at once */
        ampi_p2p_completed(request, NULL);
}

void ampi_p2p_matched(struct ampi_match *match, struct ampi_match_node *node, int source, int tag,
                      bool was_unexpected)
{
    struct ampi_comm *comm = BASE_CONTAINER(match, struct ampi_comm, match);

    if (ampi_schedule_asks() && !was_unexpected)
        ampi_schedule_arrived(comm, source, tag);
    ampi_p2p_emit(comm, AMPI_EVENT_MESSAGE_MATCHED, source, tag, was_unexpected);
    if (ampi_p2p_is_checked(comm))
        ampi_p2p_checker.matched(comm, node, source, tag, was_unexpected);
}
