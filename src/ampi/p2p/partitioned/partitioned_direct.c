/* SPDX-License-Identifier: BSD-3-Clause
 *
 * partitioned_direct.c: partitioned channels whose ends are on one PE. See partitioned.h.
 */
#include "ampi/datatype/buffer.h"
#include "ampi/p2p/p2p.h"
#include "ampi/p2p/partitioned/partitioned.h"
#include "base/log.h"

/* The send that the hello came from. NULL: it has been freed. Its memory is still one of the rank's requests
 * (request.c), perhaps another one. */
static struct ampi_request *sender_of(const struct ampi_request *recv)
{
    const struct ampi_partitioned *end = recv->u.extra;
    struct ampi_request *send = end->hello.request;
    const struct ampi_partitioned *other;

    if (send->magic != AMPI_MAGIC_REQUEST || !ampi_request_is_partitioned(send))
        return NULL;
    other = send->u.extra;
    return other->is_send && other->channel == end->channel && other->hidden->shared == end->hidden->shared &&
                   other->hidden->rank == end->peer_rank
               ? send
               : NULL;
}

static bool can_bind(const struct ampi_partitioned *from, const struct ampi_partitioned *to)
{
    return ampi_type_is_block(from->type, from->count) && ampi_type_is_block(to->type, to->count) &&
           ampi_partitioned_bytes(from) > 0 && ampi_partitioned_bytes(from) <= ampi_partitioned_bytes(to);
}

void ampi_partitioned_bind(struct ampi_request *request)
{
    struct ampi_partitioned *to = request->u.extra, *from;
    struct ampi_request *send;

    if (to->hidden->peer->layout->pe_of[to->peer_rank] != request->owner->pe_id)
        return;
    send = sender_of(request);
    from = send ? send->u.extra : NULL;
    if (!from || !can_bind(from, to))
        return;
    to->n_left = base_calloc((size_t)to->n_partitions, sizeof *to->n_left, "a partitioned operation");
    to->part_bytes = ampi_partitioned_bytes(to) / (size_t)to->n_partitions;
    from->part_bytes = ampi_partitioned_bytes(from) / (size_t)from->n_partitions;
    from->n_left = to->n_left;
    from->peer_part_bytes = to->part_bytes;
    from->data = to->peer_data = ampi_partitioned_first(from);
    to->data = from->peer_data = ampi_partitioned_first(to);
    to->peer_part_bytes = from->part_bytes;
    to->peer = send;
    from->peer = request;
}

void ampi_partitioned_unbind(struct ampi_partitioned *end)
{
    if (end->peer)
        ((struct ampi_partitioned *)end->peer->u.extra)->peer = NULL;
}

static bool is_on_device(struct ampi_partitioned *end)
{
    return ampi_device_has_still(&end->facts, end->buf, end->count, end->type);
}

bool ampi_partitioned_agree(struct ampi_request *send, struct ampi_request *recv)
{
    struct ampi_partitioned *from = send->u.extra, *to = recv->u.extra;

    if (is_on_device(from) || is_on_device(to))
        return false;
    from->is_direct = to->is_direct = true;
    for (int i = 0; i < to->n_partitions; i++)
        to->n_left[i] = to->part_bytes;
    for (int i = 0; i < from->n_partitions && from->n_ready > 0; i++)
        if (from->is_ready[i])
            ampi_partitioned_copy(from, i);
    return true;
}

void ampi_partitioned_count(struct ampi_partitioned *send, int partition)
{
    size_t first = (size_t)partition * send->part_bytes, end = first + send->part_bytes;

    for (size_t i = first / send->peer_part_bytes; first < end; i++) {
        size_t stop = (i + 1) * send->peer_part_bytes < end ? (i + 1) * send->peer_part_bytes : end;
        send->n_left[i] -= stop - first;
        first = stop;
    }
}

void ampi_partitioned_finish(struct ampi_request *send)
{
    struct ampi_partitioned *from = send->u.extra;
    struct ampi_request *recv = from->peer;
    const struct ampi_partitioned *to = recv->u.extra;

    ampi_p2p_fill_status(&recv->status, to->peer_rank, to->tag, ampi_partitioned_bytes(from),
                         ampi_partitioned_bytes(to));
    ampi_request_complete(recv); /* either may be freed by this */
    ampi_request_complete(send);
}
