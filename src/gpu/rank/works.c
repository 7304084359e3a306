/* SPDX-License-Identifier: BSD-3-Clause
 *
 * works.c: notifications of work of the program for which no rank waits in CUDA. See gpu.h.
 *
 * Each one is an event that the PE queries (waits.h). For the work of a stream the library records its own
 * event after it.
 */
#include "gpu/rank/repeats.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/waits.h"

/* done may begin other work, and free this one. */
static void answered(struct gpu_question *question)
{
    struct gpu_work *work = BASE_CONTAINER(question, struct gpu_work, question);

    if (work->is_own_event)
        gpu_driver.cuEventDestroy(question->event);
    work->done(work, gpu_driver_check((CUresult)question->result, "cuEventQuery"));
}

static void add(struct gpu_work *work, CUevent event)
{
    work->question = (struct gpu_question){.answered = answered, .event = event};
    gpu_wait_ask(&work->question);
}

/* The context of a stream; NULL: the current one. */
static CUcontext context_of(CUstream stream)
{
    CUcontext context = NULL;

    if (stream > CU_STREAM_PER_THREAD && gpu_stream_real.r_cuStreamGetCtx &&
        gpu_stream_real.r_cuStreamGetCtx(stream, &context) != CUDA_SUCCESS)
        return NULL;
    return context;
}

/* The stream's context is current. */
static int record(struct gpu_work *work, CUstream stream)
{
    CUevent event = NULL;
    int error = gpu_call(cuEventCreate, (&event, CU_EVENT_DISABLE_TIMING));

    if (error)
        return error;
    error = gpu_call(cuEventRecord, (event, stream));
    if (error)
        gpu_driver.cuEventDestroy(event);
    else
        add(work, event);
    return error;
}

int gpu_work_of_stream(struct gpu_work *work, void *handle)
{
    struct gpu_call call;
    CUcontext context, before;
    int error;

    gpu_repeats_break();
    error = gpu_driver_check(gpu_call_begin(&call, handle, false, GPU_CALL_JOIN, NULL), "cuStreamQuery");

    if (error)
        return error;
    if (gpu_stream_is_captured(call.stream, NULL))
        return gpu_driver_record(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuEventRecord");
    work->is_own_event = true;
    context = context_of(call.stream);
    if (!context)
        return record(work, call.stream);
    error = gpu_context_enter(context, &before);
    if (!error) {
        error = record(work, call.stream);
        gpu_context_leave(context, before);
    }
    return error;
}

int gpu_work_of_event(struct gpu_work *work, void *event)
{
    CUresult result;

    gpu_repeats_break();
    result = gpu_driver.cuEventQuery(event);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        return gpu_driver_record((int)result, "cuEventQuery");
    gpu_batch_start_now();
    work->is_own_event = false;
    add(work, event);
    return 0;
}
