/* SPDX-License-Identifier: BSD-3-Clause
 *
 * deliver.c: a message at its destination, on the destination's PE: matching it and moving its data.
 */
#include "ampi/p2p/p2p_device.h"

/* A separate function, so that the common case has no cursor in its frame, and no stack protector. */
static BASE_NOINLINE void unpack_layout(const void *data, size_t n_bytes, void *buf, MPI_Count count,
                                        const struct ampi_type *type)
{
    struct ampi_cursor cursor;

    ampi_cursor_init(&cursor, buf, count, type);
    ampi_cursor_unpack(&cursor, data, n_bytes);
}

void ampi_p2p_unpack(const void *data, size_t n_bytes, int source, int tag, void *buf, MPI_Count count,
                     const struct ampi_type *type, MPI_Status *status)
{
    size_t room_bytes = (size_t)(count * type->size_bytes);
    size_t copy_bytes = n_bytes < room_bytes ? n_bytes : room_bytes;

    if (BASE_LIKELY(ampi_type_is_block(type, count))) {
        if (copy_bytes == 8) /* the most common small message, without a call */
            memcpy((char *)buf + type->true_lb_bytes, data, 8);
        else if (copy_bytes)
            memcpy((char *)buf + type->true_lb_bytes, data, copy_bytes);
    } else {
        unpack_layout(data, copy_bytes, buf, count, type);
    }
    ampi_p2p_fill_status(status, source, tag, n_bytes, room_bytes);
}

void ampi_p2p_copy_from_sender(const struct ampi_request *sender, size_t size_bytes, int source, int tag,
                               void *buf, MPI_Count count, const struct ampi_type *type, MPI_Status *status)
{
    const struct ampi_p2p *send = &sender->u.p2p;

    ampi_type_copy(buf, count, type, send->buf, send->count, send->type);
    ampi_p2p_fill_status(status, source, tag, size_bytes, (size_t)(count * type->size_bytes));
}

static struct ampi_request *take_posted(struct ampi_comm *dest, int source, int tag)
{
    struct ampi_match_node *node = ampi_match_take_posted(&dest->match, source, tag);
    struct ampi_request *request;

    if (!node)
        return NULL;
    request = BASE_CONTAINER(node, struct ampi_request, u.p2p.node);
    request->u.p2p.is_posted = false;
    return request;
}

void ampi_p2p_deliver_bytes(struct ampi_message_pool *pool, struct ampi_comm *dest, int source, int tag,
                            const void *data, size_t n_bytes)
{
    struct ampi_request *recv = take_posted(dest, source, tag);
    struct ampi_message *message;

    if (recv && BASE_LIKELY(!recv->u.p2p.is_device)) {
        ampi_p2p_unpack(data, n_bytes, source, tag, recv->u.p2p.buf, recv->u.p2p.count, recv->u.p2p.type,
                        &recv->status);
        ampi_request_complete(recv);
        return;
    }
    message = ampi_message_alloc(pool, n_bytes);
    memcpy(message->data, data, n_bytes);
    if (recv)
        ampi_device_take_message(recv, message, source, tag);
    else
        ampi_message_keep(dest, message, source, tag);
}

void ampi_p2p_deliver_message(struct ampi_message_pool *pool, struct ampi_comm *dest, int source, int tag,
                              struct ampi_message *message)
{
    struct ampi_request *recv = take_posted(dest, source, tag);

    if (!recv) {
        ampi_message_keep(dest, message, source, tag);
        return;
    }
    if (BASE_UNLIKELY(recv->u.p2p.is_device)) {
        ampi_device_take_message(recv, message, source, tag);
        return;
    }
    ampi_p2p_unpack(message->data, message->size_bytes, source, tag, recv->u.p2p.buf, recv->u.p2p.count,
                    recv->u.p2p.type, &recv->status);
    ampi_message_free(pool, message);
    ampi_request_complete(recv);
}

void ampi_p2p_deliver_rendezvous(struct ampi_message_pool *pool, struct ampi_comm *dest, int source, int tag,
                                 struct ampi_request *sender, size_t size_bytes)
{
    struct ampi_request *recv = take_posted(dest, source, tag);
    bool is_device = sender->u.p2p.is_device;
    bool is_fetched =
        is_device && size_bytes <= AMPI_EAGER_MAX_BYTES && sender->u.p2p.mode != AMPI_SEND_SYNCHRONOUS;
    struct ampi_message *message;

    if (recv &&
        BASE_UNLIKELY(is_device || recv->u.p2p.is_device ||
                      (gpu_is_active && ampi_device_is_better(sender, recv->u.p2p.buf, recv->u.p2p.count,
                                                              recv->u.p2p.type)))) {
        ampi_device_take_sender(recv, sender, source, tag);
        return;
    }
    if (recv) {
        ampi_p2p_copy_from_sender(sender, size_bytes, source, tag, recv->u.p2p.buf, recv->u.p2p.count,
                                  recv->u.p2p.type, &recv->status);
        ampi_p2p_complete_sender(pool->pe_id, sender->owner->pe_id, sender);
        ampi_request_complete(recv);
        return;
    }
    message = ampi_message_alloc(pool, BASE_UNLIKELY(is_fetched) ? size_bytes : 0);
    message->size_bytes = size_bytes;
    ampi_message_keep(dest, message, source, tag);
    if (BASE_UNLIKELY(is_fetched))
        ampi_device_fetch(message, sender);
    else
        message->sender = sender;
}

/* On the sender's PE: its data has been fetched elsewhere. */
static void handle_sender_done(const struct ult_item *item)
{
    struct ampi_request *sender = *(struct ampi_request *const *)item->body;

    if (BASE_UNLIKELY(sender->u.p2p.is_device))
        ampi_device_count_away(-1);
    ampi_request_complete(sender);
}

void ampi_p2p_complete_sender(int pe_id, int sender_pe, struct ampi_request *sender)
{
    struct ult_item item = {.handle = handle_sender_done};

    if (sender_pe == pe_id) {
        ampi_request_complete(sender);
        return;
    }
    *(struct ampi_request **)item.body = sender;
    ult_post_item(ult_pe_get(sender_pe), &item);
}
