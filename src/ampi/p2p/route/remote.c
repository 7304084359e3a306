/* SPDX-License-Identifier: BSD-3-Clause
 *
 * remote.c: receiving messages from ranks of other processes. See remote.h; the sending half is in
 * remote_send.c.
 *
 * Order: messages between the same two PEs are numbered; an early one waits in its peer's list. Messages to
 * communicators that this process has not created yet wait in the PE's list of orphans. Another PE may add
 * the communicator at any moment; a message that finds it then must not overtake earlier ones, so it waits
 * behind them. While the list's generation is the current one, the list has no message of a communicator
 * that existed before it.
 *
 * A message whose data stays at the sender ("away") waits for its receive, except small ones: those are
 * fetched at once, so that no small send waits for its receive.
 *
 * Until its receive is posted, large data (EAGER_KEEP_BYTES) that arrived with its header stays in the
 * machine's memory; smaller data is copied into a message of the pools, because the machine's pieces of
 * memory are some KiB each, and a flood of small messages would hold one of them each.
 */
#include "ampi/p2p/route/remote.h"
#include "ampi/comm/contexts.h"

#include "ampi/p2p/p2p_device.h"
#include "ampi/p2p/p2p_watch.h"
#include "ampi/p2p/route/staged.h"
#include "ampi/p2p/route/remote_kept.h"
#include "base/log.h"

/* Data of this size or more stays in the machine's memory. */
#define EAGER_KEEP_BYTES 4096

struct ampi_remote ampi_remotes[AMPI_PES_MAX];

/* ---- Peers ---- */

struct ampi_peer *ampi_remote_add_peer(struct ampi_remote *remote, int proc_id, int pe_id)
{
    struct ampi_peers_of_proc *of_proc;

    if (!remote->procs)
        remote->procs =
            base_calloc((size_t)ampi_job.max_procs, sizeof *remote->procs, "peers in other processes");
    of_proc = &remote->procs[proc_id];
    if (pe_id >= of_proc->n_pes) {
        of_proc->peers = base_realloc(of_proc->peers, ((size_t)pe_id + 1) * sizeof *of_proc->peers,
                                      "peers in other processes");
        memset(of_proc->peers + of_proc->n_pes, 0,
               (size_t)(pe_id + 1 - of_proc->n_pes) * sizeof *of_proc->peers);
        of_proc->n_pes = pe_id + 1;
    }
    if (!of_proc->peers[pe_id]) {
        of_proc->peers[pe_id] = base_calloc(1, sizeof *of_proc->peers[pe_id], "peers in other processes");
        of_proc->peers[pe_id]->proc_id = proc_id;
        of_proc->peers[pe_id]->pe_id = pe_id;
    }
    return of_proc->peers[pe_id];
}

/* A non-synchronous message has been received: returns its share of the window. */
void ampi_remote_give_back(struct ampi_peer *peer, size_t n_bytes)
{
    peer->owed_bytes += n_bytes + AMPI_WINDOW_MESSAGE_BYTES;
    if (BASE_UNLIKELY(peer->owed_bytes >= ampi_remote_window_bytes() / 4)) {
        struct ampi_am_header am = {.kind = AMPI_AM_CREDIT, .cookie = peer->owed_bytes};
        peer->owed_bytes = 0;
        ampi_procs_post(peer->proc_id, peer->pe_id, &am, NULL, 0);
    }
}

/* Notifies a synchronous send that it was matched. */
static void acknowledge(const struct ampi_peer *peer, uint64_t cookie)
{
    struct ampi_am_header am = {.kind = AMPI_AM_ACK, .cookie = cookie};

    ampi_procs_post(peer->proc_id, peer->pe_id, &am, NULL, 0);
}

/* A receive has taken a message: notifies the sender, one way or the other. */
static inline void received(struct ampi_peer *peer, bool is_sync, uint64_t cookie, size_t n_bytes)
{
    if (BASE_UNLIKELY(is_sync))
        acknowledge(peer, cookie);
    else
        ampi_remote_give_back(peer, n_bytes);
}

/* ---- Receiving ---- */

/* Destination of a copy of a message's data: after it, or malloc'ed memory if there is no room. */
static void *kept_room(struct kept *kept)
{
    return kept->memory ? kept->memory : kept->copy;
}

static inline void kept_free(struct ampi_rank *owner, struct ampi_message *message)
{
    free(kept_of(message)->memory);
    ampi_message_free(owner->messages, message);
}

bool ampi_remote_is_away(const struct ampi_message *message)
{
    return message->is_remote && !kept_of(message)->bytes && message->size_bytes > 0;
}

/* A receive whose data is being fetched. */
struct fetch {
    struct ampi_request *recv;
    size_t n_bytes;
    int source;
    int tag;
    unsigned char staged[]; /* used if the data cannot go directly into the receive's buffer */
};

static void fill_status(struct ampi_request *recv, size_t n_bytes, int source, int tag, int result)
{
    size_t room_bytes = (size_t)(recv->u.p2p.count * recv->u.p2p.type->size_bytes);

    recv->status.MPI_SOURCE = source;
    recv->status.MPI_TAG = tag;
    recv->status.MPI_ERROR = result < 0             ? MPI_ERR_PROC_ABORTED
                             : n_bytes > room_bytes ? MPI_ERR_TRUNCATE
                                                    : MPI_SUCCESS;
    ampi_status_set_bytes(&recv->status, (MPI_Count)(n_bytes > room_bytes ? room_bytes : n_bytes));
    ampi_status_set_cancelled(&recv->status, false);
}

static void release_memory(struct ampi_rank *owner, void *memory)
{
    (void)owner;
    free(memory);
}

static void release_fetch(struct ampi_rank *owner, void *what)
{
    struct fetch *fetch = what;

    ampi_message_scratch_free(owner->messages, fetch, sizeof *fetch + fetch->n_bytes);
}

static void fetched_staged(void *arg, int result)
{
    struct fetch *fetch = arg;
    struct ampi_request *recv = fetch->recv;

    if (result == MACHINE_DONE && BASE_UNLIKELY(recv->u.p2p.is_device)) {
        ampi_device_unpack(recv, fetch->staged, fetch->n_bytes, fetch->source, fetch->tag, release_fetch,
                           fetch);
        return;
    }
    if (result == MACHINE_DONE)
        ampi_p2p_unpack(fetch->staged, fetch->n_bytes, fetch->source, fetch->tag, recv->u.p2p.buf,
                        recv->u.p2p.count, recv->u.p2p.type, &recv->status);
    else
        fill_status(recv, fetch->n_bytes, fetch->source, fetch->tag, result);
    ampi_message_scratch_free(recv->owner->messages, fetch, sizeof *fetch + fetch->n_bytes);
    ampi_request_complete(recv);
}

/* The status was filled when the fetch began. */
static void fetched(void *arg, int result)
{
    struct ampi_request *recv = arg;

    if (BASE_UNLIKELY(result < 0))
        recv->status.MPI_ERROR = MPI_ERR_PROC_ABORTED;
    ampi_request_complete(recv);
}

enum machine_memory ampi_remote_memory(const struct ampi_p2p *p2p)
{
    const void *data = ampi_type_address(p2p->buf, p2p->type->true_lb_bytes);
    enum gpu_memory kind = gpu_resolve(data)->memory;
    enum machine_memory memory = kind == GPU_MEMORY_MANAGED ? MACHINE_CUDA_MANAGED : MACHINE_CUDA;

    if (BASE_UNLIKELY(kind == GPU_MEMORY_NOWHERE))
        return MACHINE_HOST; /* the move to host memory fails, and reports the error */
    return ampi_type_is_block(p2p->type, p2p->count) && ampi_machine->takes(memory) ? memory : MACHINE_HOST;
}

void ampi_remote_log_slow(void)
{
    static atomic_flag is_logged = ATOMIC_FLAG_INIT;

    if (!ampi_machine->takes(MACHINE_CUDA) && !atomic_flag_test_and_set(&is_logged))
        base_log("GPU messages to other processes go through host memory, which is slow: this UCX was built "
                 "without CUDA");
}

static void start_fetch(struct ampi_request *recv, int src_proc, void *token, size_t n_bytes, int source,
                        int tag)
{
    struct ampi_p2p *p2p = &recv->u.p2p;
    int pe_id = recv->owner->pe_id;
    enum machine_memory memory = BASE_UNLIKELY(p2p->is_device) ? ampi_remote_memory(p2p) : MACHINE_HOST;
    struct fetch *fetch;
    int result;

    if ((!p2p->is_device || memory != MACHINE_HOST) && ampi_type_is_block(p2p->type, p2p->count) &&
        n_bytes <= (size_t)(p2p->count * p2p->type->size_bytes)) {
        fill_status(recv, n_bytes, source, tag, MACHINE_DONE);
        result =
            ampi_machine->fetch(pe_id, src_proc, token, ampi_type_address(p2p->buf, p2p->type->true_lb_bytes),
                                n_bytes, memory, fetched, recv);
        if (result != MACHINE_PENDING)
            fetched(recv, result);
        return;
    }
    fetch = ampi_message_scratch(recv->owner->messages, sizeof *fetch + n_bytes,
                                 "a message from another process");
    *fetch = (struct fetch){recv, n_bytes, source, tag};
    result = ampi_machine->fetch(pe_id, src_proc, token, fetch->staged, n_bytes, MACHINE_HOST, fetched_staged,
                                 fetch);
    if (result != MACHINE_PENDING)
        fetched_staged(fetch, result);
}

static void take_fetched(struct ampi_message *message, struct ampi_request *recv);

static void fetch_kept(struct ampi_message *message, struct ampi_request *recv)
{
    struct kept *kept = kept_of(message);

    if (kept->is_fetching) {
        kept->recv = recv;
        return;
    }
    if (BASE_UNLIKELY(kept->has_failed)) {
        take_fetched(message, recv);
        return;
    }
    if (BASE_UNLIKELY(kept->is_offer)) {
        ampi_staged_receive(recv, kept->peer, kept->cookie, message->size_bytes, message->node.source,
                            message->node.tag);
    } else {
        received(kept->peer, kept->is_sync, kept->cookie, message->size_bytes);
        start_fetch(recv, kept->peer->proc_id, kept->token, message->size_bytes, message->node.source,
                    message->node.tag);
    }
    ampi_message_free(recv->owner->messages, message);
}

/* A message whose bytes are here has been received, or moved to a GPU. */
void ampi_remote_release_message(struct ampi_rank *owner, void *what)
{
    struct ampi_message *message = what;

    if (kept_of(message)->token)
        ampi_machine->release(owner->pe_id, kept_of(message)->token);
    kept_free(owner, message);
}

void ampi_remote_consume(struct ampi_rank *self, struct ampi_message *message, void *buf, MPI_Count count,
                         const struct ampi_type *type, MPI_Status *status)
{
    const struct kept *kept = kept_of(message);

    ampi_p2p_unpack(kept->bytes, message->size_bytes, message->node.source, message->node.tag, buf, count,
                    type, status);
    received(kept->peer, kept->is_sync, kept->cookie, message->size_bytes);
    ampi_remote_release_message(self, message);
}

void ampi_remote_receive(struct ampi_message *message, struct ampi_request *recv)
{
    const struct kept *kept = kept_of(message);

    if (ampi_remote_is_away(message)) {
        fetch_kept(message, recv);
        return;
    }
    received(kept->peer, kept->is_sync, kept->cookie, message->size_bytes);
    ampi_device_unpack(recv, kept->bytes, message->size_bytes, message->node.source, message->node.tag,
                       ampi_remote_release_message, message);
}

/* ---- Small messages whose data is away ---- */

/* Delivers a message whose fetch has ended to its receive. */
static void take_fetched(struct ampi_message *message, struct ampi_request *recv)
{
    const struct kept *kept = kept_of(message);
    int source = message->node.source, tag = message->node.tag;

    received(kept->peer, kept->is_sync, kept->cookie, message->size_bytes);
    if (!kept->has_failed && recv->u.p2p.is_device) {
        ampi_device_unpack(recv, kept->bytes, message->size_bytes, source, tag, ampi_remote_release_message,
                           message);
        return;
    }
    if (kept->has_failed)
        fill_status(recv, message->size_bytes, source, tag, MACHINE_PEER_FAILED);
    else
        ampi_p2p_unpack(kept->bytes, message->size_bytes, source, tag, recv->u.p2p.buf, recv->u.p2p.count,
                        recv->u.p2p.type, &recv->status);
    kept_free(recv->owner, message);
    ampi_request_complete(recv);
}

static void fetched_early(void *arg, int result)
{
    struct ampi_message *message = arg;
    struct kept *kept = kept_of(message);

    kept->is_fetching = false;
    kept->has_failed = result < 0;
    if (!kept->has_failed)
        kept->bytes = kept_room(kept);
    if (BASE_UNLIKELY(kept->is_dropped))
        ampi_remote_drop(kept->owner, message);
    else if (kept->recv)
        take_fetched(message, kept->recv);
}

/* The message has been kept, with room for its data. */
static void fetch_early(struct ampi_message *message)
{
    struct kept *kept = kept_of(message);
    void *token = kept->token;
    int result;

    kept->token = NULL;
    kept->is_fetching = true;
    result = ampi_machine->fetch(ult_pe_id(ult_self()->pe), kept->peer->proc_id, token, kept_room(kept),
                                 message->size_bytes, MACHINE_HOST, fetched_early, message);
    if (result != MACHINE_PENDING)
        fetched_early(message, result);
}

static void release_token(struct ampi_rank *owner, void *token)
{
    ampi_machine->release(owner->pe_id, token);
}

/* Moves the bytes of a matched message to a GPU. Returns true if its data is kept until then. */
static bool deliver_to_device(struct ampi_request *recv, const struct ampi_am_header *am,
                              const struct machine_data *data)
{
    void *copy;

    if (data->can_keep) {
        ampi_device_unpack(recv, data->bytes, data->n_bytes, am->source, am->tag, release_token, data->token);
        return true;
    }
    copy = base_malloc(data->n_bytes, "a message from another process");
    memcpy(copy, data->bytes, data->n_bytes);
    ampi_device_unpack(recv, copy, data->n_bytes, am->source, am->tag, release_memory, copy);
    return false;
}

/* Keeps a message without a receive. Returns true if its data stays where it is. */
static bool keep(struct ampi_peer *peer, struct ampi_comm *dest, const struct ampi_am_header *am,
                 const struct machine_data *data)
{
    bool is_copied = data->bytes && (!data->can_keep || data->n_bytes < EAGER_KEEP_BYTES);
    bool is_early = !data->bytes && data->n_bytes > 0 && !(am->flags & (AMPI_AM_STAGED | AMPI_AM_SYNC)) &&
                    data->n_bytes <= AMPI_EAGER_MAX_BYTES;
    size_t room = sizeof(struct kept) + (is_copied || is_early ? data->n_bytes : 0);
    bool has_room = room <= AMPI_EAGER_MAX_BYTES;
    struct ampi_message *message = ampi_message_alloc(dest->owner->messages, has_room ? room : 0);
    struct kept *kept = kept_of(message);

    message->size_bytes = data->n_bytes;
    message->is_remote = true;
    *kept = (struct kept){.bytes = data->bytes,
                          .token = is_copied || data->n_bytes == 0 ? NULL : data->token,
                          .cookie = am->cookie,
                          .peer = peer,
                          .seq = am->seq,
                          .is_sync = (am->flags & AMPI_AM_SYNC) != 0,
                          .is_offer = (am->flags & AMPI_AM_STAGED) != 0};
    if (BASE_UNLIKELY(!has_room))
        kept->memory = base_malloc(data->n_bytes, "a message from another process");
    if (is_copied && data->n_bytes) {
        kept->bytes = memcpy(kept_room(kept), data->bytes, data->n_bytes);
    } else if (data->n_bytes == 0) {
        kept->bytes = kept->copy;
    }
    ampi_message_keep(dest, message, am->source, am->tag);
    if (BASE_UNLIKELY(is_early))
        fetch_early(message);
    return !is_copied && data->n_bytes > 0;
}

/* +check usage: a message, or its announcement just before it. Returns true for the latter. */
static BASE_COLD bool check_announced(struct ampi_peer *peer, struct ampi_comm *dest,
                                      const struct ampi_am_header *am, const struct machine_data *data)
{
    void *announced = peer->announced;

    peer->announced = NULL;
    if (!(am->flags & AMPI_AM_TYPE)) {
        if (ampi_p2p_is_checked(dest))
            ampi_p2p_checker.arrived(dest, am, am->seq == peer->announced_seq + 1 ? announced : NULL);
    } else if (data->bytes && base_settings.check_usage) {
        peer->announced = memcpy(base_malloc(data->n_bytes, "+check usage"), data->bytes, data->n_bytes);
        peer->announced_seq = am->seq;
    }
    free(announced);
    return (am->flags & AMPI_AM_TYPE) != 0;
}

/* Matches a message. Returns true if its data is kept or being fetched. */
static bool deliver(struct ampi_peer *peer, struct ampi_comm_shared *shared, const struct ampi_am_header *am,
                    const struct machine_data *data)
{
    struct ampi_comm *dest = &shared->side[am->flags & AMPI_AM_SIDE ? 1 : 0].handles[am->dest];
    struct ampi_match_node *node;
    struct ampi_request *recv;

    if (BASE_UNLIKELY(base_settings.check_usage || (am->flags & AMPI_AM_TYPE)) &&
        check_announced(peer, dest, am, data))
        return false;
    node = ampi_match_take_posted(&dest->match, am->source, am->tag);
    if (!node)
        return keep(peer, dest, am, data);
    recv = BASE_CONTAINER(node, struct ampi_request, u.p2p.node);
    recv->u.p2p.is_posted = false;
    if (BASE_UNLIKELY(am->flags & AMPI_AM_STAGED)) {
        ampi_staged_receive(recv, peer, am->cookie, data->n_bytes, am->source, am->tag);
        return true;
    }
    received(peer, (am->flags & AMPI_AM_SYNC) != 0, am->cookie, data->n_bytes);
    if (!data->bytes && data->n_bytes > 0) {
        start_fetch(recv, peer->proc_id, data->token, data->n_bytes, am->source, am->tag);
        return true;
    }
    if (BASE_UNLIKELY(recv->u.p2p.is_device) && data->n_bytes > 0)
        return deliver_to_device(recv, am, data);
    ampi_p2p_unpack(data->bytes, data->n_bytes, am->source, am->tag, recv->u.p2p.buf, recv->u.p2p.count,
                    recv->u.p2p.type, &recv->status);
    ampi_request_complete(recv);
    return false;
}

/* ---- Deferred messages ---- */

/* Makes a message wait; *is_kept_out: its data stays where it is. */
static struct waiting *make_wait(int pe_id, const struct ampi_am_header *am, const struct machine_data *data,
                                 bool *is_kept_out)
{
    bool is_copied = data->bytes && !data->can_keep;
    size_t room_bytes = sizeof(struct waiting) + (is_copied ? data->n_bytes : 0);
    struct waiting *waiting =
        ampi_message_scratch(ampi_message_pool_of(pe_id), room_bytes, "a message that arrived early");

    *waiting = (struct waiting){.am = *am,
                                .bytes = data->bytes,
                                .n_bytes = data->n_bytes,
                                .token = data->token,
                                .room_bytes = room_bytes};
    if (is_copied) {
        memcpy(waiting->copy, data->bytes, data->n_bytes);
        waiting->bytes = waiting->copy;
        waiting->token = NULL;
    }
    *is_kept_out = !is_copied;
    return waiting;
}

static bool deliver_or_orphan(struct ampi_remote *remote, int pe_id, const struct ampi_am_header *am,
                              const struct machine_data *data);

/* Delivers a message that had to wait; its data is the machine's or follows it. */
static void deliver_waiting(struct ampi_remote *remote, int pe_id, struct waiting *waiting)
{
    struct machine_data data = {.bytes = waiting->bytes,
                                .n_bytes = waiting->n_bytes,
                                .token = waiting->token,
                                .can_keep = waiting->token != NULL};

    if (!deliver_or_orphan(remote, pe_id, &waiting->am, &data) && waiting->token)
        ampi_machine->release(pe_id, waiting->token);
    ampi_message_scratch_free(ampi_message_pool_of(pe_id), waiting, waiting->room_bytes);
}

static BASE_COLD bool make_orphan(struct ampi_remote *remote, int pe_id, const struct ampi_am_header *am,
                                  const struct machine_data *data)
{
    bool is_kept;
    struct waiting *waiting = make_wait(pe_id, am, data, &is_kept);

    if (remote->orphans_last)
        remote->orphans_last->next = waiting;
    else
        remote->orphans_first = waiting;
    remote->orphans_last = waiting;
    return is_kept;
}

static BASE_COLD void retry_orphans(struct ampi_remote *remote, int pe_id)
{
    struct waiting *waiting = remote->orphans_first;

    remote->generation = ampi_contexts_generation();
    remote->orphans_first = remote->orphans_last = NULL;
    while (waiting) {
        struct waiting *next = waiting->next;
        deliver_waiting(remote, pe_id, waiting);
        waiting = next;
    }
}

bool ampi_remote_must_retry(int pe_id)
{
    const struct ampi_remote *remote = &ampi_remotes[pe_id];

    return BASE_UNLIKELY(remote->orphans_first != NULL) && remote->generation != ampi_contexts_generation();
}

int ampi_remote_retry(int pe_id)
{
    if (!ampi_remote_must_retry(pe_id))
        return 0;
    retry_orphans(&ampi_remotes[pe_id], pe_id);
    return 1;
}

/* Handles the next message in order. The generation is read after the look-up: if the communicator was
 * added since the last attempt with the orphans, some of them may be for it. */
static bool deliver_or_orphan(struct ampi_remote *remote, int pe_id, const struct ampi_am_header *am,
                              const struct machine_data *data)
{
    struct ampi_comm_shared *shared;

    if (BASE_UNLIKELY(am->flags & AMPI_AM_CANCEL))
        return ampi_remote_handle_cancel(pe_id, am, data);
    shared = ampi_contexts_find(pe_id, am->context_id);
    if (BASE_UNLIKELY(!shared) || ampi_remote_must_retry(pe_id))
        return make_orphan(remote, pe_id, am, data);
    return deliver(ampi_remote_peer(remote, (int)am->src_proc, am->src_pe), shared, am, data);
}

/* Messages overtake each other on different transports, but rarely on the same one: most early messages are the
 * latest so far. */
static BASE_COLD bool make_early(struct ampi_peer *peer, int pe_id, const struct ampi_am_header *am,
                                 const struct machine_data *data)
{
    bool is_kept;
    struct waiting *waiting = make_wait(pe_id, am, data, &is_kept);
    struct waiting **link = &peer->early;

    if (*link && (int32_t)(am->seq - peer->early_last->am.seq) > 0)
        link = &peer->early_last->next;
    while (*link && (int32_t)(am->seq - (*link)->am.seq) > 0)
        link = &(*link)->next;
    waiting->next = *link;
    *link = waiting;
    if (!waiting->next)
        peer->early_last = waiting;
    return is_kept;
}

static BASE_COLD void deliver_early(struct ampi_remote *remote, int pe_id, struct ampi_peer *peer)
{
    while (peer->early && peer->early->am.seq == peer->next_expected) {
        struct waiting *waiting = peer->early;
        peer->early = waiting->next;
        peer->next_expected++;
        deliver_waiting(remote, pe_id, waiting);
    }
}

bool ampi_remote_handle(int pe_id, const struct ampi_am_header *am, const struct machine_data *data)
{
    struct ampi_remote *remote = &ampi_remotes[pe_id];
    struct ampi_peer *peer = ampi_remote_peer(remote, (int)am->src_proc, am->src_pe);
    struct machine_data passing;
    bool is_kept;

    if (BASE_UNLIKELY(am->seq != peer->next_expected))
        return make_early(peer, pe_id, am, data);
    if (BASE_UNLIKELY(peer->early !=
                      NULL)) { /* the next message may cancel it: it cannot be released before this returns */
        passing = *data;
        passing.can_keep = !data->bytes;
        data = &passing;
    }
    peer->next_expected++;
    ampi_remote_retry(pe_id); /* older messages first */
    is_kept = deliver_or_orphan(remote, pe_id, am, data);
    if (BASE_UNLIKELY(peer->early != NULL))
        deliver_early(remote, pe_id, peer);
    return is_kept;
}
