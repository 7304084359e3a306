/* SPDX-License-Identifier: BSD-3-Clause
 *
 * remote_send.c: sending messages to ranks of other processes. See remote.h.
 *
 * Small data leaves in a parcel: the machine gets a copy, and the send is complete at once. Other data
 * leaves from the sender's buffer (or packed, if it is noncontiguous), and its request waits for the
 * machine. GPU data leaves from the GPU if the machine supports that; otherwise large data in pieces
 * (staged.h), small data from a copy in host memory.
 */
#include "ampi/p2p/p2p_device.h"
#include "ampi/p2p/p2p_failure.h"
#include "ampi/p2p/route/staged.h"
#include "ampi/p2p/route/remote.h"
#include "ampi/p2p/route/remote_peer.h"
#include "base/log.h"

/* Maximum data size of a parcel, and maximum number of a PE's parcels that the machine may hold. */
#define PARCEL_BYTES 256
#define PARCELS_OUT_MAX 1024

/* Parcels that are allocated at once. */
#define PARCELS_PER_SLAB 64

/* ---- Routes ---- */

static BASE_COLD struct ampi_peer *find_peer(struct ampi_remote *remote, int world_rank)
{
    int dest_pe = ampi_procs_pe_of(world_rank);
    struct ampi_route_entry *entry;

    if (dest_pe < 0)
        return NULL;
    if (!remote->routes)
        remote->routes = base_calloc(AMPI_ROUTE_ENTRIES, sizeof *remote->routes, "routes to other processes");
    entry = &remote->routes[world_rank % AMPI_ROUTE_ENTRIES];
    entry->peer = ampi_remote_peer(remote, ampi_procs_of_rank(world_rank), dest_pe);
    entry->world_rank_plus_1 = world_rank + 1;
    return entry->peer;
}

/* The PE of a member of the communicator's peer side; NULL: its process is unknown. */
static inline struct ampi_peer *peer_of_member(struct ampi_remote *remote, const struct ampi_comm *comm,
                                               int dest)
{
    int world_rank = ampi_group_world_rank(comm->peer->layout->group, dest);
    const struct ampi_route_entry *entry;

    if (BASE_UNLIKELY(!remote->routes))
        return find_peer(remote, world_rank);
    entry = &remote->routes[world_rank % AMPI_ROUTE_ENTRIES];
    if (BASE_UNLIKELY(entry->world_rank_plus_1 != world_rank + 1))
        return find_peer(remote, world_rank);
    return entry->peer;
}

void ampi_remote_handle_credit(int pe_id, const struct ampi_am_header *am)
{
    ampi_remote_peer(&ampi_remotes[pe_id], (int)am->src_proc, am->src_pe)->used_bytes -= am->cookie;
}

static inline bool is_window_used(const struct ampi_peer *peer)
{
    return BASE_UNLIKELY(peer->used_bytes > ampi_remote_window_bytes());
}

static inline void fill_am(struct ampi_am_header *am, const struct ampi_comm *comm, int pe_id, int dest,
                           int tag, uint32_t seq)
{
    *am = (struct ampi_am_header){
        .kind = AMPI_AM_SEND,
        .flags = comm->peer == &comm->shared->side[1] ? AMPI_AM_SIDE : 0,
        .src_pe = (uint16_t)pe_id,
        .src_proc = (uint32_t)ampi_job.proc_id,
        .context_id = comm->shared->context_id,
        .seq = seq,
        .tag = tag,
        .source = comm->rank,
        .dest = dest,
    };
}

/* ---- Parcels ---- */

struct ampi_parcel {
    struct ampi_parcel *next;   /* link of the free ones */
    struct ampi_remote *remote; /* the owner */
    struct ampi_am_header am;
    unsigned char data[PARCEL_BYTES];
};

static BASE_COLD void add_parcels(struct ampi_remote *remote)
{
    struct ampi_parcel *slab =
        base_calloc_aligned(PARCELS_PER_SLAB, sizeof *slab, "messages to other processes");

    for (int i = 0; i < PARCELS_PER_SLAB; i++) {
        slab[i].remote = remote;
        slab[i].next = remote->parcels;
        remote->parcels = &slab[i];
    }
}

static void parcel_sent(void *arg, int result)
{
    struct ampi_parcel *parcel = arg;
    struct ampi_remote *remote = parcel->remote;

    (void)
        result; /* the send was complete before; the request that waits for an answer is notified of the failure */
    parcel->next = remote->parcels;
    remote->parcels = parcel;
    remote->n_parcels_out--;
}

/* The first one of the free parcels leaves. False: the process has failed. */
static inline bool send_parcel(struct ampi_remote *remote, struct ampi_peer *peer, struct ampi_parcel *parcel,
                               size_t n_bytes)
{
    int result =
        ampi_machine->send(parcel->am.src_pe, peer->proc_id, peer->pe_id, &parcel->am, sizeof parcel->am,
                           parcel->data, n_bytes, MACHINE_HOST, parcel_sent, parcel);

    if (BASE_UNLIKELY(result < 0))
        return false;
    if (result == MACHINE_PENDING) {
        remote->parcels = parcel->next;
        remote->n_parcels_out++;
    }
    peer->next_sent++;
    return true;
}

bool ampi_remote_try_send(struct ampi_rank *self, const struct ampi_send_args *args, size_t n_bytes)
{
    struct ampi_remote *remote = &ampi_remotes[self->pe_id];
    struct ampi_parcel *parcel;
    struct ampi_peer *peer;

    if (n_bytes > PARCEL_BYTES || args->mode == AMPI_SEND_SYNCHRONOUS ||
        remote->n_parcels_out >= PARCELS_OUT_MAX)
        return false;
    peer = peer_of_member(remote, args->comm, args->dest);
    if (BASE_UNLIKELY(!peer) || is_window_used(peer))
        return false;
    if (BASE_UNLIKELY(!remote->parcels))
        add_parcels(remote);
    parcel = remote->parcels;
    fill_am(&parcel->am, args->comm, self->pe_id, args->dest, args->tag, peer->next_sent);
    ampi_p2p_pack(parcel->data, args, n_bytes);
    if (BASE_UNLIKELY(!send_parcel(remote, peer, parcel, n_bytes)))
        return false; /* the request will report it */
    peer->used_bytes += n_bytes + AMPI_WINDOW_MESSAGE_BYTES;
    self->n_sent[AMPI_ROUTE_OTHER_PROCESS]++;
    return true;
}

void ampi_remote_announce(const struct ampi_send_args *args, const void *bytes, size_t n_bytes)
{
    int pe_id = args->comm->owner->pe_id;
    struct ampi_remote *remote = &ampi_remotes[pe_id];
    struct ampi_peer *peer = peer_of_member(remote, args->comm, args->dest);
    struct ampi_parcel *parcel;

    if (!peer || remote->n_parcels_out >= PARCELS_OUT_MAX)
        return;
    if (!remote->parcels)
        add_parcels(remote);
    parcel = remote->parcels;
    fill_am(&parcel->am, args->comm, pe_id, args->dest, args->tag, peer->next_sent);
    parcel->am.flags |= AMPI_AM_TYPE;
    memcpy(parcel->data, bytes, n_bytes);
    send_parcel(remote, peer, parcel, n_bytes);
}

/* ---- Requests ---- */

/* Lists sends that wait to be matched: nothing else would find them when the other process fails. The list
 * uses the link of the request's pool, which it is not in, and another one. */
static void add_unmatched(struct ampi_remote *remote, struct ampi_request *request)
{
    request->u.p2p.is_unmatched = true;
    request->next = remote->unmatched;
    request->u.p2p.prev_unmatched = NULL;
    if (remote->unmatched)
        remote->unmatched->u.p2p.prev_unmatched = request;
    remote->unmatched = request;
}

static void remove_unmatched(struct ampi_request *request)
{
    struct ampi_request *prev = request->u.p2p.prev_unmatched;

    *(prev ? &prev->next : &ampi_remotes[request->owner->pe_id].unmatched) = request->next;
    if (request->next)
        request->next->u.p2p.prev_unmatched = prev;
}

/* One of the two events that a send waits for has happened: its buffer is free, or it was matched. */
static void send_part_done(struct ampi_request *request)
{
    struct ampi_p2p *p2p = &request->u.p2p;

    if (--p2p->n_remote_parts > 0)
        return;
    if (p2p->is_unmatched)
        remove_unmatched(request);
    if (p2p->staged)
        ampi_message_scratch_free(request->owner->messages, p2p->staged,
                                  (size_t)(p2p->count * p2p->type->size_bytes));
    request->status.MPI_ERROR = p2p->is_failed ? MPI_ERR_PROC_ABORTED : MPI_SUCCESS;
    if (BASE_UNLIKELY(p2p->gpu_error))
        request->status.MPI_ERROR = ampi_device_error(request->owner, p2p->gpu_error);
    if (BASE_UNLIKELY(p2p->is_cancelled))
        ampi_send_end_cancelled(request);
    else
        ampi_request_complete(request);
}

void ampi_remote_send_done(struct ampi_request *request, int result)
{
    if (BASE_UNLIKELY(result < 0)) {
        request->u.p2p.is_failed = true;
        request->u.p2p.n_remote_parts = 1; /* no match will be reported */
    }
    send_part_done(request);
}

static void sent(void *arg, int result)
{
    ampi_remote_send_done(arg, result);
}

/* The data as consecutive memory. */
static const void *gather(struct ampi_message_pool *pool, struct ampi_p2p *p2p, size_t n_bytes)
{
    struct ampi_cursor cursor;

    if (BASE_LIKELY(ampi_type_is_block(p2p->type, p2p->count)))
        return ampi_type_address(p2p->buf, p2p->type->true_lb_bytes);
    if (n_bytes == 0)
        return NULL;
    p2p->staged = ampi_message_scratch(pool, n_bytes, "a message to another process");
    ampi_cursor_init(&cursor, p2p->buf, p2p->count, p2p->type);
    ampi_cursor_pack(&cursor, p2p->staged, n_bytes);
    return p2p->staged;
}

/* The header is filled in already. */
static void send_data(struct ampi_request *request, const struct ampi_peer *peer, const void *data,
                      size_t n_bytes, enum machine_memory memory)
{
    struct ampi_p2p *p2p = &request->u.p2p;
    int result = ampi_machine->send(request->owner->pe_id, peer->proc_id, peer->pe_id, &p2p->am,
                                    sizeof p2p->am, data, n_bytes, memory, sent, request);

    if (result != MACHINE_PENDING)
        sent(request, result);
}

/* Data on its way from a GPU to memory that the machine can send from. */
struct staging {
    struct gpu_move move;
    struct ampi_request *request; /* NULL: complete */
    const struct ampi_peer *peer;
    struct ampi_am_header am; /* the request's header */
    int pe_id;
    unsigned char bytes[];
};

static void staging_sent(void *arg, int result)
{
    struct staging *staging = arg;

    if (staging->request)
        ampi_remote_send_done(staging->request, result);
    free(staging);
}

/* The data is in the library's memory: unless the send waits for its match, it is complete now, even before the
 * machine has finished. */
static void send_staging(struct staging *staging)
{
    struct ampi_request *request = staging->request;
    bool is_sync = (staging->am.flags & AMPI_AM_SYNC) != 0;
    int result;

    if (!is_sync)
        staging->request = NULL;
    result = ampi_machine->send(staging->pe_id, staging->peer->proc_id, staging->peer->pe_id, &staging->am,
                                sizeof staging->am, staging->bytes, staging->move.n_bytes, MACHINE_HOST,
                                staging_sent, staging);
    if (result != MACHINE_PENDING)
        staging_sent(staging, result);
    if (!is_sync)
        ampi_remote_send_done(request, result < 0 ? result : MACHINE_DONE);
}

/* The message is sent in any case: later ones wait for its number. */
static void staged(struct gpu_move *move, int error)
{
    struct staging *staging = BASE_CONTAINER(move, struct staging, move);
    struct ampi_request *request = staging->request;
    const struct ampi_peer *peer = staging->peer;

    if (BASE_UNLIKELY(error)) {
        ampi_staged_send_failure(&request->u.p2p.am, peer, move->n_bytes, error);
        request->u.p2p.gpu_error = error;
        request->u.p2p.n_remote_parts = 1; /* no match will be reported */
        ampi_remote_send_done(request, MACHINE_DONE);
        free(staging);
    } else {
        staging->am = request->u.p2p.am;
        send_staging(staging);
    }
}

static void stage(struct ampi_request *request, const struct ampi_peer *peer, size_t n_bytes)
{
    struct staging *staging = base_malloc(sizeof *staging + n_bytes, "a GPU message to another process");

    *staging = (struct staging){.request = request, .peer = peer, .pe_id = request->owner->pe_id};
    staging->move.src = ampi_request_gpu_data(request);
    staging->move.dst = ampi_bytes_gpu_data(staging->bytes, n_bytes);
    staging->move.n_bytes = n_bytes;
    staging->move.done = staged;
    gpu_move_start(&staging->move);
}

void ampi_remote_send(struct ampi_rank *self, struct ampi_request *request)
{
    struct ampi_p2p *p2p = &request->u.p2p;
    size_t n_bytes = (size_t)(p2p->count * p2p->type->size_bytes);
    struct ampi_peer *peer = peer_of_member(&ampi_remotes[self->pe_id], request->comm, p2p->peer_rank);
    bool is_sync = p2p->mode == AMPI_SEND_SYNCHRONOUS;
    bool is_staged = false; /* GPU data that the machine cannot send from there */
    enum machine_memory memory = MACHINE_HOST;

    p2p->is_failed = p2p->is_unmatched = p2p->is_cancelling = p2p->is_cancelled = false;
    p2p->gpu_error = 0;
    p2p->staged = NULL;
    p2p->n_remote_parts = 1;
    if (BASE_UNLIKELY(peer == NULL)) {
        sent(request, MACHINE_PEER_FAILED);
        return;
    }
    fill_am(&p2p->am, request->comm, self->pe_id, p2p->peer_rank, p2p->tag, peer->next_sent++);
    if (BASE_UNLIKELY(p2p->is_device)) {
        memory = ampi_remote_memory(p2p);
        is_staged = memory == MACHINE_HOST;
        if (is_staged)
            ampi_remote_log_slow();
    }
    if (BASE_UNLIKELY(is_staged && n_bytes > AMPI_STAGED_FROM_BYTES)) {
        ampi_staged_send(request, peer, n_bytes);
    } else {
        if (is_sync || is_window_used(peer)) {
            p2p->am.flags |= AMPI_AM_SYNC;
            p2p->am.cookie = (uint64_t)(uintptr_t)request;
            p2p->n_remote_parts = 2;
            add_unmatched(&ampi_remotes[self->pe_id], request);
        } else {
            peer->used_bytes += n_bytes + AMPI_WINDOW_MESSAGE_BYTES;
        }
        if (BASE_UNLIKELY(is_staged))
            stage(request, peer, n_bytes);
        else
            send_data(request, peer, gather(self->messages, p2p, n_bytes), n_bytes, memory);
    }
}

void ampi_remote_handle_ack(const struct ampi_am_header *am)
{
    send_part_done((struct ampi_request *)(uintptr_t)am->cookie);
}

/* The request to cancel is a separate message after the one that it concerns, which has arrived or matched
 * by then. */
void ampi_remote_cancel(struct ampi_request *request)
{
    struct ampi_p2p *p2p = &request->u.p2p;
    struct ampi_remote *remote = &ampi_remotes[request->owner->pe_id];
    struct ampi_peer *peer;
    struct ampi_am_header am;
    uint32_t *meant;

    if (p2p->is_cancelling)
        return;
    peer = peer_of_member(remote, request->comm, p2p->peer_rank);
    p2p->is_cancelling = true;
    p2p->n_remote_parts++;
    if (!p2p->is_unmatched) /* only the answer, or the process's failure, may be outstanding */
        add_unmatched(remote, request);
    meant = base_malloc(sizeof *meant, "MPI_Cancel");
    *meant = p2p->am.seq;
    fill_am(&am, request->comm, request->owner->pe_id, p2p->peer_rank, p2p->tag, peer->next_sent++);
    am.flags |= AMPI_AM_CANCEL;
    am.cookie = (uint64_t)(uintptr_t)request;
    ampi_procs_post(peer->proc_id, peer->pe_id, &am, meant, sizeof *meant);
}

void ampi_remote_handle_cancelled(const struct ampi_am_header *am)
{
    struct ampi_request *request = (struct ampi_request *)(uintptr_t)am->cookie;
    struct ampi_p2p *p2p = &request->u.p2p;

    p2p->is_cancelling = false;
    if (am->flags & AMPI_AM_DONE) {
        p2p->is_cancelled = true;
        if (p2p->am.flags & AMPI_AM_SYNC)
            p2p->n_remote_parts--; /* no match will be reported */
    }
    send_part_done(request);
}

void ampi_remote_handle_failure(int pe_id, int proc_id)
{
    struct ampi_request *request = ampi_remotes[pe_id].unmatched;

    ampi_staged_handle_failure(pe_id, proc_id);
    while (request) {
        const struct ampi_comm *comm = request->comm;
        int world_rank = ampi_group_world_rank(comm->peer->layout->group, request->u.p2p.peer_rank);
        struct ampi_request *next = request->next;
        if (ampi_procs_of_rank(world_rank) == proc_id)
            sent(request, MACHINE_PEER_FAILED);
        request = next;
    }
}
