/* SPDX-License-Identifier: BSD-3-Clause
 *
 * remote_cancel.c: giving back messages that have not matched to senders in other processes; see cancel.c.
 * The asking half is in remote_send.c.
 *
 * The attempt comes behind the message that it means. That message is an orphan, because its communicator has
 * not been made here yet, or never will be found again; or it waits at its destination; or its communicator
 * was freed here while it waited (outlived); or it has matched.
 */
#include <pthread.h>

#include "ampi/p2p/remote.h"
#include "ampi/p2p/remote_kept.h"
#include "base/log.h"

/* ---- Messages whose communicator is gone ---- */

static struct {
    pthread_mutex_t lock;
    struct ampi_match_node *first; /* linked by next */
} outlived = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Does the sender's request wait for the match? The others are complete whatever becomes of the message. */
static bool is_awaited(const struct ampi_message *message)
{
    const struct kept *kept = kept_of(message);

    return kept->is_sync || kept->is_offer ||
           (!kept->bytes && !kept->is_fetching && !kept->has_failed && message->size_bytes > 0);
}

static void outlive(struct ampi_rank *owner, struct ampi_message *message)
{
    kept_of(message)->owner = owner;
    pthread_mutex_lock(&outlived.lock);
    message->node.next = outlived.first;
    outlived.first = &message->node;
    pthread_mutex_unlock(&outlived.lock);
}

static struct ampi_message *take_outlived(const struct ampi_peer *peer, uint32_t seq)
{
    struct ampi_message *found = NULL;

    pthread_mutex_lock(&outlived.lock);
    for (struct ampi_match_node **link = &outlived.first; *link && !found;) {
        struct ampi_message *message = BASE_CONTAINER(*link, struct ampi_message, node);
        if (kept_of(message)->peer == peer && kept_of(message)->seq == seq) {
            found = message;
            *link = message->node.next;
        } else {
            link = &(*link)->next;
        }
    }
    pthread_mutex_unlock(&outlived.lock);
    return found;
}

/* ---- Messages that wait at their destination ---- */

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

/* Gives the sender its buffer and its part of the window back; for a message that is dropped. */
static void refuse(const struct kept *kept, size_t n_bytes)
{
    if (!kept->is_sync && !kept->is_offer)
        ampi_remote_give_back(kept->peer, n_bytes);
    if (kept->is_offer)
        decline(kept);
    else if (!kept->bytes && !kept->has_failed && n_bytes > 0)
        discard(kept, n_bytes);
}

static void drop(struct ampi_rank *owner, struct ampi_message *message)
{
    struct kept *kept = kept_of(message);

    refuse(kept, message->size_bytes);
    if (!kept->bytes)
        kept->token = NULL; /* used up */
    ampi_remote_release_message(owner, message);
}

void ampi_remote_drop(struct ampi_rank *owner, struct ampi_message *message)
{
    struct kept *kept = kept_of(message);

    if (is_awaited(message)) {
        outlive(owner, message);
    } else if (kept->is_fetching) {
        kept->is_dropped = true;
        kept->owner = owner;
    } else {
        drop(owner, message);
    }
}

static bool take_kept(struct ampi_comm *dest, const struct ampi_peer *peer, const struct ampi_wire *wire,
                      uint32_t seq)
{
    struct ampi_message *message = find(dest, peer, wire, seq);

    if (message) {
        ampi_match_remove_unexpected(&dest->match, &message->node);
        drop(dest->owner, message);
    }
    return message != NULL;
}

/* ---- Orphans ---- */

static void drop_orphan(int pe_id, struct ampi_peer *peer, struct waiting *orphan)
{
    struct kept kept = {.bytes = orphan->bytes,
                        .token = orphan->token,
                        .cookie = orphan->wire.cookie,
                        .peer = peer,
                        .is_sync = (orphan->wire.flags & AMPI_WIRE_SYNC) != 0,
                        .is_offer = (orphan->wire.flags & AMPI_WIRE_PIPE) != 0};

    refuse(&kept, orphan->n_bytes);
    if (kept.bytes && kept.token)
        ampi_machine->release(pe_id, kept.token);
    ampi_message_scratch_free(ampi_message_pool_of(pe_id), orphan, orphan->room_bytes);
}

static bool take_orphan(struct ampi_remote *remote, int pe_id, struct ampi_peer *peer, uint32_t seq)
{
    struct waiting *before = NULL, *orphan = remote->orphans_first;

    for (; orphan; before = orphan, orphan = orphan->next)
        if ((int)orphan->wire.src_proc == peer->proc_id && orphan->wire.src_pe == peer->pe_id &&
            orphan->wire.seq == seq)
            break;
    if (!orphan)
        return false;
    *(before ? &before->next : &remote->orphans_first) = orphan->next;
    if (remote->orphans_last == orphan)
        remote->orphans_last = before;
    drop_orphan(pe_id, peer, orphan);
    return true;
}

void ampi_remote_handle_cancel(struct ampi_remote *remote, int pe_id, struct ampi_comm_shared *shared,
                               const struct ampi_wire *wire, const struct machine_data *data)
{
    struct ampi_peer *peer = ampi_remote_peer(remote, (int)wire->src_proc, wire->src_pe);
    struct ampi_wire answer = {.kind = AMPI_WIRE_CANCELLED, .cookie = wire->cookie};
    struct ampi_message *message;
    uint32_t seq;
    bool is_taken;

    BASE_ASSERT(data->bytes && data->n_bytes == sizeof seq);
    memcpy(&seq, data->bytes, sizeof seq);
    is_taken = take_orphan(remote, pe_id, peer, seq);
    if (!is_taken && shared)
        is_taken = take_kept(&shared->side[wire->flags & AMPI_WIRE_SIDE ? 1 : 0].handles[wire->dest], peer,
                             wire, seq);
    if (!is_taken && (message = take_outlived(peer, seq))) {
        drop(kept_of(message)->owner, message);
        is_taken = true;
    }
    if (is_taken)
        answer.flags = AMPI_WIRE_DONE;
    ampi_procs_post(peer->proc_id, peer->pe_id, &answer, NULL, 0);
}
