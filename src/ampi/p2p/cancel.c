/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cancel.c: cancelling sends that no receive has matched (MPI 5.0, section 3.8.4): those whose request
 * waits at the destination. Sends that were buffered or delivered at once are complete, and stay sent.
 *
 *      same PE          removes the message from the destination's table
 *      other PE         the same there, by an item after the message's own; the answer is an item, too
 *      other process    the same by messages (remote_cancel.c)
 *
 * Only the destination's PE knows whether the message was still there, or had matched: until its answer
 * arrives neither the request nor its communicator is freed.
 */
#include "ampi/p2p/p2p_device.h"
#include "ampi/p2p/p2p_watch.h"

/* The item that travels to the destination's PE and back. */
struct cancel_item {
    struct ampi_comm *dest;
    struct ampi_comm *comm;       /* of the sender; has a pending operation for this */
    struct ampi_request *request; /* only compared there: it may be complete by then */
    int source;
    int tag;
    int sender_pe;
    bool is_found;
};
_Static_assert(sizeof(struct cancel_item) <= ULT_ITEM_BYTES, "fits into an inbox item");

/* Removes the message whose sender is the request. On the destination's PE. False: it has matched. */
static bool take_back(struct ampi_comm *dest, int source, int tag, const struct ampi_request *request)
{
    struct ampi_match_node *node = ampi_match_first_unexpected(&dest->match, source, tag);

    for (; node; node = ampi_match_next_unexpected(node)) {
        struct ampi_message *message = BASE_CONTAINER(node, struct ampi_message, node);
        if (message->sender != request)
            continue;
        if (ampi_p2p_is_checked(dest))
            ampi_p2p_checker.forget(dest, source, tag, request);
        ampi_match_remove_unexpected(&dest->match, node);
        ampi_message_free(dest->owner->messages, message);
        return true;
    }
    return false;
}

void ampi_send_end_cancelled(struct ampi_request *request)
{
    const struct ampi_p2p *p2p = &request->u.p2p;

    if (BASE_UNLIKELY(request->comm->at_post & AMPI_AT_POST_EVENTS))
        ampi_p2p_emit(request->comm, AMPI_EVENT_SEND_UNMATCHED, p2p->peer_rank, p2p->tag, 0);
    ampi_status_set_empty(&request->status);
    ampi_status_set_cancelled(&request->status, true);
    ampi_request_complete(request);
}

static void handle_answer(const struct ult_item *item)
{
    const struct cancel_item *cancel = (const struct cancel_item *)item->body;

    if (cancel->is_found) {
        if (BASE_UNLIKELY(cancel->request->u.p2p.is_device))
            ampi_device_count_away(-1);
        ampi_send_end_cancelled(cancel->request);
    }
    ampi_comm_drop_pending(cancel->comm);
}

static void handle_cancel(const struct ult_item *item)
{
    struct ult_item answer = {.handle = handle_answer};
    struct cancel_item *cancel = (struct cancel_item *)answer.body;

    *cancel = *(const struct cancel_item *)item->body;
    cancel->is_found = take_back(cancel->dest, cancel->source, cancel->tag, cancel->request);
    ult_post_item(ult_pe_get(cancel->sender_pe), &answer);
}

int ampi_send_cancel(struct ampi_request *request)
{
    struct ampi_comm *comm = request->comm;
    const struct ampi_p2p *p2p = &request->u.p2p;
    struct ult_item item = {.handle = handle_cancel};
    int pe_id;

    if (!ampi_request_is_active(request))
        return MPI_SUCCESS;
    pe_id = comm->peer->layout->pe_of[p2p->peer_rank];
    if (pe_id == AMPI_PE_REMOTE) {
        ampi_remote_cancel(request);
        return MPI_SUCCESS;
    }
    *(struct cancel_item *)item.body = (struct cancel_item){.dest = &comm->peer->handles[p2p->peer_rank],
                                                            .comm = comm,
                                                            .request = request,
                                                            .source = comm->rank,
                                                            .tag = p2p->tag,
                                                            .sender_pe = request->owner->pe_id};
    if (pe_id != request->owner->pe_id) {
        comm->n_pending++;
        ult_post_item(ult_pe_get(pe_id), &item);
    } else if (take_back(&comm->peer->handles[p2p->peer_rank], comm->rank, p2p->tag, request)) {
        ampi_send_end_cancelled(request);
    }
    return MPI_SUCCESS;
}
