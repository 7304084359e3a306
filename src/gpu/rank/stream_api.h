/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_api.h: the stream functions of CUDA's driver, as the program calls them: the list of hand-written
 * ones, and the driver's own. Functions that only pass on their stream are generated (stream_calls.h). For
 * the files of src/gpu alone.
 */
#ifndef GPU_STREAM_API_H
#define GPU_STREAM_API_H

#include <cuda.h>

#include "gpu/rank/stream_calls.h"
#include "gpu/rank/streams.h"

#if CUDA_VERSION < 12030
typedef void CUgraphEdgeData;
#endif

/* Waits for the calling rank's streams in a primary context; NULL: the current one. Returns false if the
 * rank has no streams of its own there: use the driver's function. May switch. */
bool gpu_streams_synchronize(CUcontext context, const void *caller, CUresult *result_out);

/* True if none of them has work. False if the rank has none there, or captures. Never switches. */
bool gpu_streams_are_idle(CUcontext context);

/* gpu_streams_synchronize for those that are not being captured. */
bool gpu_streams_synchronize_uncaptured(CUcontext context, const void *caller, CUresult *result_out);

/* Makes the rank wait for the stream before the driver copies pageable memory. May switch. (stream_api.c) */
void gpu_api_wait_if_pageable(CUstream stream, const void *from, const void *to, size_t n_bytes,
                              const void *caller);

/* Sets the thread's capture mode and returns the previous one. In relaxed mode, captures of the program (without ranks' own
 * streams, those in global mode) neither forbid the library's calls nor are ended by them. */
CUstreamCaptureMode gpu_capture_set_mode(CUstreamCaptureMode mode);

/* True if this is pageable host memory. NULL: false. */
bool gpu_host_is_pageable(const void *address);

/* The types of a launch's parameters, including those after the sizes. */
#define GPU_LAUNCH_TYPES(...) \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, __VA_ARGS__)

/* X(name in libcuda, version of CUDA that introduced it, types of parameters, replacement, why). The replacements are in
 * stream_api.c, streams.c, capture.c, repeat_calls.c, launches.c, host_copies.c,
 * host_functions.c, context_events.c, graph_instantiate.c, ipc.c and ipc_events.c. */
#define GPU_STREAM_API_CALLS(X)                                                                              \
    X(cuStreamCreate, 2000, (CUstream *, unsigned), gpu_stream_create, "belongs to the rank")                \
    X(cuStreamCreateWithPriority, 5050, (CUstream *, unsigned, int), gpu_stream_create_with_priority,        \
      "belongs to the rank")                                                                                 \
    X(cuStreamDestroy, 2000, (CUstream), gpu_stream_destroy, "belongs to the rank, and may block")           \
    X(cuStreamDestroy_v2, 4000, (CUstream), gpu_stream_destroy, "belongs to the rank, and may block")        \
    X(cuStreamSynchronize, 2000, (CUstream), gpu_api_stream_synchronize, "waits")                            \
    X(cuStreamSynchronize_ptsz, 7000, (CUstream), gpu_api_stream_synchronize_ptsz, "waits")                  \
    X(cuStreamQuery, 2000, (CUstream), gpu_api_stream_query, "is asked in loops")                            \
    X(cuStreamQuery_ptsz, 7000, (CUstream), gpu_api_stream_query_ptsz, "is asked in loops")                  \
    X(cuEventSynchronize, 2000, (CUevent), gpu_api_event_synchronize, "waits")                               \
    X(cuEventQuery, 2000, (CUevent), gpu_api_event_query, "is asked in loops")                               \
    X(cuCtxSynchronize, 2000, (void), gpu_api_context_synchronize, "waits for the rank's streams")           \
    X(cuCtxSynchronize_v2, 13000, (CUcontext), gpu_api_context_synchronize_v2,                               \
      "waits for the rank's streams")                                                                        \
    X(cuCtxRecordEvent, 12050, (CUcontext, CUevent), gpu_api_context_record, "is of the rank's streams")     \
    X(cuCtxWaitEvent, 12050, (CUcontext, CUevent), gpu_api_context_wait, "is of the rank's streams")         \
    X(cuStreamGetFlags, 5050, (CUstream, unsigned *), gpu_api_stream_flags, "returns the requested flags")   \
    X(cuStreamGetFlags_ptsz, 7000, (CUstream, unsigned *), gpu_api_stream_flags_ptsz,                        \
      "returns the requested flags")                                                                         \
    X(cuStreamGetId, 12000, (CUstream, unsigned long long *), gpu_api_stream_id, "streams are used again")   \
    X(cuStreamGetId_ptsz, 12000, (CUstream, unsigned long long *), gpu_api_stream_id_ptsz,                   \
      "streams are used again")                                                                              \
    X(cuStreamCopyAttributes, 11000, (CUstream, CUstream), gpu_api_copy_attributes, "names two streams")     \
    X(cuStreamCopyAttributes_ptsz, 11000, (CUstream, CUstream), gpu_api_copy_attributes_ptsz,                \
      "names two streams")                                                                                   \
    X(cuLaunchKernel, 4000, GPU_LAUNCH_TYPES(CUstream, void **, void **), gpu_launch_kernel,                 \
      "may load the kernel, and waits for the GPU then")                                                     \
    X(cuLaunchKernel_ptsz, 7000, GPU_LAUNCH_TYPES(CUstream, void **, void **), gpu_launch_kernel_ptsz,       \
      "may load the kernel, and waits for the GPU then")                                                     \
    X(cuLaunchKernelEx, 11060, (const CUlaunchConfig *, CUfunction, void **, void **), gpu_launch_ex,        \
      "has the stream in a struct")                                                                          \
    X(cuLaunchKernelEx_ptsz, 11060, (const CUlaunchConfig *, CUfunction, void **, void **),                  \
      gpu_launch_ex_ptsz, "has the stream in a struct")                                                      \
    X(cuLaunchCooperativeKernel, 9000, GPU_LAUNCH_TYPES(CUstream, void **), gpu_launch_cooperative,          \
      "may need every multiprocessor")                                                                       \
    X(cuLaunchCooperativeKernel_ptsz, 9000, GPU_LAUNCH_TYPES(CUstream, void **),                             \
      gpu_launch_cooperative_ptsz, "may need every multiprocessor")                                          \
    X(cuStreamAddCallback, 5000, (CUstream, CUstreamCallback, void *, unsigned), gpu_api_add_callback,       \
      "passes a stream to the callback")                                                                     \
    X(cuLaunchHostFunc, 10000, (CUstream, CUhostFn, void *), gpu_api_launch_host,                            \
      "its function may call MPI")                                                                           \
    X(cuLaunchHostFunc_ptsz, 10000, (CUstream, CUhostFn, void *), gpu_api_launch_host_ptsz,                  \
      "its function may call MPI")                                                                           \
    X(cuStreamAddCallback_ptsz, 7000, (CUstream, CUstreamCallback, void *, unsigned),                        \
      gpu_api_add_callback_ptsz, "passes a stream to the callback")                                          \
    X(cuMemcpyAsync, 4000, (CUdeviceptr, CUdeviceptr, size_t, CUstream), gpu_repeat_cuMemcpyAsync,           \
      "may be repeated")                                                                                     \
    X(cuMemcpyAsync_ptsz, 7000, (CUdeviceptr, CUdeviceptr, size_t, CUstream), gpu_repeat_cuMemcpyAsync_ptsz, \
      "may be repeated")                                                                                     \
    X(cuMemcpyHtoDAsync_v2, 3020, (CUdeviceptr, const void *, size_t, CUstream),                             \
      gpu_repeat_cuMemcpyHtoDAsync_v2, "may be repeated")                                                    \
    X(cuMemcpyHtoDAsync_v2_ptsz, 7000, (CUdeviceptr, const void *, size_t, CUstream),                        \
      gpu_repeat_cuMemcpyHtoDAsync_v2_ptsz, "may be repeated")                                               \
    X(cuMemcpyDtoHAsync_v2, 3020, (void *, CUdeviceptr, size_t, CUstream), gpu_repeat_cuMemcpyDtoHAsync_v2,  \
      "may be repeated")                                                                                     \
    X(cuMemcpyDtoHAsync_v2_ptsz, 7000, (void *, CUdeviceptr, size_t, CUstream),                              \
      gpu_repeat_cuMemcpyDtoHAsync_v2_ptsz, "may be repeated")                                               \
    X(cuMemcpyDtoDAsync_v2, 3020, (CUdeviceptr, CUdeviceptr, size_t, CUstream),                              \
      gpu_repeat_cuMemcpyDtoDAsync_v2, "may be repeated")                                                    \
    X(cuMemcpyDtoDAsync_v2_ptsz, 7000, (CUdeviceptr, CUdeviceptr, size_t, CUstream),                         \
      gpu_repeat_cuMemcpyDtoDAsync_v2_ptsz, "may be repeated")                                               \
    X(cuStreamAttachMemAsync, 6000, (CUstream, CUdeviceptr, size_t, unsigned), gpu_repeat_attach,            \
      "refuses the legacy stream")                                                                           \
    X(cuStreamAttachMemAsync_ptsz, 7000, (CUstream, CUdeviceptr, size_t, unsigned), gpu_repeat_attach_ptsz,  \
      "refuses the legacy stream")                                                                           \
    X(cuStreamSetAttribute, 11000, (CUstream, CUstreamAttrID, const CUstreamAttrValue *),                    \
      gpu_repeat_set_attribute, "graphs have attributes")                                                    \
    X(cuStreamSetAttribute_ptsz, 11000, (CUstream, CUstreamAttrID, const CUstreamAttrValue *),               \
      gpu_repeat_set_attribute_ptsz, "graphs have attributes")                                               \
    X(cuMemUnmap, 10020, (CUdeviceptr, size_t), gpu_repeat_unmap, "graphs may have copies there")            \
    X(cuIpcGetMemHandle, 4010, (CUipcMemHandle *, CUdeviceptr), gpu_ipc_get, "may be for another rank")      \
    X(cuIpcOpenMemHandle, 4010, (CUdeviceptr *, CUipcMemHandle, unsigned), gpu_ipc_open_v1,                  \
      "may be another rank's")                                                                               \
    X(cuIpcOpenMemHandle_v2, 11000, (CUdeviceptr *, CUipcMemHandle, unsigned), gpu_ipc_open,                 \
      "may be another rank's")                                                                               \
    X(cuIpcCloseMemHandle, 4010, (CUdeviceptr), gpu_ipc_close, "may be another rank's")                      \
    X(cuIpcGetEventHandle, 4010, (CUipcEventHandle *, CUevent), gpu_ipc_get_event,                           \
      "may be for another rank")                                                                             \
    X(cuIpcOpenEventHandle, 4010, (CUevent *, CUipcEventHandle), gpu_ipc_open_event,                         \
      "may be another rank's")                                                                               \
    X(cuEventDestroy, 2000, (CUevent), gpu_ipc_destroy_event_v1, "may be another rank's")                    \
    X(cuEventDestroy_v2, 4000, (CUevent), gpu_ipc_destroy_event, "may be another rank's")                    \
    X(cuGraphInstantiateWithFlags, 11040, (CUgraphExec *, CUgraph, unsigned long long),                      \
      gpu_api_instantiate_with_flags, "uploads graphs that wait")                                            \
    X(cuGraphInstantiateWithParams, 12000, (CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *),        \
      gpu_api_instantiate, "has a stream in a struct")                                                       \
    X(cuGraphInstantiateWithParams_ptsz, 12000, (CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *),   \
      gpu_api_instantiate_ptsz, "has a stream in a struct")                                                  \
    X(cuGraphExecUpdate, 10020, (CUgraphExec, CUgraph, CUgraphNode *, CUgraphExecUpdateResult *),            \
      gpu_api_exec_update_v1, "may bring operations of MPI")                                                 \
    X(cuGraphExecUpdate_v2, 12000, (CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *),                    \
      gpu_api_exec_update, "may bring operations of MPI")                                                    \
    X(cuGraphExecChildGraphNodeSetParams, 11010, (CUgraphExec, CUgraphNode, CUgraph),                        \
      gpu_api_exec_set_child, "may bring operations of MPI")                                                 \
    X(cuGraphExecNodeSetParams, 12020, (CUgraphExec, CUgraphNode, void *), gpu_api_exec_set_node,            \
      "may bring operations of MPI")                                                                         \
    X(cuStreamBeginCapture, 10000, (CUstream), gpu_capture_begin_v1, "is the rank's only")                   \
    X(cuStreamBeginCapture_ptsz, 10000, (CUstream), gpu_capture_begin_v1_ptsz, "is the rank's only")         \
    X(cuStreamBeginCapture_v2, 10010, (CUstream, CUstreamCaptureMode), gpu_capture_begin,                    \
      "is the rank's only")                                                                                  \
    X(cuStreamBeginCapture_v2_ptsz, 10010, (CUstream, CUstreamCaptureMode), gpu_capture_begin_ptsz,          \
      "is the rank's only")                                                                                  \
    X(cuStreamBeginCaptureToGraph, 12030,                                                                    \
      (CUstream, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t, CUstreamCaptureMode),        \
      gpu_capture_begin_to, "is the rank's only")                                                            \
    X(cuStreamBeginCaptureToGraph_ptsz, 12030,                                                               \
      (CUstream, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t, CUstreamCaptureMode),        \
      gpu_capture_begin_to_ptsz, "is the rank's only")                                                       \
    X(cuStreamEndCapture, 10000, (CUstream, CUgraph *), gpu_capture_end, "is the rank's only")               \
    X(cuStreamEndCapture_ptsz, 10000, (CUstream, CUgraph *), gpu_capture_end_ptsz, "is the rank's only")     \
    X(cuMemcpyDtoH_v2, 3020, (void *, CUdeviceptr, size_t), gpu_api_copy_to_host, "waits")                   \
    X(cuMemcpyDtoH_v2_ptds, 7000, (void *, CUdeviceptr, size_t), gpu_api_copy_to_host_ptds, "waits")         \
    X(cuMemcpyHtoD_v2, 3020, (CUdeviceptr, const void *, size_t), gpu_api_copy_from_host, "waits")           \
    X(cuMemcpyHtoD_v2_ptds, 7000, (CUdeviceptr, const void *, size_t), gpu_api_copy_from_host_ptds, "waits") \
    X(cuThreadExchangeStreamCaptureMode, 10010, (CUstreamCaptureMode *), gpu_capture_exchange_mode,          \
      "is the rank's, not the thread's")

#define GPU_STREAM_API_PROTOTYPE(name, version, parameters, ours, why) CUresult CUDAAPI ours parameters;
GPU_STREAM_API_CALLS(GPU_STREAM_API_PROTOTYPE)
#undef GPU_STREAM_API_PROTOTYPE

/* Defines a replacement and its twin, which the driver has with this suffix, for the default stream of the thread. The expression
 * is their result; `twin` tells which of them it is, `driver` is the driver's function. */
#define GPU_TWIN(ours, is_twin, function, parameters, expression) \
    CUresult CUDAAPI ours parameters                              \
    {                                                             \
        const bool twin = is_twin;                                \
        __typeof__(function) driver;                              \
        gpu_guard_prepare();                                      \
        (void)twin, driver = function;                            \
        return expression;                                        \
    }
#define GPU_TWINS(ours, name, suffix, parameters, expression)               \
    GPU_TWIN(ours, false, gpu_stream_real.r_##name, parameters, expression) \
    GPU_TWIN(ours##suffix, true, gpu_stream_real.r_##name##suffix, parameters, expression)

/* The driver's functions; NULL: missing. Members begin with r_, since cuda.h renames functions by macros.
 * Set by gpu_guard_prepare. */
extern struct gpu_stream_real {
#define GPU_STREAM_REAL(name, version, parameters, ours, why) CUresult(CUDAAPI *r_##name) parameters;
    GPU_STREAM_API_CALLS(GPU_STREAM_REAL)
#undef GPU_STREAM_REAL
#define GPU_STREAM_REAL(name, version, twin, kind, parameters, arguments, from, to, bytes, ends) \
    CUresult(CUDAAPI *r_##name) parameters;
    GPU_STREAM_CALLS(GPU_STREAM_REAL)
#undef GPU_STREAM_REAL
#define GPU_STREAM_REAL(name, version, twin, parameters, arguments, async, async_arguments, from, to, \
                        written, read, ends)                                                          \
    CUresult(CUDAAPI *r_##name) parameters;
    GPU_WAITING_CALLS(GPU_STREAM_REAL)
#undef GPU_STREAM_REAL
#define GPU_STREAM_REAL(name, version, twin, parameters, arguments) CUresult(CUDAAPI *r_##name) parameters;
    GPU_LONELY_CALLS(GPU_STREAM_REAL)
#undef GPU_STREAM_REAL
} gpu_stream_real;

#endif
