/* SPDX-License-Identifier: BSD-3-Clause
 *
 * remote_cancel.c: giving back messages that have not matched to senders in other processes; see cancel.c.
 * The asking half is in remote_send.c.
 */
#include "ampi/p2p/remote_kept.h"
#include "base/log.h"

/* The kept message with this number; NULL: it has matched, or is about to leave the sender in any case. */
static struct ampi_message *find(const struct ampi_comm *dest, const struct ampi_peer *peer,
                                 const struct ampi_wire *wire, uint32_t seq)
{
    struct ampi_match_node *node = ampi_match_first_unexpected(&dest->match, wire->source, wire->tag);

    for (; node; node = ampi_match_next_unexpected(node)) {
        struct ampi_message *message = BASE_CONTAINER(node, struct ampi_message, node);
        const struct kept *kept = kept_of(message);
        if (message->is_remote && kept->peer == peer && kept->seq == seq)
            return kept->is_fetching ? NULL : message;
    }
    return NULL;
}

static void discarded(void *data, int result)
{
    (void)result;
    free(data);
}

/* The sender has its buffer back when the machine has done with it: the data is fetched to nowhere. */
static void discard(const struct kept *kept, size_t n_bytes)
{
    void *data = base_malloc(n_bytes, "a message that was cancelled");
    int result = ampi_machine->fetch(ult_pe_id(ult_self()->pe), kept->peer->proc_id, kept->token, data,
                                     n_bytes, MACHINE_HOST, discarded, data);

    if (result != MACHINE_PENDING)
        free(data);
}

/* No piece of an offer is wanted: that ends it. */
static void decline(const struct kept *kept)
{
    struct ampi_wire wire = {.kind = AMPI_WIRE_PULL, .cookie = kept->cookie};

    ampi_procs_post(kept->peer->proc_id, kept->peer->pe_id, &wire, NULL, 0);
}

static void drop(struct ampi_rank *owner, struct ampi_message *message)
{
    struct kept *kept = kept_of(message);

    if (!kept->is_sync && !kept->is_offer)
        ampi_remote_give_back(kept->peer, message->size_bytes);
    if (kept->is_offer)
        decline(kept);
    else if (!kept->bytes && !kept->has_failed && message->size_bytes > 0)
        discard(kept, message->size_bytes);
    if (!kept->bytes)
        kept->token = NULL; /* used up */
    ampi_remote_release_message(owner, message);
}

void ampi_remote_handle_cancel(struct ampi_peer *peer, struct ampi_comm *dest, const struct ampi_wire *wire,
                               const struct machine_data *data)
{
    struct ampi_wire answer = {.kind = AMPI_WIRE_CANCELLED, .cookie = wire->cookie};
    struct ampi_message *message;
    uint32_t seq;

    BASE_ASSERT(data->bytes && data->n_bytes == sizeof seq);
    memcpy(&seq, data->bytes, sizeof seq);
    message = find(dest, peer, wire, seq);
    if (message) {
        ampi_match_remove_unexpected(&dest->match, &message->node);
        drop(dest->owner, message);
        answer.flags = AMPI_WIRE_DONE;
    }
    ampi_procs_post(peer->proc_id, peer->pe_id, &answer, NULL, 0);
}
