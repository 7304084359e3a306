/* SPDX-License-Identifier: BSD-3-Clause
 *
 * context_events.c: events of a whole context, which concern the calling rank's streams in it.
 *
 * cuCtxRecordEvent records after the current work of all the rank's streams, by way of a stream that waits
 * for each; cuCtxWaitEvent makes all of them wait, and streams that are created later.
 */
#include "gpu/rank/guard.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/stream_stock.h"
#include "gpu/rank/waits.h"

#define real gpu_stream_real

/* ---- Each stream of a face; the face's context is current ---- */

static CUresult join(struct gpu_face *face, struct gpu_stream *stream)
{
    CUresult result = gpu_streams_mark(stream);

    return result == CUDA_SUCCESS ? gpu_driver.cuStreamWaitEvent(face->joined, stream->mark, 0) : result;
}

static CUresult join_all(struct gpu_face *face)
{
    CUresult result = CUDA_SUCCESS;

    for (struct gpu_stream *i = face->streams; i && result == CUDA_SUCCESS; i = i->next)
        result = join(face, i);
    if (face->base.stream && result == CUDA_SUCCESS)
        result = join(face, &face->base);
    if (face->thread.stream && result == CUDA_SUCCESS)
        result = join(face, &face->thread);
    for (struct gpu_orphan *i = face->orphans; i && result == CUDA_SUCCESS; i = i->next)
        result = gpu_driver.cuStreamWaitEvent(face->joined, i->event, 0);
    return result;
}

static CUresult record(struct gpu_face *face, CUevent event)
{
    CUresult result = join_all(face);

    return result == CUDA_SUCCESS ? gpu_driver.cuEventRecord(event, face->joined) : result;
}

static CUresult wait_all(struct gpu_face *face, CUevent event)
{
    CUresult result = gpu_driver.cuStreamWaitEvent(face->joined, event, 0);

    if (result == CUDA_SUCCESS && !face->gate)
        result = gpu_driver.cuEventCreate(&face->gate, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        result = gpu_driver.cuEventRecord(face->gate, face->joined);
    for (struct gpu_stream *i = face->streams; i && result == CUDA_SUCCESS; i = i->next)
        result = gpu_driver.cuStreamWaitEvent(i->stream, event, 0);
    if (face->base.stream && result == CUDA_SUCCESS)
        result = gpu_driver.cuStreamWaitEvent(face->base.stream, event, 0);
    if (face->thread.stream && result == CUDA_SUCCESS)
        result = gpu_driver.cuStreamWaitEvent(face->thread.stream, event, 0);
    return result;
}

/* ---- The functions ---- */

/* Lock held. */
static CUresult call_face(struct gpu_rank_streams *rank, struct gpu_face *face, CUevent event,
                          CUresult (*function)(struct gpu_face *, CUevent))
{
    CUresult result = CUDA_SUCCESS;
    CUcontext before;

    if (rank->n_captures > 0 && gpu_streams_are_captured(face, true, true))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (gpu_context_enter(face->context, &before))
        return (CUresult)gpu_driver_last();
    if (!face->joined)
        face->joined = gpu_stock_take(face->context, 0);
    if (!face->joined)
        result = gpu_driver.cuStreamCreateWithPriority(&face->joined, CU_STREAM_NON_BLOCKING, 0);
    if (result == CUDA_SUCCESS)
        result = function(face, event);
    gpu_context_leave(face->context, before);
    return result;
}

/* false: the program created the context itself, or the ranks share their streams. */
static bool call(CUcontext context, CUevent event, CUresult (*function)(struct gpu_face *, CUevent),
                 CUresult *result_out)
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    struct gpu_face *face;

    if (!rank)
        return false;
    gpu_batch_start_now();
    pthread_mutex_lock(&rank->lock);
    face = gpu_streams_face(rank, context);
    if (face)
        *result_out = call_face(rank, face, event, function);
    pthread_mutex_unlock(&rank->lock);
    return face != NULL;
}

CUresult CUDAAPI gpu_api_context_record(CUcontext context, CUevent event)
{
    CUresult result;

    gpu_guard_prepare();
    if (gpu_kept_is_any())
        gpu_kept_pass(GPU_KEPT_ALL, false, GPU_CALLER);
    return call(context, event, record, &result) ? result : real.r_cuCtxRecordEvent(context, event);
}

CUresult CUDAAPI gpu_api_context_wait(CUcontext context, CUevent event)
{
    CUresult result;

    gpu_guard_prepare();
    return call(context, event, wait_all, &result) ? result : real.r_cuCtxWaitEvent(context, event);
}
