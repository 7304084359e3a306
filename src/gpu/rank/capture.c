/* SPDX-License-Identifier: BSD-3-Clause
 *
 * capture.c: confines the effects of a rank's stream captures to that rank.
 *
 * During a capture CUDA forbids calls that could disturb it, to the capturing thread or to all threads of
 * the process, depending on the capture mode. Ranks that share a thread or a process would disturb each
 * other this way. Therefore the driver gets relaxed mode for all captures: it forbids nothing, and a
 * capture may end on another thread. As a consequence, calls that CUDA would forbid to the capturing rank
 * itself are not refused.
 */
#include "base/log.h"
#include "gpu/rank/free_gate.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/waits.h"

#define real gpu_stream_real

/* The stream of a call; NULL: it is the legacy default stream, which cannot be captured. */
static CUresult stream_to_capture(CUstream *stream, bool is_per_thread, const void *caller)
{
    struct gpu_call call;
    CUresult result = gpu_call_begin(&call, *stream, is_per_thread, GPU_CALL_ASK, caller);

    if (result == CUDA_SUCCESS && (*stream == CU_STREAM_LEGACY || (*stream == NULL && !is_per_thread)))
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    *stream = call.stream;
    return result;
}

/* Announces a capture that is about to begin: from now on no context is closed (drain.h). */
static void announce(const void *caller)
{
    atomic_fetch_add(&gpu_drain_n_captures, 1);
    gpu_submit_begin(caller);
    gpu_submit_end();
}

/* Counts a capture if it has begun successfully. */
static CUresult count(struct gpu_rank_streams *rank, CUstream origin, CUresult result)
{
    struct gpu_capture *made;

    if (result != CUDA_SUCCESS) {
        atomic_fetch_sub(&gpu_drain_n_captures, 1);
        return result;
    }
    made = base_malloc(sizeof *made, "a capture of a stream");
    made->origin = origin;
    pthread_mutex_lock(&rank->lock);
    made->next = rank->captures;
    rank->captures = made;
    rank->n_captures++;
    pthread_mutex_unlock(&rank->lock);
    return result;
}

void gpu_capture_forget(struct gpu_rank_streams *rank, CUstream origin)
{
    struct gpu_capture **link = &rank->captures, *found;

    while (*link && (*link)->origin != origin)
        link = &(*link)->next;
    found = *link;
    if (!found)
        return;
    *link = found->next;
    free(found);
    rank->n_captures--;
    atomic_fetch_sub(&gpu_drain_n_captures, 1);
}

/* After gpu_gate_capture_begins. Streams that are destroyed before their captures end go on counting. */
static CUresult count_of_process(CUresult result)
{
    if (result != CUDA_SUCCESS)
        atomic_fetch_sub(&gpu_gate_n_captures, 1);
    return result;
}

static bool is_mode(CUstreamCaptureMode mode)
{
    return mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
           mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

/* A wrong mode is left for the driver to refuse. */
static CUstreamCaptureMode relaxed(CUstreamCaptureMode mode)
{
    return is_mode(mode) ? CU_STREAM_CAPTURE_MODE_RELAXED : mode;
}

/* mapped: the driver's function of this kind for a mapped stream, whose NULL no longer means a default stream. */
#define BEGIN(ours, twin, function, mapped, parameters, arguments, mapped_arguments)                \
    CUresult CUDAAPI ours parameters                                                                \
    {                                                                                               \
        struct gpu_rank_streams *rank;                                                              \
        CUresult result;                                                                            \
        gpu_guard_prepare();                                                                        \
        if (gpu_kept_is_any())                                                                      \
            gpu_kept_pass(stream, twin, GPU_CALLER);                                                \
        rank = gpu_streams_of_self();                                                               \
        if (!rank) {                                                                                \
            gpu_gate_capture_begins();                                                              \
            return count_of_process(real.function arguments);                                       \
        }                                                                                           \
        result = stream_to_capture(&stream, twin, GPU_CALLER);                                      \
        if (result == CUDA_SUCCESS)                                                                 \
            announce(GPU_CALLER);                                                                   \
        return result != CUDA_SUCCESS ? result : count(rank, stream, real.mapped mapped_arguments); \
    }
#define BEGIN_TWINS(ours, name, mapped, parameters, arguments, mapped_arguments)      \
    BEGIN(ours, false, r_##name, r_##mapped, parameters, arguments, mapped_arguments) \
    BEGIN(ours##_ptsz, true, r_##name##_ptsz, r_##mapped##_ptsz, parameters, arguments, mapped_arguments)

BEGIN_TWINS(gpu_capture_begin_v1, cuStreamBeginCapture, cuStreamBeginCapture_v2, (CUstream stream), (stream),
            (stream, CU_STREAM_CAPTURE_MODE_RELAXED))

BEGIN_TWINS(gpu_capture_begin, cuStreamBeginCapture_v2, cuStreamBeginCapture_v2,
            (CUstream stream, CUstreamCaptureMode mode), (stream, mode), (stream, relaxed(mode)))

BEGIN_TWINS(gpu_capture_begin_to, cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph,
            (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges,
             size_t n_nodes, CUstreamCaptureMode mode),
            (stream, graph, nodes, edges, n_nodes, mode),
            (stream, graph, nodes, edges, n_nodes, relaxed(mode)))

static CUresult end(CUstream stream, CUgraph *graph_out, bool is_per_thread,
                    CUresult(CUDAAPI *function)(CUstream, CUgraph *))
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    struct gpu_call call;
    bool was_captured;
    CUresult result;

    if (!rank) {
        CUstream meant = is_per_thread && !stream ? CU_STREAM_PER_THREAD : stream;
        was_captured = gpu_stream_is_captured(meant, NULL);
        result = function(stream, graph_out);
        if (was_captured && !gpu_stream_is_captured(meant, NULL))
            atomic_fetch_sub(&gpu_gate_n_captures, 1);
        return result;
    }
    result = gpu_call_begin(&call, stream, is_per_thread, GPU_CALL_ASK, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    was_captured = gpu_stream_is_captured(call.stream, NULL);
    result = function(call.stream, graph_out);
    if (was_captured && !gpu_stream_is_captured(call.stream, NULL)) {
        pthread_mutex_lock(&rank->lock);
        gpu_capture_forget(rank, call.stream);
        rank->captured_last = call.stream;
        pthread_mutex_unlock(&rank->lock);
    }
    return result;
}

CUresult gpu_capture_keep_out(const struct gpu_call *call, CUresult result)
{
    if (BASE_LIKELY(!call->orders || call->orders->n_captures == 0 || !call->face ||
                    call->stream != call->face->base.stream) ||
        result != CUDA_SUCCESS || !gpu_stream_is_captured(call->stream, NULL))
        return result;
    (void)gpu_driver.cuStreamQuery(call->stream); /* invalidates the capture */
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

GPU_TWINS(gpu_capture_end, cuStreamEndCapture, _ptsz, (CUstream stream, CUgraph *graph_out),
          end(stream, graph_out, twin, driver))

CUresult CUDAAPI gpu_capture_exchange_mode(CUstreamCaptureMode *mode)
{
    struct gpu_rank_streams *rank;
    CUstreamCaptureMode before;

    gpu_guard_prepare();
    rank = gpu_streams_of_main();
    if (!rank || !mode || !is_mode(*mode))
        return real.r_cuThreadExchangeStreamCaptureMode(mode);
    before = rank->mode;
    rank->mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

CUstreamCaptureMode gpu_capture_set_mode(CUstreamCaptureMode mode)
{
    if (real.r_cuThreadExchangeStreamCaptureMode)
        real.r_cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}
