/* SPDX-License-Identifier: BSD-3-Clause
 *
 * capture_calls.c: the fake driver's captures of streams, and launches of graphs. It is compiled twice: the
 * second time for the functions *_ptsz.
 */
#include "fake.h"

/* ---- Beginning and ending ---- */

static CUresult begin_capture(const char *function, CUstream handle, struct fake_graph *graph,
                              const CUgraphNode *dependencies, size_t n, CUstreamCaptureMode mode)
{
    struct fake_stream *stream;
    CUresult error = fake_begin(function, handle, &stream);

    if (error)
        return error;
    if (stream->kind == FAKECUDA_LEGACY) {
        error = fake_capture_check_legacy(stream, false);
        error = error ? error : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    } else if (stream->capture) {
        error = CUDA_ERROR_ILLEGAL_STATE;
    } else if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        error = CUDA_ERROR_INVALID_VALUE;
    } else {
        fake_capture_begin(stream, graph ? graph : fake_graph_create(), mode);
        stream->capture->is_graph_given = graph != NULL;
        for (size_t i = 0; i < n; i++)
            fake_nodes_add(&stream->captured, (struct fake_node *)dependencies[i]);
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    return begin_capture(__func__, FAKE_MEANT(stream), NULL, NULL, 0, mode);
}

FAKE_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                                 const CUgraphNode *dependencies,
                                                 const CUgraphEdgeData *edges, size_t n,
                                                 CUstreamCaptureMode mode)
{
    return begin_capture(__func__, FAKE_MEANT(stream), (struct fake_graph *)graph, dependencies, n, mode);
}

FAKE_EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
    struct fake_stream *stream;
    CUresult error = fake_begin(__func__, FAKE_MEANT(handle), &stream);

    if (error)
        return error;
    error = fake_capture_end(stream, (struct fake_graph **)graph);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* ---- Asking ---- */

/* Of the stream NULL nothing is said while a blocking stream is captured. */
static CUresult begin_question(const char *function, CUstream handle, struct fake_stream **stream_out)
{
    CUresult error = fake_begin(function, handle, stream_out);

    if (error)
        return error;
    error = fake_capture_check_legacy(*stream_out, true);
    if (error)
        pthread_mutex_unlock(&fake_lock);
    return error;
}

static CUstreamCaptureStatus status_of(const struct fake_stream *stream)
{
    return !stream->capture              ? CU_STREAM_CAPTURE_STATUS_NONE
           : stream->capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

FAKE_EXPORT CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    struct fake_stream *stream;
    CUresult error = begin_question(__func__, FAKE_MEANT(handle), &stream);

    if (error)
        return error;
    *status = status_of(stream);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

/* Destinations of the answers; NULL: not requested. */
struct info {
    CUstreamCaptureStatus *status;
    cuuint64_t *id;
    CUgraph *graph;
    const CUgraphNode **dependencies;
    const CUgraphEdgeData **edges;
    size_t *n_dependencies;
};

static CUresult get_info(const char *function, CUstream handle, const struct info *info)
{
    struct fake_stream *stream;
    CUresult error = begin_question(function, handle, &stream);

    if (error)
        return error;
    *info->status = status_of(stream);
    if (*info->status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        if (info->id)
            *info->id = stream->capture->id;
        if (info->graph)
            *info->graph = (CUgraph)stream->capture->graph;
        if (info->dependencies)
            *info->dependencies = (const CUgraphNode *)stream->captured.list;
        if (info->edges)
            *info->edges = NULL;
        if (info->n_dependencies)
            *info->n_dependencies = stream->captured.n;
    }
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                            CUgraph *graph, const CUgraphNode **dependencies,
                                            const CUgraphEdgeData **edges, size_t *n)
{
    struct info info = {status, id, graph, dependencies, edges, n};

    return get_info(__func__, FAKE_MEANT(stream), &info);
}

FAKE_EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode *dependencies,
                                                       const CUgraphEdgeData *edges, size_t n, unsigned flags)
{
    struct fake_stream *stream;
    CUresult error = fake_begin(__func__, FAKE_MEANT(handle), &stream);

    if (error)
        return error;
    if (!stream->capture) {
        error = CUDA_ERROR_ILLEGAL_STATE;
    } else {
        if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
            fake_nodes_clear(&stream->captured);
        for (size_t i = 0; i < n; i++)
            fake_nodes_add(&stream->captured, (struct fake_node *)dependencies[i]);
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* The first versions, by the names that they have in the driver. */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define OLD(name) name##_ptsz
#else
#define OLD(name) name
#endif
#undef cuStreamGetCaptureInfo
#undef cuStreamBeginCapture

CUresult CUDAAPI OLD(cuStreamGetCaptureInfo)(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id);
FAKE_EXPORT CUresult OLD(cuStreamGetCaptureInfo)(CUstream stream, CUstreamCaptureStatus *status,
                                                 cuuint64_t *id)
{
    struct info info = {.status = status, .id = id};

    return get_info(__func__, FAKE_MEANT(stream), &info);
}

CUresult CUDAAPI OLD(cuStreamGetCaptureInfo_v2)(CUstream stream, CUstreamCaptureStatus *status,
                                                cuuint64_t *id, CUgraph *graph,
                                                const CUgraphNode **dependencies, size_t *n);
FAKE_EXPORT CUresult OLD(cuStreamGetCaptureInfo_v2)(CUstream stream, CUstreamCaptureStatus *status,
                                                    cuuint64_t *id, CUgraph *graph,
                                                    const CUgraphNode **dependencies, size_t *n)
{
    struct info info = {status, id, graph, dependencies, NULL, n};

    return get_info(__func__, FAKE_MEANT(stream), &info);
}

CUresult CUDAAPI OLD(cuStreamBeginCapture)(CUstream stream);
FAKE_EXPORT CUresult OLD(cuStreamBeginCapture)(CUstream stream)
{
    return begin_capture(__func__, FAKE_MEANT(stream), NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/* ---- Launching graphs ---- */

FAKE_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
    struct fake_stream *stream;
    CUresult error = fake_begin_work(__func__, FAKE_MEANT(handle), &stream);

    if (error)
        return error;
    error = stream->capture ? fake_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
                            : fake_exec_queue((struct fake_exec *)exec, stream);
    pthread_mutex_unlock(&fake_lock);
    return error;
}

static CUresult upload(const char *function, CUstream handle)
{
    struct fake_stream *stream;
    CUresult error = fake_begin_work(function, handle, &stream);

    if (error)
        return error;
    if (stream->capture)
        error = fake_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    else
        fake_queue(stream, fake_op_create(fake_do_nothing));
    pthread_mutex_unlock(&fake_lock);
    return error;
}

FAKE_EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    return exec ? upload(__func__, FAKE_MEANT(stream)) : CUDA_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
                                                  CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    CUresult error =
        fake_exec_create(__func__, (struct fake_graph *)graph, params->flags, (struct fake_exec **)exec);

    params->hErrNode_out = NULL;
    params->result_out = error ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    if (!error && params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
        error = upload(__func__, FAKE_MEANT(params->hUploadStream));
    return error;
}
