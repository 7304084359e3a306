/* SPDX-License-Identifier: BSD-3-Clause
 *
 * endpoint.c: see endpoint.h.
 */
#include "ampi/p2p/thread/endpoint.h"

#include <pthread.h>

#include "ampi/p2p/p2p.h"
#include "base/log.h"

/* Requests that are made at once. */
#define SLAB 64

const struct ampi_request_kind ampi_private_send_kind = {.name = "send"};
const struct ampi_request_kind ampi_private_recv_kind = {.name = "receive"};

_Atomic bool ampi_endpoints_exist;

/* All endpoints. They are never freed, but reused. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ampi_endpoint *all;

/* ---- Life ---- */

bool ampi_endpoint_may_give(const struct ampi_comm *comm)
{
    for (int i = 0; i < comm->local->n_ranks; i++)
        if (comm->local->layout->pe_of[i] == AMPI_PE_REMOTE)
            return false;
    return !comm->shared->is_inter;
}

/* An unused endpoint whose memory belongs to the PE, or a new one. */
static struct ampi_endpoint *take(struct ampi_rank *owner)
{
    struct ampi_endpoint *endpoint;

    pthread_mutex_lock(&all_lock);
    for (endpoint = all; endpoint; endpoint = endpoint->next)
        if (!endpoint->owner && endpoint->messages->pe_id == owner->pe_id)
            break;
    if (!endpoint) {
        endpoint = base_calloc_aligned(1, sizeof *endpoint, "a thread's endpoint");
        endpoint->messages = ampi_message_pool_create_apart(owner->pe_id);
        endpoint->next = all;
        all = endpoint;
    }
    endpoint->owner = owner;
    pthread_mutex_unlock(&all_lock);
    return endpoint;
}

void ampi_endpoint_give(struct ampi_comm *comm)
{
    if (comm->owner->threads_level != MPI_THREAD_MULTIPLE || (comm->at_post & AMPI_AT_POST_EVENTS))
        return;
    comm->endpoint = take(comm->owner);
    comm->endpoint->rings_to =
        base_calloc((size_t)comm->local->n_ranks, sizeof *comm->endpoint->rings_to, "a thread's endpoint");
    atomic_store_explicit(&comm->is_direct, true, memory_order_release);
    atomic_store_explicit(&ampi_endpoints_exist, true, memory_order_release);
}

/* The communicator is destroyed: drops the handle's endpoint, if there is one. On the owner's PE. */
static void drop(struct ampi_comm *comm)
{
    struct ampi_endpoint *endpoint = comm->endpoint;

    if (!endpoint)
        return;
    comm->endpoint = NULL;
    for (struct ult_ring *ring = endpoint->inbox.rings, *next; ring; ring = next) {
        next = ring->next;
        free(ring);
    }
    ult_inbox_init(&endpoint->inbox);
    free(endpoint->rings_to);
    atomic_store(&endpoint->watched, 0);
    pthread_mutex_lock(&all_lock);
    for (int i = 0; i < 2; i++)
        comm->owner->n_sent[i] += atomic_exchange(&endpoint->n_sent[i], 0);
    endpoint->owner = NULL;
    endpoint->is_closed = false;
    endpoint->n_private = 0;
    pthread_mutex_unlock(&all_lock);
}

/* Direct calls emit no events. */
static void watch(struct ampi_comm *comm, bool is_on)
{
    ampi_endpoint_leave(comm);
}

void ampi_endpoint_connect(void)
{
    static const struct ampi_comm_client client = {.close = drop, .watch = watch};

    ampi_comm_add_client(&client);
}

void ampi_endpoint_leave(struct ampi_comm *comm)
{
    struct ampi_endpoint *endpoint = comm->endpoint;

    if (!endpoint || !ampi_endpoint_is_direct(comm))
        return;
    ult_lock_take(&endpoint->lock);
    if (ampi_endpoint_is_direct(comm)) {
        atomic_fetch_or(&endpoint->watched, AMPI_ENDPOINT_LEFT);
        ult_inbox_drain(&endpoint->inbox);
        atomic_store_explicit(&comm->is_direct, false, memory_order_release);
    }
    ult_lock_give(&endpoint->lock);
}

struct ult_ring *ampi_endpoint_ring_to(struct ampi_comm *comm, int dest)
{
    struct ult_ring **ring = &comm->endpoint->rings_to[dest];
    static struct ult_ring *const no_answers = NULL; /* any thread may empty the ring */
    struct ampi_endpoint *to;

    if (BASE_LIKELY(*ring != NULL))
        return *ring;
    to = comm->peer->handles[dest].endpoint;
    *ring = ult_ring_create();
    ult_lock_take(&to->lock);
    ult_inbox_add_ring(&to->inbox, *ring, &no_answers);
    ult_lock_give(&to->lock);
    return *ring;
}

void ampi_endpoint_close(struct ampi_comm *comm)
{
    struct ampi_endpoint *endpoint = comm->endpoint;

    if (!endpoint)
        return;
    ampi_endpoint_leave(comm);
    ult_lock_take(&endpoint->requests_lock);
    if (!endpoint->is_closed)
        comm->n_pending += (uint32_t)endpoint->n_private;
    endpoint->is_closed = true;
    ult_lock_give(&endpoint->requests_lock);
}

/* ---- Requests ---- */

static BASE_COLD void add_slab(struct ampi_endpoint *endpoint)
{
    struct ampi_request *slab = base_malloc(SLAB * sizeof *slab, "requests");

    for (int i = SLAB; i-- > 0;) {
        slab[i].magic = AMPI_MAGIC_DEAD;
        slab[i].next = endpoint->free_requests;
        endpoint->free_requests = &slab[i];
    }
}

struct ampi_request *ampi_endpoint_request(struct ampi_comm *comm, const struct ampi_request_kind *kind)
{
    struct ampi_endpoint *endpoint = comm->endpoint;
    struct ampi_request *request;

    ult_lock_take(&endpoint->requests_lock);
    if (BASE_UNLIKELY(!endpoint->free_requests))
        add_slab(endpoint);
    request = endpoint->free_requests;
    endpoint->free_requests = request->next;
    endpoint->n_private++;
    ult_lock_give(&endpoint->requests_lock);
    ampi_request_init_on_stack(request, comm->owner, kind, comm);
    request->whole = NULL;
    ampi_status_set_empty(&request->status);
    return request;
}

bool ampi_endpoint_retire(struct ampi_comm *comm, struct ampi_request *first, struct ampi_request *last,
                          int n)
{
    struct ampi_endpoint *endpoint = comm->endpoint;
    bool is_closed;

    ult_lock_take(&endpoint->requests_lock);
    is_closed = endpoint->is_closed;
    if (!is_closed) {
        last->next = endpoint->free_requests;
        endpoint->free_requests = first;
        endpoint->n_private -= n;
    }
    ult_lock_give(&endpoint->requests_lock);
    return !is_closed;
}

/* ---- Completion ---- */

bool ampi_endpoint_poll(const void *arg)
{
    const struct ampi_request *request = arg;
    struct ampi_endpoint *endpoint;

    if (ampi_endpoint_is_complete(request))
        return true;
    endpoint = request->comm->endpoint;
    if (!ult_lock_try(&endpoint->lock))
        return false;
    if (ampi_endpoint_is_direct(request->comm))
        ult_inbox_drain(&endpoint->inbox);
    ult_lock_give(&endpoint->lock);
    return ampi_endpoint_is_complete(request);
}

/* A thread that runs ULTs must let the others run. */
bool ampi_endpoint_spin(const struct ampi_request *request)
{
    return ampi_endpoint_poll(request) || (!ult_self() && ult_spin_outside(ampi_endpoint_poll, request));
}

static void handle_complete(struct ult_wakeup *wakeup)
{
    ampi_request_complete(BASE_CONTAINER(wakeup, struct ampi_request, u.p2p.wakeup));
}

void ampi_endpoint_complete_locked(struct ampi_request *request)
{
    if (BASE_LIKELY(ampi_request_is_private(request))) {
        __atomic_store_n(&request->state, AMPI_REQUEST_COMPLETE, __ATOMIC_RELEASE);
        return;
    }
    if (request->kind == &ampi_recv_kind)
        atomic_fetch_sub(&request->comm->endpoint->watched, 1);
    request->u.p2p.wakeup.handle = handle_complete;
    ult_post_wakeup(request->owner->ult.pe, &request->u.p2p.wakeup);
}

void ampi_endpoint_complete(struct ampi_request *request)
{
    struct ampi_endpoint *endpoint = request->comm->endpoint;

    ult_lock_take(&endpoint->lock);
    ampi_endpoint_complete_locked(request);
    ult_lock_give(&endpoint->lock);
}

void ampi_endpoint_publish_on_stack(struct ampi_request *request)
{
    struct ampi_endpoint *endpoint = request->comm->endpoint;

    ult_lock_take(&endpoint->lock);
    if (request->kind == &ampi_private_send_kind) {
        request->kind = &ampi_send_kind;
    } else {
        request->kind = &ampi_recv_kind;
        if (request->state == AMPI_REQUEST_ACTIVE && ampi_endpoint_is_direct(request->comm)) {
            atomic_fetch_add(&endpoint->watched, 1);
            ult_inbox_drain(&endpoint->inbox);
        }
    }
    ult_lock_give(&endpoint->lock);
}

void ampi_endpoint_publish(struct ampi_request *request)
{
    struct ampi_endpoint *endpoint;

    if (!ampi_request_is_private(request))
        return;
    endpoint = request->comm->endpoint;
    ult_lock_take(&endpoint->requests_lock);
    endpoint->n_private--;
    if (!endpoint->is_closed)
        request->comm->n_pending++;
    ult_lock_give(&endpoint->requests_lock);
    request->owner->n_requests++;
    ampi_endpoint_publish_on_stack(request);
}

/* ---- Counting ---- */

void ampi_endpoint_count(struct ampi_comm *comm, int dest)
{
    int route =
        comm->peer->layout->pe_of[dest] == comm->owner->pe_id ? AMPI_ROUTE_SAME_PE : AMPI_ROUTE_OTHER_PE;
    _Atomic uint64_t *n = &comm->endpoint->n_sent[route];

    /* The threads of a stream call one after another. */
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1, memory_order_relaxed);
}

uint64_t ampi_endpoints_sent(const struct ampi_rank *rank, enum ampi_route route)
{
    uint64_t n = 0;

    pthread_mutex_lock(&all_lock);
    for (struct ampi_endpoint *endpoint = all; endpoint; endpoint = endpoint->next)
        if (endpoint->owner == rank)
            n += atomic_load_explicit(&endpoint->n_sent[route], memory_order_relaxed);
    pthread_mutex_unlock(&all_lock);
    return n;
}
