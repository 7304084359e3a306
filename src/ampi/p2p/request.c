/* SPDX-License-Identifier: BSD-3-Clause
 *
 * request.c: the pool of requests, completion, and blocking until completion. See request.h for the states.
 */
#include "ampi/p2p/request.h"

#include "ampi/p2p/p2p_watch.h"
#include "base/log.h"

/* The fewest and most requests made at once when a rank's pool is empty: as many as the rank has, within these
 * limits. A million ranks with two receives each need little memory, and pools grow quickly. */
#define SLAB_MIN 2
#define SLAB_MAX 64

static const struct ampi_request_kind done_kind = {.name = "completed send"};

struct ampi_request ampi_request_done = {
    .magic = AMPI_MAGIC_REQUEST,
    .state = AMPI_REQUEST_COMPLETE,
    .kind = &done_kind,
    .status = {.MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG, .MPI_ERROR = MPI_SUCCESS},
};

static BASE_COLD void add_slab(struct ampi_rank *self)
{
    int n = self->n_requests < SLAB_MIN   ? SLAB_MIN
            : self->n_requests < SLAB_MAX ? self->n_requests
                                          : SLAB_MAX;
    struct ampi_request_slab *slab =
        base_malloc(sizeof *slab + (size_t)n * sizeof *slab->requests, "requests");

    slab->n = n;
    for (int i = n; i-- > 0;) {
        slab->requests[i].magic = AMPI_MAGIC_DEAD;
        slab->requests[i].next = self->free_requests;
        self->free_requests = &slab->requests[i];
    }
    slab->next = self->request_slabs;
    self->request_slabs = slab;
}

static inline void init(struct ampi_request *request, struct ampi_rank *self,
                        const struct ampi_request_kind *kind, struct ampi_comm *comm, bool is_persistent)
{
    request->magic = AMPI_MAGIC_REQUEST;
    request->state = is_persistent ? AMPI_REQUEST_INACTIVE : AMPI_REQUEST_ACTIVE;
    request->awaited_by = NULL;
    request->is_persistent = is_persistent;
    request->kind = kind;
    request->owner = self;
    request->comm = comm;
    request->on_complete = NULL;
}

struct ampi_request *ampi_request_create(struct ampi_rank *self, const struct ampi_request_kind *kind,
                                         struct ampi_comm *comm, bool is_persistent)
{
    struct ampi_request *request;

    if (BASE_UNLIKELY(!self->free_requests))
        add_slab(self);
    request = self->free_requests;
    self->free_requests = request->next;
    self->n_requests++;
    init(request, self, kind, comm, is_persistent);
    request->whole = NULL;
    ampi_status_set_empty(&request->status);
    if (comm)
        comm->n_pending++;
    return request;
}

void ampi_request_init_on_stack(struct ampi_request *request, struct ampi_rank *self,
                                const struct ampi_request_kind *kind, struct ampi_comm *comm)
{
    init(request, self, kind, comm, false);
}

/* Completes a request for which no ULT waits in the PE. A private request (endpoint.h) may be freed as soon
 * as it is COMPLETE, because its thread polls it from outside. */
static inline void complete_alone(struct ampi_request *request)
{
    ampi_request_complete_fn on_complete = request->on_complete;

    __atomic_store_n(&request->state, AMPI_REQUEST_COMPLETE, __ATOMIC_RELEASE);
    if (BASE_UNLIKELY(on_complete != NULL))
        on_complete(request, request->whole);
}

void ampi_request_complete(struct ampi_request *request)
{
    struct ult *waiter = request->awaited_by;

    if (!waiter) {
        complete_alone(request);
        return;
    }
    request->state = AMPI_REQUEST_COMPLETE;
    request->awaited_by = NULL;
    if (--waiter->wait_left == 0)
        ult_ready(waiter);
    if (BASE_UNLIKELY(request->on_complete != NULL))
        request->on_complete(request, request->whole);
}

/* The place of the action that follows completion and its report. */
static ampi_request_complete_fn *action_of(struct ampi_request *request)
{
    return request->on_complete == ampi_p2p_completed ? &request->then : &request->on_complete;
}

void ampi_request_attach(struct ampi_request *whole, struct ampi_request *part,
                         ampi_request_complete_fn on_complete)
{
    if (part->state == AMPI_REQUEST_COMPLETE) {
        on_complete(part, whole);
        return;
    }
    part->whole = whole;
    *action_of(part) = on_complete;
}

static void destroy_abandoned(struct ampi_request *request, struct ampi_request *whole)
{
    (void)whole;
    if (request->kind->finish)
        request->kind->finish(request);
    ampi_p2p_drop_error(request);
    ampi_request_destroy(request);
}

void ampi_request_abandon(struct ampi_request *request)
{
    *action_of(request) = destroy_abandoned;
}

void ampi_request_await(struct ampi_request *request)
{
    struct ult *self;

    if (request->state == AMPI_REQUEST_COMPLETE)
        return;
    self = ult_self();
    request->awaited_by = self;
    self->wait_left = 1;
    self->wait_for = &request;
    self->n_wait_for = 1;
    ult_suspend();
    self->n_wait_for = 0;
    BASE_ASSERT(request->state == AMPI_REQUEST_COMPLETE);
}

/* Removes the ULT's mark from all requests that have not completed. */
static void unmark(struct ampi_request *const *requests, int n_requests, const struct ult *self)
{
    for (int i = 0; i < n_requests; i++)
        if (requests[i] && requests[i]->awaited_by == self)
            requests[i]->awaited_by = NULL;
}

bool ampi_request_await_n(struct ampi_request *const *requests, int n_requests, int n)
{
    struct ult *self = ult_self();
    int n_marked = 0;

    for (int i = 0; i < n_requests; i++) {
        if (!requests[i] || !ampi_request_is_active(requests[i]))
            continue;
        if (BASE_UNLIKELY(requests[i]->awaited_by != NULL)) {
            unmark(requests, i, self);
            return false;
        }
        requests[i]->awaited_by = self;
        n_marked++;
    }
    if (n > n_marked)
        n = n_marked;
    if (n > 0) {
        self->wait_left = (unsigned)n;
        self->wait_for = requests;
        self->n_wait_for = n_requests;
        ult_suspend();
        self->n_wait_for = 0;
    }
    if (n < n_marked) /* completing has removed the mark from the others */
        unmark(requests, n_requests, self);
    return true;
}

void ampi_request_destroy(struct ampi_request *request)
{
    struct ampi_comm *comm = request->comm;

    if (request == &ampi_request_done)
        return;
    if (request->kind->release)
        request->kind->release(request);
    request->magic = AMPI_MAGIC_DEAD;
    request->state = AMPI_REQUEST_INACTIVE; /* if the call has the handle twice */
    request->next = request->owner->free_requests;
    request->owner->free_requests = request;
    request->owner->n_requests--;
    if (comm)
        ampi_comm_drop_pending(comm);
}

int ampi_request_retire(MPI_Request *handle, struct ampi_request *request, MPI_Status *status)
{
    int error;

    if (BASE_UNLIKELY(request->kind->query))
        request->status.MPI_ERROR = request->kind->query(request, &request->status);
    error = request->status.MPI_ERROR;
    if (BASE_UNLIKELY(request->kind->finish)) {
        int finish_error = request->kind->finish(request);
        error = error ? error : finish_error;
    }
    ampi_status_hand_out(status, &request->status);
    if (request->is_persistent) {
        request->state = AMPI_REQUEST_INACTIVE;
        return error;
    }
    ampi_request_destroy(request);
    *handle = MPI_REQUEST_NULL;
    return error;
}

int ampi_request_raise_invalid(MPI_Request handle)
{
    return ampi_raise_self(
        MPI_ERR_REQUEST, "%p is not a valid request, or has been freed or completed already", (void *)handle);
}

int ampi_request_raise_awaited(void)
{
    return ampi_raise_self(MPI_ERR_REQUEST,
                           "another thread waits for the request already, or it is in the array twice");
}
