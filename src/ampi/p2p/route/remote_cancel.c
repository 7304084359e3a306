/* SPDX-License-Identifier: BSD-3-Clause
 *
 * remote_cancel.c: returns messages that have not matched to senders in other processes that cancel them;
 * see cancel.c. remote_send.c has the requesting side.
 *
 * The request to cancel follows its message. That message is an orphan, because its communicator has not
 * been created here yet, or no longer exists; or it waits at its destination; or its communicator was freed
 * here while it waited (outlived); or it has matched.
 */
#include <pthread.h>

#include "ampi/comm/contexts.h"
#include "ampi/p2p/p2p_watch.h"
#include "ampi/p2p/route/remote.h"
#include "ampi/p2p/route/remote_kept.h"
#include "base/log.h"

/* ---- Messages whose communicator was freed ---- */

static struct {
    pthread_mutex_t lock;
    struct ampi_match_node *first; /* linked by next */
} outlived = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* True if the sender's request waits for the match. Other sends are complete whatever happens to the
 * message. */
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

/* ---- Messages waiting at their destination ---- */

/* The kept message with this number; NULL: it has matched, or is about to leave the sender in any case. */
static struct ampi_message *find(const struct ampi_comm *dest, const struct ampi_peer *peer,
                                 const struct ampi_am_header *am, uint32_t seq)
{
    struct ampi_match_node *node = ampi_match_first_unexpected(&dest->match, am->source, am->tag);

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

/* The sender gets its buffer back when the machine has finished with it: the data is fetched and
 * discarded. */
static void discard(const struct kept *kept, size_t n_bytes)
{
    void *data = base_malloc(n_bytes, "a message that was cancelled");
    int result = ampi_machine->fetch(ult_pe_id(ult_self()->pe), kept->peer->proc_id, kept->token, data,
                                     n_bytes, MACHINE_HOST, discarded, data);

    if (result != MACHINE_PENDING)
        free(data);
}

/* Ends an offer by requesting no piece. */
static void decline(const struct kept *kept)
{
    struct ampi_am_header am = {.kind = AMPI_AM_PULL, .cookie = kept->cookie};

    ampi_procs_post(kept->peer->proc_id, kept->peer->pe_id, &am, NULL, 0);
}

/* Returns the sender's buffer and its share of the window; for a message that is dropped. */
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
        kept->token = NULL; /* consumed */
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

static bool take_kept(struct ampi_comm *dest, const struct ampi_peer *peer, const struct ampi_am_header *am,
                      uint32_t seq)
{
    struct ampi_message *message = find(dest, peer, am, seq);

    if (message) {
        ampi_match_remove_unexpected(&dest->match, &message->node);
        if (ampi_p2p_is_checked(dest))
            ampi_p2p_checker.forget_arrived(dest, am->source, am->tag, seq);
        drop(dest->owner, message);
    }
    return message != NULL;
}

/* ---- Orphans ---- */

static void drop_orphan(int pe_id, struct ampi_peer *peer, struct waiting *orphan)
{
    struct kept kept = {.bytes = orphan->bytes,
                        .token = orphan->token,
                        .cookie = orphan->am.cookie,
                        .peer = peer,
                        .is_sync = (orphan->am.flags & AMPI_AM_SYNC) != 0,
                        .is_offer = (orphan->am.flags & AMPI_AM_STAGED) != 0};

    refuse(&kept, orphan->n_bytes);
    if (kept.token && (kept.bytes || orphan->n_bytes == 0))
        ampi_machine->release(pe_id, kept.token);
    ampi_message_scratch_free(ampi_message_pool_of(pe_id), orphan, orphan->room_bytes);
}

static bool take_orphan(struct ampi_remote *remote, int pe_id, struct ampi_peer *peer, uint32_t seq)
{
    struct waiting *before = NULL, *orphan = remote->orphans_first;

    for (; orphan; before = orphan, orphan = orphan->next)
        if ((int)orphan->am.src_proc == peer->proc_id && orphan->am.src_pe == peer->pe_id &&
            orphan->am.seq == seq)
            break;
    if (!orphan)
        return false;
    *(before ? &before->next : &remote->orphans_first) = orphan->next;
    if (remote->orphans_last == orphan)
        remote->orphans_last = before;
    drop_orphan(pe_id, peer, orphan);
    return true;
}

/* bytes: the number of the message. */
static void cancel(const struct ampi_am_header *am, void *bytes, size_t n_bytes)
{
    int pe_id = ult_pe_id(ult_self()->pe);
    struct ampi_remote *remote = &ampi_remotes[pe_id];
    struct ampi_peer *peer = ampi_remote_peer(remote, (int)am->src_proc, am->src_pe);
    struct ampi_comm_shared *shared = ampi_contexts_find(pe_id, am->context_id);
    struct ampi_am_header answer = {.kind = AMPI_AM_CANCELLED, .cookie = am->cookie};
    struct ampi_message *message;
    uint32_t seq;
    bool is_taken;

    BASE_ASSERT(n_bytes == sizeof seq);
    memcpy(&seq, bytes, sizeof seq);
    free(bytes);
    is_taken = take_orphan(remote, pe_id, peer, seq);
    if (!is_taken && shared)
        is_taken =
            take_kept(&shared->side[am->flags & AMPI_AM_SIDE ? 1 : 0].handles[am->dest], peer, am, seq);
    if (!is_taken && (message = take_outlived(peer, seq))) {
        drop(kept_of(message)->owner, message);
        is_taken = true;
    }
    if (is_taken)
        answer.flags = AMPI_AM_DONE;
    ampi_procs_post(peer->proc_id, peer->pe_id, &answer, NULL, 0);
}

/* UCX may leave even a number at the sender (UCX_RNDV_THRESH). */
bool ampi_remote_handle_cancel(int pe_id, const struct ampi_am_header *am, const struct machine_data *data)
{
    return ampi_procs_take(pe_id, am, data, cancel);
}
