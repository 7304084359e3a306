/* SPDX-License-Identifier: BSD-3-Clause
 *
 * works.c: tells when work of the program's is done that no rank waits for in CUDA; see gpu.h.
 *
 * Each is an event that the PE asks the driver about, at most once in ASK_NS. An event of our own is recorded
 * behind the work of a stream.
 */
#include "gpu/stream_api.h"
#include "gpu/waits.h"

#define ASK_NS 1000

static void add(struct gpu_work *work)
{
    struct gpu_pe *pe = gpu_pe_self();

    work->ask_at_ns = 0;
    work->next = pe->works;
    pe->works = work;
    pe->source.pending++;
}

/* The context of a stream; NULL: the current one is. */
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
        work->event = event;
    return error;
}

int gpu_work_of_stream(struct gpu_work *work, void *handle)
{
    struct gpu_call call;
    CUcontext context, before;
    int error = gpu_driver_check(gpu_call_begin(&call, handle, false, GPU_CALL_JOIN), "cuStreamQuery");

    if (error)
        return error;
    if (gpu_stream_is_captured(call.stream, NULL))
        return gpu_driver_note(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuEventRecord");
    work->is_own_event = true;
    context = context_of(call.stream);
    if (!context) {
        error = record(work, call.stream);
    } else {
        error = gpu_context_enter(context, &before);
        if (!error) {
            error = record(work, call.stream);
            gpu_context_leave(context, before);
        }
    }
    if (!error)
        add(work);
    return error;
}

int gpu_work_of_event(struct gpu_work *work, void *event)
{
    CUresult result = gpu_driver.cuEventQuery(event);

    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
        return gpu_driver_note((int)result, "cuEventQuery");
    gpu_batch_start_now();
    work->is_own_event = false;
    work->event = event;
    add(work);
    return 0;
}

/* done may begin others, and free the work. */
int gpu_works_poll(struct gpu_pe *pe)
{
    uint64_t now_ns = ult_now_ns();
    struct gpu_work *asked = pe->works, *next;
    int n_done = 0;

    pe->works = NULL;
    for (struct gpu_work *work = asked; work; work = next) {
        CUresult result = CUDA_ERROR_NOT_READY;
        next = work->next;
        if (work->ask_at_ns <= now_ns)
            result = gpu_driver.cuEventQuery(work->event);
        if (result == CUDA_ERROR_NOT_READY) {
            if (work->ask_at_ns <= now_ns)
                work->ask_at_ns = now_ns + ASK_NS;
            work->next = pe->works;
            pe->works = work;
            continue;
        }
        if (work->is_own_event)
            gpu_driver.cuEventDestroy(work->event);
        pe->source.pending--;
        n_done++;
        work->done(work, gpu_driver_check(result, "cuEventQuery"));
    }
    return n_done;
}
