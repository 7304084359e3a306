/* SPDX-License-Identifier: BSD-3-Clause
 *
 * grequest.c: generalized requests (MPI 5.0, section 13.2): requests for operations of the program.
 */
#include "ampi/p2p/request.h"
#include "base/log.h"

/* The state behind a generalized request. */
struct grequest {
    MPI_Grequest_query_function *query_fn;
    MPI_Grequest_free_function *free_fn;
    MPI_Grequest_cancel_function *cancel_fn;
    void *extra_state;
};

static int query(struct ampi_request *request, MPI_Status *status)
{
    const struct grequest *state = request->u.extra;
    int error;

    ampi_status_set_empty(status);
    error = state->query_fn ? state->query_fn(state->extra_state, status) : MPI_SUCCESS;
    return error;
}

static int cancel(struct ampi_request *request)
{
    const struct grequest *state = request->u.extra;

    return state->cancel_fn ? state->cancel_fn(state->extra_state, request->state == AMPI_REQUEST_COMPLETE)
                            : MPI_SUCCESS;
}

static int finish(struct ampi_request *request)
{
    const struct grequest *state = request->u.extra;

    return state->free_fn ? state->free_fn(state->extra_state) : MPI_SUCCESS;
}

static void release(struct ampi_request *request)
{
    free(request->u.extra);
}

static const struct ampi_request_kind grequest_kind = {
    .name = "generalized request",
    .cancel = cancel,
    .query = query,
    .finish = finish,
    .release = release,
};

AMPI_EXPORT(Grequest_start);
int PMPI_Grequest_start(MPI_Grequest_query_function *query_fn, MPI_Grequest_free_function *free_fn,
                        MPI_Grequest_cancel_function *cancel_fn, void *extra_state, MPI_Request *request)
{
    struct ampi_rank *self = ampi_enter("MPI_Grequest_start");
    struct ampi_request *made;
    struct grequest *state;

    if (BASE_UNLIKELY(!request))
        return ampi_raise_self(MPI_ERR_ARG, "the address of the request is NULL");
    state = base_malloc(sizeof *state, "a generalized request");
    *state = (struct grequest){query_fn, free_fn, cancel_fn, extra_state};
    made = ampi_request_create(self, &grequest_kind, NULL, false);
    made->u.extra = state;
    *request = (MPI_Request)made;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Grequest_complete);
int PMPI_Grequest_complete(MPI_Request request)
{
    struct ampi_request *object = ampi_request_of(request);

    ampi_enter("MPI_Grequest_complete");
    if (BASE_UNLIKELY(!object || object->kind != &grequest_kind || !ampi_request_is_active(object)))
        return ampi_raise_self(MPI_ERR_REQUEST, "the request is not an active generalized request");
    ampi_request_complete(object);
    return MPI_SUCCESS;
}
