/* SPDX-License-Identifier: BSD-3-Clause
 *
 * p2p_device.c: see p2p_device.h.
 */
#include "ampi/p2p/p2p_device.h"

#include "ampi/p2p/channel.h"
#include "ampi/p2p/deferred_work.h"
#include "ampi/p2p/route/remote.h"
#include "base/log.h"

/* A pending move into a receive (from a send request or from bytes) or into a message. The PE reuses finished
 * ones. */
struct transfer {
    struct gpu_move move;
    struct transfer *next;        /* link of finished ones */
    struct ampi_request *recv;    /* completed at the end; for a fetch: the receive that awaits it, NULL: none
                                  * yet */
    struct ampi_request *sender;  /* completed at the end; NULL: none */
    int sender_pe;                /* the PE that it belongs to */
    struct ampi_message *message; /* for a fetch: the destination */
    struct ampi_deferred later;   /* for a fetch: begins it */
    ampi_device_release_fn release; /* NULL: nothing to release */
    void *what;
};

/* A PE's. */
struct device_pe {
    struct ult_source source; /* of sends that another PE will move: there is nothing to poll */
    uint64_t n_away;          /* their number */
    struct transfer *over;
};

static int poll_nothing(struct ult_source *source)
{
    (void)source;
    return 0;
}

/* The PE has nothing to poll meanwhile, but a completion will arrive soon. */
static bool is_sending(const struct ult_source *source)
{
    return BASE_CONTAINER(source, const struct device_pe, source)->n_away > 0;
}

static BASE_COLD struct device_pe *make_pe(void)
{
    return *ult_pe_slot(ULT_PE_SLOT_MESSAGES) = base_calloc(1, sizeof(struct device_pe), "messages of GPUs");
}

static inline struct device_pe *pe_self(void)
{
    struct device_pe *pe = *ult_pe_slot(ULT_PE_SLOT_MESSAGES);

    return BASE_LIKELY(pe != NULL) ? pe : make_pe();
}

static struct transfer *transfer_create(struct gpu_data dst, struct gpu_data src, size_t n_bytes,
                                        void (*done)(struct gpu_move *, int))
{
    struct device_pe *pe = pe_self();
    struct transfer *transfer = pe->over;

    if (BASE_LIKELY(transfer != NULL))
        pe->over = transfer->next;
    else
        transfer = base_malloc(sizeof *transfer, "a GPU message");
    transfer->move.dst = dst;
    transfer->move.src = src;
    transfer->move.n_bytes = n_bytes;
    transfer->move.src_skip_bytes = transfer->move.dst_skip_bytes = 0;
    transfer->move.memo = NULL;
    transfer->move.done = done;
    transfer->recv = transfer->sender = NULL;
    transfer->message = NULL;
    transfer->later = (struct ampi_deferred){0};
    transfer->release = NULL;
    transfer->what = NULL;
    return transfer;
}

/* On the PE that created it. */
static void transfer_end(struct transfer *transfer)
{
    struct device_pe *pe = pe_self();

    transfer->next = pe->over;
    pe->over = transfer;
}

struct gpu_data ampi_request_gpu_data(const struct ampi_request *request)
{
    const struct ampi_p2p *p2p = &request->u.p2p;
    struct gpu_data data = ampi_type_gpu_data(p2p->buf, p2p->count, p2p->type);

    if (request->is_persistent)
        data.facts = &p2p->facts;
    return data;
}

static struct gpu_data message_data(struct ampi_message *message)
{
    struct gpu_data data = ampi_bytes_gpu_data(message->data, message->size_bytes);

    data.facts = &gpu_facts_of_malloc;
    return data;
}

/* Completes the send of a transfer whose data has arrived, or cannot be read. */
static void finish_sender(int pe_id, struct transfer *transfer, int error)
{
    struct ampi_request *sender = transfer->sender;

    if (BASE_UNLIKELY(error))
        sender->status.MPI_ERROR = ampi_device_error(sender->owner, error);
    ampi_p2p_complete_sender(pe_id, transfer->sender_pe, sender);
}

static void finish_recv(struct ampi_request *recv, int error)
{
    if (BASE_UNLIKELY(error))
        recv->status.MPI_ERROR = ampi_device_error(recv->owner, error);
    ampi_request_complete(recv);
}

/* ---- Into a receive ---- */

static void received(struct gpu_move *move, int error)
{
    struct transfer *transfer = BASE_CONTAINER(move, struct transfer, move);
    struct ampi_request *recv = transfer->recv;

    if (transfer->release)
        transfer->release(recv->owner, transfer->what);
    if (transfer->sender)
        finish_sender(recv->owner->pe_id, transfer, move->is_dst_missing ? 0 : error);
    transfer_end(transfer);
    finish_recv(recv, error);
}

_Atomic(bool (*)(const struct ampi_device_match *match)) ampi_device_defer;

void ampi_device_move(const struct ampi_device_match *match)
{
    struct ampi_request *recv = match->recv, *sender = match->sender;
    struct gpu_data dst = ampi_request_gpu_data(recv), src = match->src;
    size_t n_bytes = src.size_bytes < dst.size_bytes ? src.size_bytes : dst.size_bytes;
    struct transfer *transfer = transfer_create(dst, src, n_bytes, received);

    ampi_p2p_fill_status(&recv->status, match->source, match->tag, src.size_bytes, dst.size_bytes);
    if (sender && recv->kind == &ampi_channel_recv_kind && recv->u.p2p.bound_send == sender)
        transfer->move.memo = &recv->u.p2p.memo;
    transfer->recv = recv;
    transfer->sender = sender;
    transfer->release = match->release;
    transfer->what = match->what;
    if (n_bytes)
        gpu_move_start(&transfer->move);
    /* After the start: data that another PE has just written takes a while to read. */
    transfer->sender_pe = sender ? sender->owner->pe_id : -1;
    if (n_bytes == 0)
        received(&transfer->move, 0);
}

static void start_receive(const struct ampi_device_match *match)
{
    bool (*defer)(const struct ampi_device_match *) =
        atomic_load_explicit(&ampi_device_defer, memory_order_relaxed);

    if (BASE_LIKELY(!defer) || !defer(match))
        ampi_device_move(match);
}

void ampi_device_unpack(struct ampi_request *recv, const void *data, size_t n_bytes, int source, int tag,
                        ampi_device_release_fn release, void *what)
{
    start_receive(&(struct ampi_device_match){.recv = recv,
                                              .src = ampi_bytes_gpu_data(data, n_bytes),
                                              .source = source,
                                              .tag = tag,
                                              .release = release,
                                              .what = what});
}

static void release_message(struct ampi_rank *owner, void *message)
{
    ampi_message_free(owner->messages, message);
}

void ampi_device_take_message(struct ampi_request *recv, struct ampi_message *message, int source, int tag)
{
    start_receive(&(struct ampi_device_match){.recv = recv,
                                              .src = message_data(message),
                                              .source = source,
                                              .tag = tag,
                                              .release = release_message,
                                              .what = message});
}

bool ampi_device_is_better(const struct ampi_request *sender, const void *buf, MPI_Count count,
                           const struct ampi_type *type)
{
    const struct ampi_p2p *from = &sender->u.p2p;
    size_t n_sent = (size_t)(from->count * from->type->size_bytes),
           n_room = (size_t)(count * type->size_bytes);

    if (sender->is_persistent && from->facts.range.memory == GPU_MEMORY_HOST && gpu_facts_hold(&from->facts))
        return false;
    return gpu_is_used() && ampi_type_is_block(type, count) && ampi_type_is_block(from->type, from->count) &&
           gpu_can_hop(ampi_type_address(buf, type->true_lb_bytes),
                       ampi_type_address(from->buf, from->type->true_lb_bytes),
                       n_sent < n_room ? n_sent : n_room);
}

void ampi_device_take_sender(struct ampi_request *recv, struct ampi_request *sender, int source, int tag)
{
    start_receive(&(struct ampi_device_match){
        .recv = recv, .src = ampi_request_gpu_data(sender), .source = source, .tag = tag, .sender = sender});
}

/* ---- Without a receive ---- */

/* Delivers a message whose bytes are here to a receive that has matched it. */
static void take_bytes(struct ampi_request *recv, struct ampi_message *message)
{
    int source = message->node.source, tag = message->node.tag;

    if (recv->u.p2p.is_device) {
        ampi_device_take_message(recv, message, source, tag);
        return;
    }
    ampi_p2p_unpack(message->data, message->size_bytes, source, tag, recv->u.p2p.buf, recv->u.p2p.count,
                    recv->u.p2p.type, &recv->status);
    ampi_message_free(recv->owner->messages, message);
    ampi_request_complete(recv);
}

/* The fetch into a message has ended. After an error the sender gets it, and the message keeps it for its
 * receive. */
static void fetched(struct gpu_move *move, int error)
{
    struct transfer *transfer = BASE_CONTAINER(move, struct transfer, move);
    struct ampi_message *message = transfer->message;
    struct ampi_request *recv = transfer->recv;
    int pe_id = message->comm->owner->pe_id;

    finish_sender(pe_id, transfer, error);
    transfer->sender = NULL;
    if (BASE_UNLIKELY(error) && !recv) {
        transfer->what = (void *)(intptr_t)error;
        return;
    }
    message->fetch = NULL;
    transfer_end(transfer);
    if (!recv)
        return;
    if (BASE_LIKELY(!error)) {
        take_bytes(recv, message);
        return;
    }
    ampi_p2p_fill_status(&recv->status, message->node.source, message->node.tag, 0, 0);
    ampi_message_free(recv->owner->messages, message);
    finish_recv(recv, error);
}

static void begin_fetch(struct ampi_deferred *later)
{
    gpu_move_start(&BASE_CONTAINER(later, struct transfer, later)->move);
}

void ampi_device_count_away(int n)
{
    struct device_pe *pe = pe_self();

    if (BASE_UNLIKELY(!pe->source.poll)) {
        pe->source = (struct ult_source){.poll = poll_nothing, .fd = -1, .is_moving = is_sending};
        ult_pe_add_source(ult_self()->pe, &pe->source);
    }
    pe->n_away += (uint64_t)(int64_t)n;
}

void ampi_device_fetch(struct ampi_message *message, struct ampi_request *sender)
{
    struct transfer *transfer =
        transfer_create(message_data(message), ampi_request_gpu_data(sender), message->size_bytes, fetched);

    transfer->message = message;
    transfer->sender = sender;
    transfer->sender_pe = sender->owner->pe_id;
    message->fetch = transfer;
    ampi_deferred_add(&transfer->later, begin_fetch);
}

/* A receive has matched a message whose fetch is waiting, in progress, or failed. */
static void receive_fetched(struct ampi_message *message, struct ampi_request *recv)
{
    struct transfer *transfer = message->fetch;
    int source = message->node.source, tag = message->node.tag;

    if (ampi_deferred_waits(&transfer->later)) {
        struct ampi_request *sender = transfer->sender;
        ampi_deferred_cancel(&transfer->later);
        transfer_end(transfer);
        ampi_message_free(recv->owner->messages, message);
        ampi_device_take_sender(recv, sender, source, tag);
        return;
    }
    transfer->recv = recv;
    if (!transfer->sender) {
        ampi_p2p_fill_status(&recv->status, source, tag, 0, 0);
        ampi_message_free(recv->owner->messages, message);
        finish_recv(recv, (int)(intptr_t)transfer->what);
        transfer_end(transfer);
    }
}

void ampi_device_drop_fetch(struct ampi_message *message)
{
    BASE_ASSERT(!message->fetch->sender);
    transfer_end(message->fetch);
    message->fetch = NULL;
}

void ampi_message_receive(struct ampi_message *message, struct ampi_request *recv)
{
    int source = message->node.source, tag = message->node.tag;

    if (message->is_remote) {
        ampi_remote_receive(message, recv);
    } else if (message->fetch) {
        receive_fetched(message, recv);
    } else if (message->sender) {
        struct ampi_request *sender = message->sender;
        ampi_message_free(recv->owner->messages, message);
        ampi_device_take_sender(recv, sender, source, tag);
    } else {
        take_bytes(recv, message);
    }
}
