/* SPDX-License-Identifier: BSD-3-Clause
 *
 * prequest_api.c: MPIX_Prequest_create, MPIX_Prequest_free and MPIX_Pbuf_prepare (heddle_mpi_prequest.h).
 */
#include <string.h>

#include "ampi/object/gate.h"
#include "ampi/p2p/partitioned/partitioned.h"
#include "base/log.h"
#include "gpu/copy/pool.h"

#pragma GCC visibility push(default)
#include "mpi-ext.h"
#pragma GCC visibility pop

_Static_assert(sizeof(struct HEDDLE_Prequest) == 128, "a line, which a kernel reads at once");
_Static_assert((int)AMPI_MAGIC_PREQUEST == (int)HEDDLE_PREQUEST_MAGIC, "a prequest is a handle");

/* ---- Creating and freeing ---- */

/* Finds a partitioned request that is not active; raises an error if there is none. */
static int find_inactive(MPI_Request handle, struct ampi_request **request_out)
{
    struct ampi_request *request = ampi_request_of(handle);

    if (!ampi_request_is_partitioned(request))
        return ampi_raise_self(MPI_ERR_REQUEST, "the request is not a partitioned one");
    if (request->state != AMPI_REQUEST_INACTIVE)
        return ampi_raise(request->comm, MPI_ERR_REQUEST, "the partitioned request is active");
    *request_out = request;
    return MPI_SUCCESS;
}

/* Publishes what the receive needs to know about this send. */
static void offer_pair(const struct ampi_partitioned *send, const struct ampi_prequest *prequest)
{
    struct ampi_pair *pair = send->pair;
    bool can =
        ampi_partitioned_bytes(send) > 0 && ampi_type_is_block(send->type, send->count) &&
        gpu_watch_can_use(prequest->watch.device, ampi_partitioned_first(send), ampi_partitioned_bytes(send));

    if (atomic_load_explicit(&pair->is_wanted, memory_order_relaxed))
        return;
    pair->device = can ? prequest->watch.device : -1;
    pair->n_partitions = send->n_partitions;
    pair->part_bytes = prequest->shared->part_bytes;
    atomic_store_explicit(&pair->is_wanted, true, memory_order_release);
}

static void fill_shared(struct ampi_prequest *prequest)
{
    const struct ampi_partitioned *end = prequest->request->u.extra;
    struct HEDDLE_Prequest *shared = prequest->shared;

    memset(shared, 0, prequest->shared_bytes);
    *shared = (struct HEDDLE_Prequest){.size = (uint32_t)end->n_partitions |
                                               (end->is_send ? HEDDLE_PREQUEST_SEND : 0),
                                       .from = ampi_partitioned_first(end),
                                       .host = prequest};
    if (end->n_partitions > 0)
        shared->part_bytes = ampi_partitioned_bytes(end) / (size_t)end->n_partitions;
    shared->received = ampi_prequest_round(end); /* all data of the last round */
}

static void unmake(struct ampi_prequest *prequest)
{
    ampi_prequest_free_copies(prequest);
    free(prequest->is_gathered);
    ampi_marks_destroy(prequest);
    gpu_staging_put(prequest->shared, prequest->shared_bytes);
    gpu_watch_destroy(&prequest->watch);
    free(prequest);
}

static int make(struct ampi_request *request)
{
    struct ampi_partitioned *end = request->u.extra;
    struct ampi_prequest *made = base_calloc(1, sizeof *made, "a prequest");
    int error = gpu_watch_create(&made->watch);

    if (error) {
        free(made);
        return ampi_raise(request->comm, MPI_ERR_OTHER, "%s", gpu_error_text(error));
    }
    made->watch.look = ampi_prequest_poll;
    made->request = request;
    made->n_copies = end->n_partitions < HEDDLE_PREQUEST_COPIES ? end->n_partitions : HEDDLE_PREQUEST_COPIES;
    made->n_copies = made->n_copies > 0 ? made->n_copies : 1;
    made->shared_bytes = HEDDLE_PREQUEST_COPIES * sizeof *made->shared + ampi_marks_pinned_bytes(end);
    made->shared = gpu_staging_get(made->shared_bytes);
    if (!made->shared) {
        gpu_watch_destroy(&made->watch);
        free(made);
        return ampi_raise(request->comm, MPI_ERR_NO_MEM, "no pinned memory for %d partitions",
                          end->n_partitions);
    }
    fill_shared(made);
    if (end->is_send)
        made->is_gathered =
            base_calloc((size_t)end->n_partitions + 1, sizeof *made->is_gathered, "a prequest");
    if ((error = ampi_marks_create(made))) {
        unmake(made);
        return ampi_raise(request->comm, MPI_ERR_OTHER, "%s", gpu_error_text(error));
    }
    for (int i = 1; i < HEDDLE_PREQUEST_COPIES; i++)
        made->shared[i] = made->shared[0];
    end->prequest = made;
    ampi_prequest_set_state(made, false, false);
    if (end->is_send && end->pair)
        offer_pair(end, made);
    return MPI_SUCCESS;
}

void ampi_prequest_destroy(struct ampi_prequest *prequest)
{
    if (!prequest)
        return;
    ampi_prequest_set_magic(prequest, AMPI_MAGIC_DEAD);
    unmake(prequest);
}

static int create(MPI_Request handle, MPIX_Prequest *prequest)
{
    struct ampi_request *request = NULL;
    struct ampi_partitioned *end;
    int error;

    if (!prequest)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the prequest is NULL");
    if ((error = find_inactive(handle, &request)))
        return error;
    if (!gpu_is_used())
        return ampi_raise(request->comm, MPI_ERR_OTHER, "CUDA is not in use in this process");
    end = request->u.extra;
    if (end->prequest && end->prequest->shared->magic == AMPI_MAGIC_PREQUEST)
        return ampi_raise(request->comm, MPI_ERR_REQUEST, "the request has a prequest already");
    if (!end->prequest && (error = make(request)))
        return error;
    end->prequest->shared->fault = 0;
    ampi_prequest_set_magic(end->prequest, AMPI_MAGIC_PREQUEST);
    *prequest = end->prequest->shared;
    return MPI_SUCCESS;
}

int MPIX_Prequest_create(MPI_Request request, MPIX_Prequest *prequest)
{
    struct ult *gate = ampi_gate_pass("MPIX_Prequest_create", __builtin_return_address(0));
    int error;

    ampi_enter("MPIX_Prequest_create");
    error = create(request, prequest);
    ampi_gate_leave_waiting(gate);
    return error;
}

static int free_prequest(MPIX_Prequest *handle)
{
    struct ampi_prequest *prequest;
    char text[128];
    int error;

    if (!handle)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the prequest is NULL");
    if (!ampi_handle_has_magic(*handle, AMPI_MAGIC_PREQUEST))
        return ampi_raise_self(MPI_ERR_REQUEST, "%p is not a valid MPIX_Prequest, or has been freed",
                               (void *)*handle);
    prequest = (*handle)->host;
    if (prequest->request->state != AMPI_REQUEST_INACTIVE)
        return ampi_raise(prequest->request->comm, MPI_ERR_REQUEST,
                          "the request of the prequest is active: wait for it first");
    ampi_prequest_set_magic(prequest, AMPI_MAGIC_DEAD);
    *handle = MPIX_PREQUEST_NULL;
    error = ampi_prequest_take_fault(prequest, text, sizeof text);
    return error ? ampi_raise(prequest->request->comm, error, "%s", text) : MPI_SUCCESS;
}

int MPIX_Prequest_free(MPIX_Prequest *prequest)
{
    struct ult *gate = ampi_gate_pass("MPIX_Prequest_free", __builtin_return_address(0));
    int error;

    ampi_enter("MPIX_Prequest_free");
    error = free_prequest(prequest);
    ampi_gate_leave(gate);
    return error;
}

/* ---- MPIX_Pbuf_prepare ---- */

static int find_active(MPI_Request handle, struct ampi_request **request_out)
{
    struct ampi_request *request = ampi_request_of(handle);

    if (!ampi_request_is_partitioned(request))
        return ampi_raise_self(MPI_ERR_REQUEST, "the request is not a partitioned one");
    if (request->state == AMPI_REQUEST_INACTIVE)
        return ampi_raise(request->comm, MPI_ERR_REQUEST, "the partitioned request has not been started");
    *request_out = request;
    return MPI_SUCCESS;
}

static int prepare(MPI_Request handle)
{
    struct ampi_request *request = NULL;
    const struct ampi_partitioned *end;
    struct ampi_prequest *prequest;
    int error = find_active(handle, &request);

    if (error)
        return error;
    end = request->u.extra;
    prequest = end->prequest;
    if (!end->is_send || !prequest || !prequest->is_watched)
        return MPI_SUCCESS;
    ampi_prequest_learn(prequest);
    if (!prequest->is_known) {
        struct ampi_preparing self = {prequest->preparing, ult_self()};
        prequest->preparing = &self;
        ult_suspend();
    }
    return MPI_SUCCESS;
}

int MPIX_Pbuf_prepare(MPI_Request request)
{
    struct ult *gate = ampi_gate_pass("MPIX_Pbuf_prepare", __builtin_return_address(0));
    int error;

    ampi_enter("MPIX_Pbuf_prepare");
    error = prepare(request);
    ampi_gate_leave(gate);
    return error;
}

static int prepare_all(int count, MPI_Request handles[])
{
    struct ampi_request *request;
    int error = MPI_SUCCESS;

    if (count < 0)
        return ampi_raise_self(MPI_ERR_COUNT, "the count of requests %d is negative", count);
    if (count > 0 && !handles)
        return ampi_raise_self(MPI_ERR_REQUEST, "the array of %d requests is NULL", count);
    for (int i = 0; i < count && !error; i++)
        error = find_active(handles[i], &request);
    for (int i = 0; i < count && !error; i++)
        error = prepare(handles[i]);
    return error;
}

int MPIX_Pbuf_prepareall(int count, MPI_Request array_of_requests[])
{
    struct ult *gate = ampi_gate_pass("MPIX_Pbuf_prepareall", __builtin_return_address(0));
    int error;

    ampi_enter("MPIX_Pbuf_prepareall");
    error = prepare_all(count, array_of_requests);
    ampi_gate_leave(gate);
    return error;
}
