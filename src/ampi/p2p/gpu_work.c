/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_work.c: GPU work as an MPI operation: AMPI_GPU_Iinvoke and similar functions (mpi-ext.h).
 */
#include "ampi/datatype/buffer.h"
#include "ampi/object/error.h"
#include "ampi/object/gate.h"
#include "ampi/p2p/request.h"
#include "base/log.h"

#pragma GCC visibility push(default)
#include "mpi-ext.h"
#pragma GCC visibility pop

/* The state behind such a request. */
struct pending_work {
    struct gpu_work work;
    struct ampi_request *request;
};

static void work_done(struct gpu_work *work, int error)
{
    struct pending_work *pending = BASE_CONTAINER(work, struct pending_work, work);
    struct ampi_request *request = pending->request;

    if (BASE_UNLIKELY(error))
        request->status.MPI_ERROR = ampi_device_error(request->owner, error);
    ampi_request_complete(request);
}

static void release(struct ampi_request *request)
{
    free(request->u.extra);
}

static const struct ampi_request_kind work_kind = {.name = "GPU work", .release = release};

static int begin(const char *call, int (*function)(struct gpu_work *, void *), void *what,
                 struct ampi_request **request_out)
{
    struct ampi_rank *self = ampi_enter(call);
    struct pending_work *pending;
    int error;

    if (!gpu_is_used())
        return ampi_raise_self(MPI_ERR_OTHER, "CUDA is not in use in this process");
    pending = base_calloc(1, sizeof *pending, "GPU work");
    pending->work.done = work_done;
    error = function(&pending->work, what);
    if (error) {
        free(pending);
        return ampi_raise_self(MPI_ERR_OTHER, "%s", gpu_error_text(error));
    }
    pending->request = ampi_request_create(self, &work_kind, NULL, false);
    pending->request->u.extra = pending;
    *request_out = pending->request;
    return MPI_SUCCESS;
}

static int start(const char *call, int (*function)(struct gpu_work *, void *), void *what,
                 MPI_Request *request)
{
    struct ampi_request *made;
    int error;

    if (!request) {
        ampi_enter(call);
        return ampi_raise_self(MPI_ERR_ARG, "request is NULL");
    }
    error = begin(call, function, what, &made);
    if (error == MPI_SUCCESS)
        *request = (MPI_Request)made;
    return error;
}

int AMPI_GPU_Iinvoke(struct CUstream_st *stream, MPI_Request *request)
{
    struct ult *gate = ampi_gate_pass("AMPI_GPU_Iinvoke", __builtin_return_address(0));
    int error = start("AMPI_GPU_Iinvoke", gpu_work_of_stream, stream, request);

    ampi_gate_leave(gate);
    return error;
}

int AMPI_GPU_Ievent(struct CUevent_st *event, MPI_Request *request)
{
    struct ult *gate = ampi_gate_pass("AMPI_GPU_Ievent", __builtin_return_address(0));
    int error = start("AMPI_GPU_Ievent", gpu_work_of_event, event, request);

    ampi_gate_leave(gate);
    return error;
}

static int invoke(struct CUstream_st *stream)
{
    struct ampi_request *made;
    const char *text;
    int error = begin("AMPI_GPU_Invoke", gpu_work_of_stream, stream, &made);

    if (error != MPI_SUCCESS)
        return error;
    ampi_request_await(made);
    error = made->status.MPI_ERROR;
    ampi_request_destroy(made);
    if (BASE_LIKELY(error == MPI_SUCCESS))
        return MPI_SUCCESS;
    text = ampi_device_error_text(ampi_self(), error);
    return ampi_raise_self(error, "%s", text ? text : "the work has failed");
}

int AMPI_GPU_Invoke(struct CUstream_st *stream)
{
    struct ult *gate = ampi_gate_pass("AMPI_GPU_Invoke", __builtin_return_address(0));
    int error = invoke(stream);

    ampi_gate_leave(gate);
    return error;
}
