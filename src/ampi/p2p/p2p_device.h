/* SPDX-License-Identifier: BSD-3-Clause
 *
 * p2p_device.h: messages from and to GPU memory, whose data cannot be copied at once.
 *
 *      sender          receiver   action
 *      device          posted     at the match: one move from buffer to buffer; it completes both requests
 *      device, small   none       the ready ranks on the destination's PE run once; a receive that is posted
 *                                 by then is as above. Then the data is fetched into a message
 *                                 (ampi_device_fetch), which completes the sender; a receive that is posted
 *                                 meanwhile waits for that
 *      device, large   none       the sender's request waits, like that of a large host message
 *      host, eager     device     the bytes, in a message, are moved to the buffer; the receive completes then
 *      host, waiting   device     one move from buffer to buffer
 *
 * So a send from a GPU is always a request that waits at its destination, and a small one never waits for
 * its receive. Matching, and its order, are those of all messages. All functions run on the destination's
 * PE; none switches.
 *
 * A buffer counts as device memory if the first byte of its first element's data is there.
 */
#ifndef AMPI_P2P_DEVICE_H
#define AMPI_P2P_DEVICE_H

#include "ampi/datatype/buffer.h"
#include "ampi/p2p/route/remote.h"

/* True if the buffer of the request is in GPU memory. Called at a start, also of requests that are not
 * persistent (enqueue.c). */
static inline bool ampi_request_is_on_device(struct ampi_request *request)
{
    struct ampi_p2p *p2p = &request->u.p2p;

    return request->is_persistent ? ampi_device_has_still(&p2p->facts, p2p->buf, p2p->count, p2p->type)
                                  : ampi_device_has(p2p->buf, p2p->count, p2p->type);
}

/* The data of a request; a persistent one adds its facts. */
struct gpu_data ampi_request_gpu_data(const struct ampi_request *request);

/* Moves n consecutive bytes of host memory into the buffer of a matched receive and completes it. Calls
 * release(owner of the receive, what) when the bytes are no longer needed. */
typedef void (*ampi_device_release_fn)(struct ampi_rank *owner, void *what);
void ampi_device_unpack(struct ampi_request *recv, const void *data, size_t n_bytes, int source, int tag,
                        ampi_device_release_fn release, void *what);

/* The same with an eager message, which it frees. */
void ampi_device_take_message(struct ampi_request *recv, struct ampi_message *message, int source, int tag);

/* Moves the data of a waiting send request into the receive's buffer, where either buffer is a device's;
 * completes both. */
void ampi_device_take_sender(struct ampi_request *recv, struct ampi_request *sender, int source, int tag);

/* True if a GPU should copy from the send request's buffer to this one, although both are host memory. Only
 * if gpu_is_active. The facts of a persistent send may make a lookup unnecessary. */
bool ampi_device_is_better(const struct ampi_request *sender, const void *buf, MPI_Count count,
                           const struct ampi_type *type);

/* For a small send from a device that has not matched: fetches its data into the message, which has room for
 * it and is in the unexpected table. */
void ampi_device_fetch(struct ampi_message *message, struct ampi_request *sender);

/* Drops a failed fetch without a receive; its sender is complete. */
void ampi_device_drop_fetch(struct ampi_message *message);

/* Adds n (which may be negative) to the number of the PE's sends that wait at other PEs of the process for
 * their data to be moved. */
void ampi_device_count_away(int n);

/* True if a GPU moves the data of a kept message of this process into a buffer in host memory. Only if gpu_is_active. */
static inline bool ampi_message_is_moved(const struct ampi_message *message, const void *buf, MPI_Count count,
                                         const struct ampi_type *type)
{
    return message->fetch || (message->sender && (message->sender->u.p2p.is_device ||
                                                  ampi_device_is_better(message->sender, buf, count, type)));
}

/* A match in which either buffer is in device memory. The data comes from a waiting send, or is n
 * consecutive bytes, which are released as above. */
struct ampi_device_match {
    struct ampi_request *recv;
    struct gpu_data src;
    int source;
    int tag;
    struct ampi_request *sender;    /* NULL: none */
    ampi_device_release_fn release; /* NULL: nothing to release */
    void *what;
};

/* Set by the room enqueue. Returns true if one of the requests waits for a stream: then enqueue handles the
 * match, by ampi_device_move or in another way. NULL: no request waits for a stream. */
extern _Atomic(bool (*)(const struct ampi_device_match *match)) ampi_device_defer;

/* Fills the receive's status, moves the data, truncated to the buffer's size, and completes both. */
void ampi_device_move(const struct ampi_device_match *match);

/* True if a request is needed to receive a kept message into this buffer: its data has to be fetched from
 * another process, or moved by a GPU. */
static inline bool ampi_message_is_away(const struct ampi_message *message, const void *buf, MPI_Count count,
                                        const struct ampi_type *type)
{
    if (BASE_UNLIKELY(message->is_remote) && ampi_remote_is_away(message))
        return true;
    return ampi_device_has(buf, count, type) ||
           (BASE_UNLIKELY(gpu_is_active) && ampi_message_is_moved(message, buf, count, type));
}

/* Receives the message with an (ACTIVE) request, which completes when the data has arrived. Frees the
 * message. */
void ampi_message_receive(struct ampi_message *message, struct ampi_request *recv);

#endif
