/* SPDX-License-Identifier: BSD-3-Clause
 *
 * request.c: the pool of requests, completion, and blocking until completion. See request.h for the states.
 */
#include "ampi/p2p/request.h"

#include "base/log.h"

/* Requests that are made at a time when a rank's pool is empty. */
#define REQUESTS_PER_SLAB 16

static const struct ampi_request_kind done_kind = {.name = "completed send"};

struct ampi_request ampi_request_done = {
    .magic = AMPI_MAGIC_REQUEST,
    .state = AMPI_REQUEST_COMPLETE,
    .kind = &done_kind,
    .status = {.MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG, .MPI_ERROR = MPI_SUCCESS},
};

static BASE_COLD void add_slab(struct ampi_rank *self)
{
    struct ampi_request *slab = base_malloc(REQUESTS_PER_SLAB * sizeof *slab, "requests");

    for (int i = REQUESTS_PER_SLAB; i-- > 0;) {
        slab[i].magic = AMPI_MAGIC_DEAD;
        slab[i].next = self->free_requests;
        self->free_requests = &slab[i];
    }
}

static inline void init(struct ampi_request *request, struct ampi_rank *self,
                        const struct ampi_request_kind *kind, struct ampi_comm *comm, bool is_persistent)
{
    request->magic = AMPI_MAGIC_REQUEST;
    request->state = is_persistent ? AMPI_REQUEST_INACTIVE : AMPI_REQUEST_ACTIVE;
    request->is_awaited = false;
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

void ampi_request_complete(struct ampi_request *request)
{
    request->state = AMPI_REQUEST_COMPLETE;
    if (request->is_awaited) {
        request->is_awaited = false;
        if (--request->owner->wait_left == 0)
            ult_ready(&request->owner->ult);
    }
    if (BASE_UNLIKELY(request->on_complete != NULL))
        request->on_complete(request, request->whole);
}

void ampi_request_attach(struct ampi_request *whole, struct ampi_request *part,
                         ampi_request_complete_fn on_complete)
{
    if (part->state == AMPI_REQUEST_COMPLETE) {
        on_complete(part, whole);
        return;
    }
    part->whole = whole;
    part->on_complete = on_complete;
}

static void destroy_abandoned(struct ampi_request *request, struct ampi_request *whole)
{
    (void)whole;
    if (request->kind->finish)
        request->kind->finish(request);
    ampi_request_destroy(request);
}

void ampi_request_abandon(struct ampi_request *request)
{
    request->on_complete = destroy_abandoned;
}

void ampi_request_await(struct ampi_request *request)
{
    if (request->state == AMPI_REQUEST_COMPLETE)
        return;
    request->is_awaited = true;
    request->owner->wait_left = 1;
    request->owner->wait_for = &request;
    request->owner->n_wait_for = 1;
    ult_suspend();
    request->owner->n_wait_for = 0;
    BASE_ASSERT(request->state == AMPI_REQUEST_COMPLETE);
}

void ampi_request_await_n(struct ampi_request *const *requests, int n_requests, int n)
{
    struct ampi_rank *self = ampi_self();
    int n_marked = 0;

    for (int i = 0; i < n_requests; i++)
        if (requests[i] && ampi_request_is_active(requests[i]) && !requests[i]->is_awaited) {
            requests[i]->is_awaited = true;
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
    if (n == n_marked)
        return; /* completing took the mark off each */
    for (int i = 0; i < n_requests; i++)
        if (requests[i] && requests[i]->is_awaited)
            requests[i]->is_awaited = false;
}

void ampi_request_destroy(struct ampi_request *request)
{
    struct ampi_comm *comm = request->comm;

    if (request == &ampi_request_done)
        return;
    if (request->kind->release)
        request->kind->release(request);
    request->magic = AMPI_MAGIC_DEAD;
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
