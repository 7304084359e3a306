/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_calls.h: the functions of CUDA's driver that take one stream, or work on the default stream. Written
 * by tools/gen_stream_calls.py from CUDA's headers: change that, not this.
 */
#ifndef GPU_STREAM_CALLS_H
#define GPU_STREAM_CALLS_H

/* clang-format off */
/* The lists:
 *      GPU_STREAM_CALLS    X(name in libcuda, version of CUDA that brought it, NULL means the thread's stream (1) or
 *                          the legacy one (0), kind (enum gpu_call_kind), parameters, arguments, address in
 *                          the host's memory that is read, that is written (NULL: none), bytes, ends)
 *      GPU_WAITING_CALLS   X(name, version, stream, parameters, arguments, the call that does the same and does not
 *                          wait, its arguments, address of the host that is read, that is written, address of a
 *                          device that is written, that is read, if the call need not wait; else 0; ends)
 *      GPU_LONELY_CALLS    X(name, version, stream, parameters, arguments): those without such a call
 * ends: of a copy that may be from device to device, the address that is written and that is read; else (0, 0)
 */
#define GPU_STREAM_CALLS_0(X) \
    X(cuEventRecord, 2000, 0, SUBMIT, (CUevent hEvent, CUstream stream), (hEvent, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuEventRecord_ptsz, 7000, 1, SUBMIT, (CUevent hEvent, CUstream stream), (hEvent, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuEventRecordWithFlags, 11010, 0, SUBMIT, (CUevent hEvent, CUstream stream, unsigned int flags), (hEvent, call.stream, flags), NULL, NULL, 0, (0, 0)) \
    X(cuEventRecordWithFlags_ptsz, 11010, 1, SUBMIT, (CUevent hEvent, CUstream stream, unsigned int flags), (hEvent, call.stream, flags), NULL, NULL, 0, (0, 0)) \
    X(cuGraphLaunch, 10000, 0, SUBMIT, (CUgraphExec hGraph, CUstream stream), (hGraph, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuGraphLaunch_ptsz, 10000, 1, SUBMIT, (CUgraphExec hGraphExec, CUstream stream), (hGraphExec, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuGraphUpload, 11010, 0, SUBMIT, (CUgraphExec hGraph, CUstream stream), (hGraph, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuGraphUpload_ptsz, 11010, 1, SUBMIT, (CUgraphExec hGraphExec, CUstream stream), (hGraphExec, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuGraphicsMapResources, 3000, 0, SUBMIT, (unsigned int count, CUgraphicsResource *resources, CUstream stream), (count, resources, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuGraphicsMapResources_ptsz, 7000, 1, SUBMIT, (unsigned int count, CUgraphicsResource *resources, CUstream stream), (count, resources, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuGraphicsUnmapResources, 3000, 0, SUBMIT, (unsigned int count, CUgraphicsResource *resources, CUstream stream), (count, resources, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuGraphicsUnmapResources_ptsz, 7000, 1, SUBMIT, (unsigned int count, CUgraphicsResource *resources, CUstream stream), (count, resources, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuLaunchGridAsync, 2000, 0, SUBMIT, (CUfunction f, int grid_width, int grid_height, CUstream stream), (f, grid_width, grid_height, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemAllocAsync, 11020, 0, SUBMIT, (CUdeviceptr_v2 *dptr, size_t bytesize, CUstream stream), (dptr, bytesize, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemAllocAsync_ptsz, 11020, 1, SUBMIT, (CUdeviceptr_v2 *dptr, size_t bytesize, CUstream stream), (dptr, bytesize, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemAllocFromPoolAsync, 11020, 0, SUBMIT, (CUdeviceptr_v2 *dptr, size_t bytesize, CUmemoryPool pool, CUstream stream), (dptr, bytesize, pool, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemAllocFromPoolAsync_ptsz, 11020, 1, SUBMIT, (CUdeviceptr_v2 *dptr, size_t bytesize, CUmemoryPool pool, CUstream stream), (dptr, bytesize, pool, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemFreeAsync, 11020, 0, SUBMIT, (CUdeviceptr_v2 dptr, CUstream stream), (dptr, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemFreeAsync_ptsz, 11020, 1, SUBMIT, (CUdeviceptr_v2 dptr, CUstream stream), (dptr, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemMapArrayAsync, 11010, 0, SUBMIT, (CUarrayMapInfo_v1 *mapInfoList, unsigned int count, CUstream stream), (mapInfoList, count, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemMapArrayAsync_ptsz, 11010, 1, SUBMIT, (CUarrayMapInfo_v1 *mapInfoList, unsigned int count, CUstream stream), (mapInfoList, count, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemPrefetchAsync, 8000, 0, SUBMIT, (CUdeviceptr_v2 devPtr, size_t count, CUdevice_v1 dstDevice, CUstream stream), (devPtr, count, GPU_CALL_NUMBER(dstDevice), call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemPrefetchAsync_ptsz, 8000, 1, SUBMIT, (CUdeviceptr_v2 devPtr, size_t count, CUdevice_v1 dstDevice, CUstream stream), (devPtr, count, GPU_CALL_NUMBER(dstDevice), call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemcpy2DAsync_v2, 3020, 0, SUBMIT, (const CUDA_MEMCPY2D_v2 *pCopy, CUstream stream), (pCopy, call.stream), GPU_CALL_HOST(pCopy, src), GPU_CALL_HOST(pCopy, dst), SIZE_MAX, (GPU_CALL_DEVICE(pCopy, dst), GPU_CALL_DEVICE(pCopy, src))) \
    X(cuMemcpy2DAsync_v2_ptsz, 7000, 1, SUBMIT, (const CUDA_MEMCPY2D_v2 *pCopy, CUstream stream), (pCopy, call.stream), GPU_CALL_HOST(pCopy, src), GPU_CALL_HOST(pCopy, dst), SIZE_MAX, (GPU_CALL_DEVICE(pCopy, dst), GPU_CALL_DEVICE(pCopy, src))) \
    X(cuMemcpy3DAsync_v2, 3020, 0, SUBMIT, (const CUDA_MEMCPY3D_v2 *pCopy, CUstream stream), (pCopy, call.stream), GPU_CALL_HOST(pCopy, src), GPU_CALL_HOST(pCopy, dst), SIZE_MAX, (GPU_CALL_DEVICE(pCopy, dst), GPU_CALL_DEVICE(pCopy, src))) \
    X(cuMemcpy3DAsync_v2_ptsz, 7000, 1, SUBMIT, (const CUDA_MEMCPY3D_v2 *pCopy, CUstream stream), (pCopy, call.stream), GPU_CALL_HOST(pCopy, src), GPU_CALL_HOST(pCopy, dst), SIZE_MAX, (GPU_CALL_DEVICE(pCopy, dst), GPU_CALL_DEVICE(pCopy, src))) \
    X(cuMemcpy3DPeerAsync, 4000, 0, SUBMIT, (const CUDA_MEMCPY3D_PEER_v1 *pCopy, CUstream stream), (pCopy, call.stream), NULL, NULL, 0, (GPU_CALL_DEVICE(pCopy, dst), GPU_CALL_DEVICE(pCopy, src))) \
    X(cuMemcpy3DPeerAsync_ptsz, 7000, 1, SUBMIT, (const CUDA_MEMCPY3D_PEER_v1 *pCopy, CUstream stream), (pCopy, call.stream), NULL, NULL, 0, (GPU_CALL_DEVICE(pCopy, dst), GPU_CALL_DEVICE(pCopy, src))) \
    X(cuMemcpyAtoHAsync_v2, 3020, 0, SUBMIT, (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream stream), (dstHost, srcArray, srcOffset, ByteCount, call.stream), NULL, dstHost, ByteCount, (0, 0)) \
    X(cuMemcpyAtoHAsync_v2_ptsz, 7000, 1, SUBMIT, (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream stream), (dstHost, srcArray, srcOffset, ByteCount, call.stream), NULL, dstHost, ByteCount, (0, 0)) \
    X(cuMemcpyHtoAAsync_v2, 3020, 0, SUBMIT, (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, CUstream stream), (dstArray, dstOffset, srcHost, ByteCount, call.stream), srcHost, NULL, ByteCount, (0, 0)) \
    X(cuMemcpyHtoAAsync_v2_ptsz, 7000, 1, SUBMIT, (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, CUstream stream), (dstArray, dstOffset, srcHost, ByteCount, call.stream), srcHost, NULL, ByteCount, (0, 0)) \
    X(cuMemcpyPeerAsync, 4000, 0, SUBMIT, (CUdeviceptr_v2 dstDevice, CUcontext dstContext, CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount, CUstream stream), (dstDevice, dstContext, srcDevice, srcContext, ByteCount, call.stream), NULL, NULL, 0, (dstDevice, srcDevice)) \
    X(cuMemcpyPeerAsync_ptsz, 7000, 1, SUBMIT, (CUdeviceptr_v2 dstDevice, CUcontext dstContext, CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount, CUstream stream), (dstDevice, dstContext, srcDevice, srcContext, ByteCount, call.stream), NULL, NULL, 0, (dstDevice, srcDevice)) \
    X(cuMemsetD16Async, 3020, 0, SUBMIT, (CUdeviceptr_v2 dstDevice, unsigned short us, size_t N, CUstream stream), (dstDevice, us, N, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemsetD16Async_ptsz, 7000, 1, SUBMIT, (CUdeviceptr_v2 dstDevice, unsigned short us, size_t N, CUstream stream), (dstDevice, us, N, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemsetD2D16Async, 3020, 0, SUBMIT, (CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height, CUstream stream), (dstDevice, dstPitch, us, Width, Height, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemsetD2D16Async_ptsz, 7000, 1, SUBMIT, (CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height, CUstream stream), (dstDevice, dstPitch, us, Width, Height, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemsetD2D32Async, 3020, 0, SUBMIT, (CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height, CUstream stream), (dstDevice, dstPitch, ui, Width, Height, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemsetD2D32Async_ptsz, 7000, 1, SUBMIT, (CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height, CUstream stream), (dstDevice, dstPitch, ui, Width, Height, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemsetD2D8Async, 3020, 0, SUBMIT, (CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, CUstream stream), (dstDevice, dstPitch, uc, Width, Height, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemsetD2D8Async_ptsz, 7000, 1, SUBMIT, (CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, CUstream stream), (dstDevice, dstPitch, uc, Width, Height, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemsetD32Async, 3020, 0, SUBMIT, (CUdeviceptr_v2 dstDevice, unsigned int ui, size_t N, CUstream stream), (dstDevice, ui, N, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemsetD32Async_ptsz, 7000, 1, SUBMIT, (CUdeviceptr_v2 dstDevice, unsigned int ui, size_t N, CUstream stream), (dstDevice, ui, N, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemsetD8Async, 3020, 0, SUBMIT, (CUdeviceptr_v2 dstDevice, unsigned char uc, size_t N, CUstream stream), (dstDevice, uc, N, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemsetD8Async_ptsz, 7000, 1, SUBMIT, (CUdeviceptr_v2 dstDevice, unsigned char uc, size_t N, CUstream stream), (dstDevice, uc, N, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuSignalExternalSemaphoresAsync, 10000, 0, SUBMIT, (const CUexternalSemaphore *extSemArray, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_v1 *paramsArray, unsigned int numExtSems, CUstream stream), (extSemArray, paramsArray, numExtSems, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuSignalExternalSemaphoresAsync_ptsz, 10000, 1, SUBMIT, (const CUexternalSemaphore *extSemArray, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_v1 *paramsArray, unsigned int numExtSems, CUstream stream), (extSemArray, paramsArray, numExtSems, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuStreamBatchMemOp, 8000, 0, SUBMIT, (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray, unsigned int flags), (call.stream, count, paramArray, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamBatchMemOp_ptsz, 8000, 1, SUBMIT, (CUstream stream, unsigned int count, CUstreamBatchMemOpParams_v1 *paramArray, unsigned int flags), (call.stream, count, paramArray, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamBatchMemOp_v2, 11070, 0, SUBMIT, (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray, unsigned int flags), (call.stream, count, paramArray, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamBatchMemOp_v2_ptsz, 11070, 1, SUBMIT, (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray, unsigned int flags), (call.stream, count, paramArray, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamGetAttribute, 11000, 0, ASK, (CUstream stream, CUstreamAttrID attr, CUstreamAttrValue_v1 *value), (call.stream, attr, value), NULL, NULL, 0, (0, 0)) \
    X(cuStreamGetAttribute_ptsz, 11000, 1, ASK, (CUstream stream, CUstreamAttrID attr, CUstreamAttrValue_v1 *value_out), (call.stream, attr, value_out), NULL, NULL, 0, (0, 0)) \
    X(cuStreamGetCaptureInfo, 10010, 0, STATE, (CUstream stream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out), (call.stream, captureStatus_out, id_out), NULL, NULL, 0, (0, 0)) \
    X(cuStreamGetCaptureInfo_ptsz, 10010, 1, STATE, (CUstream stream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out), (call.stream, captureStatus_out, id_out), NULL, NULL, 0, (0, 0)) \
    X(cuStreamGetCaptureInfo_v2, 11030, 0, STATE, (CUstream stream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out), (call.stream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out), NULL, NULL, 0, (0, 0)) \
    X(cuStreamGetCaptureInfo_v2_ptsz, 11030, 1, STATE, (CUstream stream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out), (call.stream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out), NULL, NULL, 0, (0, 0)) \
    X(cuStreamGetCtx, 9020, 0, ASK, (CUstream stream, CUcontext *pctx), (call.stream, pctx), NULL, NULL, 0, (0, 0)) \
    X(cuStreamGetCtx_ptsz, 9020, 1, ASK, (CUstream stream, CUcontext *pctx), (call.stream, pctx), NULL, NULL, 0, (0, 0)) \
    X(cuStreamGetPriority, 5050, 0, ASK, (CUstream stream, int *priority), (call.stream, priority), NULL, NULL, 0, (0, 0)) \
    X(cuStreamGetPriority_ptsz, 7000, 1, ASK, (CUstream stream, int *priority), (call.stream, priority), NULL, NULL, 0, (0, 0)) \
    X(cuStreamIsCapturing, 10000, 0, STATE, (CUstream stream, CUstreamCaptureStatus *captureStatus), (call.stream, captureStatus), NULL, NULL, 0, (0, 0)) \
    X(cuStreamIsCapturing_ptsz, 10000, 1, STATE, (CUstream stream, CUstreamCaptureStatus *captureStatus), (call.stream, captureStatus), NULL, NULL, 0, (0, 0)) \
    X(cuStreamUpdateCaptureDependencies, 11030, 0, ASK, (CUstream stream, CUgraphNode *dependencies, size_t numDependencies, unsigned int flags), (call.stream, dependencies, numDependencies, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamUpdateCaptureDependencies_ptsz, 11030, 1, ASK, (CUstream stream, CUgraphNode *dependencies, size_t numDependencies, unsigned int flags), (call.stream, dependencies, numDependencies, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWaitEvent, 3020, 0, SUBMIT, (CUstream stream, CUevent hEvent, unsigned int Flags), (call.stream, hEvent, Flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWaitEvent_ptsz, 7000, 1, SUBMIT, (CUstream stream, CUevent hEvent, unsigned int Flags), (call.stream, hEvent, Flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWaitValue32, 8000, 0, SUBMIT, (CUstream stream, CUdeviceptr_v2 addr, cuuint32_t value, unsigned int flags), (call.stream, addr, value, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWaitValue32_ptsz, 8000, 1, SUBMIT, (CUstream stream, CUdeviceptr_v2 addr, cuuint32_t value, unsigned int flags), (call.stream, addr, value, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWaitValue32_v2, 11070, 0, SUBMIT, (CUstream stream, CUdeviceptr_v2 addr, cuuint32_t value, unsigned int flags), (call.stream, addr, value, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWaitValue32_v2_ptsz, 11070, 1, SUBMIT, (CUstream stream, CUdeviceptr_v2 addr, cuuint32_t value, unsigned int flags), (call.stream, addr, value, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWaitValue64, 9000, 0, SUBMIT, (CUstream stream, CUdeviceptr_v2 addr, cuuint64_t value, unsigned int flags), (call.stream, addr, value, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWaitValue64_ptsz, 9000, 1, SUBMIT, (CUstream stream, CUdeviceptr_v2 addr, cuuint64_t value, unsigned int flags), (call.stream, addr, value, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWaitValue64_v2, 11070, 0, SUBMIT, (CUstream stream, CUdeviceptr_v2 addr, cuuint64_t value, unsigned int flags), (call.stream, addr, value, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWaitValue64_v2_ptsz, 11070, 1, SUBMIT, (CUstream stream, CUdeviceptr_v2 addr, cuuint64_t value, unsigned int flags), (call.stream, addr, value, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWriteValue32, 8000, 0, SUBMIT, (CUstream stream, CUdeviceptr_v2 addr, cuuint32_t value, unsigned int flags), (call.stream, addr, value, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWriteValue32_ptsz, 8000, 1, SUBMIT, (CUstream stream, CUdeviceptr_v2 addr, cuuint32_t value, unsigned int flags), (call.stream, addr, value, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWriteValue32_v2, 11070, 0, SUBMIT, (CUstream stream, CUdeviceptr_v2 addr, cuuint32_t value, unsigned int flags), (call.stream, addr, value, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWriteValue32_v2_ptsz, 11070, 1, SUBMIT, (CUstream stream, CUdeviceptr_v2 addr, cuuint32_t value, unsigned int flags), (call.stream, addr, value, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWriteValue64, 9000, 0, SUBMIT, (CUstream stream, CUdeviceptr_v2 addr, cuuint64_t value, unsigned int flags), (call.stream, addr, value, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWriteValue64_ptsz, 9000, 1, SUBMIT, (CUstream stream, CUdeviceptr_v2 addr, cuuint64_t value, unsigned int flags), (call.stream, addr, value, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWriteValue64_v2, 11070, 0, SUBMIT, (CUstream stream, CUdeviceptr_v2 addr, cuuint64_t value, unsigned int flags), (call.stream, addr, value, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamWriteValue64_v2_ptsz, 11070, 1, SUBMIT, (CUstream stream, CUdeviceptr_v2 addr, cuuint64_t value, unsigned int flags), (call.stream, addr, value, flags), NULL, NULL, 0, (0, 0)) \
    X(cuWaitExternalSemaphoresAsync, 10000, 0, SUBMIT, (const CUexternalSemaphore *extSemArray, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_v1 *paramsArray, unsigned int numExtSems, CUstream stream), (extSemArray, paramsArray, numExtSems, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuWaitExternalSemaphoresAsync_ptsz, 10000, 1, SUBMIT, (const CUexternalSemaphore *extSemArray, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_v1 *paramsArray, unsigned int numExtSems, CUstream stream), (extSemArray, paramsArray, numExtSems, call.stream), NULL, NULL, 0, (0, 0))
#if CUDA_VERSION >= 12020
#define GPU_STREAM_CALLS_12020(X) \
    X(cuMemPrefetchAsync_v2, 12020, 0, SUBMIT, (CUdeviceptr_v2 devPtr, size_t count, CUmemLocation_v1 location, unsigned int flags, CUstream stream), (devPtr, count, GPU_CALL_PLACE(location), flags, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemPrefetchAsync_v2_ptsz, 12020, 1, SUBMIT, (CUdeviceptr_v2 devPtr, size_t count, CUmemLocation_v1 location, unsigned int flags, CUstream stream), (devPtr, count, GPU_CALL_PLACE(location), flags, call.stream), NULL, NULL, 0, (0, 0))
#else
#define GPU_STREAM_CALLS_12020(X)
#endif
#if CUDA_VERSION >= 12030
#define GPU_STREAM_CALLS_12030(X) \
    X(cuStreamGetCaptureInfo_v3, 12030, 0, STATE, (CUstream stream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out, const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out), (call.stream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out), NULL, NULL, 0, (0, 0)) \
    X(cuStreamGetCaptureInfo_v3_ptsz, 12030, 1, STATE, (CUstream stream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out, const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out), (call.stream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out), NULL, NULL, 0, (0, 0)) \
    X(cuStreamUpdateCaptureDependencies_v2, 12030, 0, ASK, (CUstream stream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags), (call.stream, dependencies, dependencyData, numDependencies, flags), NULL, NULL, 0, (0, 0)) \
    X(cuStreamUpdateCaptureDependencies_v2_ptsz, 12030, 1, ASK, (CUstream stream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags), (call.stream, dependencies, dependencyData, numDependencies, flags), NULL, NULL, 0, (0, 0))
#else
#define GPU_STREAM_CALLS_12030(X)
#endif
#if CUDA_VERSION >= 12040
#define GPU_STREAM_CALLS_12040(X) \
    X(cuStreamGetGreenCtx, 12040, 0, ASK, (CUstream stream, CUgreenCtx *phCtx), (call.stream, phCtx), NULL, NULL, 0, (0, 0))
#else
#define GPU_STREAM_CALLS_12040(X)
#endif
#if CUDA_VERSION >= 12050
#define GPU_STREAM_CALLS_12050(X) \
    X(cuStreamGetCtx_v2, 12050, 0, ASK, (CUstream stream, CUcontext *pctx, CUgreenCtx *pGreenCtx), (call.stream, pctx, pGreenCtx), NULL, NULL, 0, (0, 0)) \
    X(cuStreamGetCtx_v2_ptsz, 12050, 1, ASK, (CUstream stream, CUcontext *pctx, CUgreenCtx *pGreenCtx), (call.stream, pctx, pGreenCtx), NULL, NULL, 0, (0, 0))
#else
#define GPU_STREAM_CALLS_12050(X)
#endif
#if CUDA_VERSION >= 12060
#define GPU_STREAM_CALLS_12060(X) \
    X(cuMemBatchDecompressAsync, 12060, 0, SUBMIT, (CUmemDecompressParams *paramsArray, size_t count, unsigned int flags, size_t *errorIndex, CUstream stream), (paramsArray, count, flags, errorIndex, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemBatchDecompressAsync_ptsz, 12060, 1, SUBMIT, (CUmemDecompressParams *paramsArray, size_t count, unsigned int flags, size_t *errorIndex, CUstream stream), (paramsArray, count, flags, errorIndex, call.stream), NULL, NULL, 0, (0, 0))
#else
#define GPU_STREAM_CALLS_12060(X)
#endif
#if CUDA_VERSION >= 12080
#define GPU_STREAM_CALLS_12080(X) \
    X(cuMemcpy3DBatchAsync, 12080, 0, SUBMIT, (size_t numParams, CUDA_MEMCPY3D_BATCH_OP_v1 *opList, size_t *failIdx, unsigned long long flags, CUstream stream), (numParams, opList, failIdx, flags, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemcpy3DBatchAsync_ptsz, 12080, 1, SUBMIT, (size_t numParams, CUDA_MEMCPY3D_BATCH_OP_v1 *opList, size_t *failIdx, unsigned long long flags, CUstream stream), (numParams, opList, failIdx, flags, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemcpyBatchAsync, 12080, 0, SUBMIT, (CUdeviceptr_v2 *dsts, CUdeviceptr_v2 *srcs, size_t *sizes, size_t count, CUmemcpyAttributes_v1 *attrs, size_t *attrIdxs, size_t numAttrs, size_t *failIdx, CUstream stream), (dsts, srcs, sizes, count, attrs, attrIdxs, numAttrs, failIdx, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemcpyBatchAsync_ptsz, 12080, 1, SUBMIT, (CUdeviceptr_v2 *dsts, CUdeviceptr_v2 *srcs, size_t *sizes, size_t count, CUmemcpyAttributes_v1 *attrs, size_t *attrIdxs, size_t numAttrs, size_t *failIdx, CUstream stream), (dsts, srcs, sizes, count, attrs, attrIdxs, numAttrs, failIdx, call.stream), NULL, NULL, 0, (0, 0))
#else
#define GPU_STREAM_CALLS_12080(X)
#endif
#if CUDA_VERSION >= 13000
#define GPU_STREAM_CALLS_13000(X) \
    X(cuMemDiscardAndPrefetchBatchAsync, 13000, 0, SUBMIT, (CUdeviceptr_v2 *dptrs, size_t *sizes, size_t count, CUmemLocation_v1 *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream stream), (dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemDiscardAndPrefetchBatchAsync_ptsz, 13000, 1, SUBMIT, (CUdeviceptr_v2 *dptrs, size_t *sizes, size_t count, CUmemLocation_v1 *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream stream), (dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemDiscardBatchAsync, 13000, 0, SUBMIT, (CUdeviceptr_v2 *dptrs, size_t *sizes, size_t count, unsigned long long flags, CUstream stream), (dptrs, sizes, count, flags, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemDiscardBatchAsync_ptsz, 13000, 1, SUBMIT, (CUdeviceptr_v2 *dptrs, size_t *sizes, size_t count, unsigned long long flags, CUstream stream), (dptrs, sizes, count, flags, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemPrefetchBatchAsync, 13000, 0, SUBMIT, (CUdeviceptr_v2 *dptrs, size_t *sizes, size_t count, CUmemLocation_v1 *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream stream), (dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemPrefetchBatchAsync_ptsz, 13000, 1, SUBMIT, (CUdeviceptr_v2 *dptrs, size_t *sizes, size_t count, CUmemLocation_v1 *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream stream), (dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemcpy3DBatchAsync_v2, 13000, 0, SUBMIT, (size_t numParams, CUDA_MEMCPY3D_BATCH_OP_v1 *opList, unsigned long long flags, CUstream stream), (numParams, opList, flags, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemcpy3DBatchAsync_v2_ptsz, 13000, 1, SUBMIT, (size_t numParams, CUDA_MEMCPY3D_BATCH_OP_v1 *opList, unsigned long long flags, CUstream stream), (numParams, opList, flags, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemcpyBatchAsync_v2, 13000, 0, SUBMIT, (CUdeviceptr_v2 *dsts, CUdeviceptr_v2 *srcs, size_t *sizes, size_t count, CUmemcpyAttributes_v1 *attrs, size_t *attrIdxs, size_t numAttrs, CUstream stream), (dsts, srcs, sizes, count, attrs, attrIdxs, numAttrs, call.stream), NULL, NULL, 0, (0, 0)) \
    X(cuMemcpyBatchAsync_v2_ptsz, 13000, 1, SUBMIT, (CUdeviceptr_v2 *dsts, CUdeviceptr_v2 *srcs, size_t *sizes, size_t count, CUmemcpyAttributes_v1 *attrs, size_t *attrIdxs, size_t numAttrs, CUstream stream), (dsts, srcs, sizes, count, attrs, attrIdxs, numAttrs, call.stream), NULL, NULL, 0, (0, 0))
#else
#define GPU_STREAM_CALLS_13000(X)
#endif
#define GPU_STREAM_CALLS(X) \
    GPU_STREAM_CALLS_0(X) \
    GPU_STREAM_CALLS_12020(X) \
    GPU_STREAM_CALLS_12030(X) \
    GPU_STREAM_CALLS_12040(X) \
    GPU_STREAM_CALLS_12050(X) \
    GPU_STREAM_CALLS_12060(X) \
    GPU_STREAM_CALLS_12080(X) \
    GPU_STREAM_CALLS_13000(X)
#define GPU_WAITING_CALLS(X) \
    X(cuMemcpy, 4000, 0, (CUdeviceptr_v2 dst, CUdeviceptr_v2 src, size_t ByteCount), (dst, src, ByteCount), cuMemcpyAsync, (dst, src, ByteCount, call.stream), GPU_CALL_POINTER(src), GPU_CALL_POINTER(dst), 0, 0, (dst, src)) \
    X(cuMemcpy_ptds, 7000, 1, (CUdeviceptr_v2 dst, CUdeviceptr_v2 src, size_t ByteCount), (dst, src, ByteCount), cuMemcpyAsync, (dst, src, ByteCount, call.stream), GPU_CALL_POINTER(src), GPU_CALL_POINTER(dst), 0, 0, (dst, src)) \
    X(cuMemcpy2D_v2, 3020, 0, (const CUDA_MEMCPY2D_v2 *pCopy), (pCopy), cuMemcpy2DAsync_v2, (pCopy, call.stream), GPU_CALL_HOST(pCopy, src), GPU_CALL_HOST(pCopy, dst), 0, 0, (GPU_CALL_DEVICE(pCopy, dst), GPU_CALL_DEVICE(pCopy, src))) \
    X(cuMemcpy2D_v2_ptds, 7000, 1, (const CUDA_MEMCPY2D_v2 *pCopy), (pCopy), cuMemcpy2DAsync_v2, (pCopy, call.stream), GPU_CALL_HOST(pCopy, src), GPU_CALL_HOST(pCopy, dst), 0, 0, (GPU_CALL_DEVICE(pCopy, dst), GPU_CALL_DEVICE(pCopy, src))) \
    X(cuMemcpy2DUnaligned_v2, 3020, 0, (const CUDA_MEMCPY2D_v2 *pCopy), (pCopy), cuMemcpy2DAsync_v2, (pCopy, call.stream), GPU_CALL_HOST(pCopy, src), GPU_CALL_HOST(pCopy, dst), 0, 0, (GPU_CALL_DEVICE(pCopy, dst), GPU_CALL_DEVICE(pCopy, src))) \
    X(cuMemcpy2DUnaligned_v2_ptds, 7000, 1, (const CUDA_MEMCPY2D_v2 *pCopy), (pCopy), cuMemcpy2DAsync_v2, (pCopy, call.stream), GPU_CALL_HOST(pCopy, src), GPU_CALL_HOST(pCopy, dst), 0, 0, (GPU_CALL_DEVICE(pCopy, dst), GPU_CALL_DEVICE(pCopy, src))) \
    X(cuMemcpy3D_v2, 3020, 0, (const CUDA_MEMCPY3D_v2 *pCopy), (pCopy), cuMemcpy3DAsync_v2, (pCopy, call.stream), GPU_CALL_HOST(pCopy, src), GPU_CALL_HOST(pCopy, dst), 0, 0, (GPU_CALL_DEVICE(pCopy, dst), GPU_CALL_DEVICE(pCopy, src))) \
    X(cuMemcpy3D_v2_ptds, 7000, 1, (const CUDA_MEMCPY3D_v2 *pCopy), (pCopy), cuMemcpy3DAsync_v2, (pCopy, call.stream), GPU_CALL_HOST(pCopy, src), GPU_CALL_HOST(pCopy, dst), 0, 0, (GPU_CALL_DEVICE(pCopy, dst), GPU_CALL_DEVICE(pCopy, src))) \
    X(cuMemcpy3DPeer, 4000, 0, (const CUDA_MEMCPY3D_PEER_v1 *pCopy), (pCopy), cuMemcpy3DPeerAsync, (pCopy, call.stream), NULL, NULL, 0, 0, (GPU_CALL_DEVICE(pCopy, dst), GPU_CALL_DEVICE(pCopy, src))) \
    X(cuMemcpy3DPeer_ptds, 7000, 1, (const CUDA_MEMCPY3D_PEER_v1 *pCopy), (pCopy), cuMemcpy3DPeerAsync, (pCopy, call.stream), NULL, NULL, 0, 0, (GPU_CALL_DEVICE(pCopy, dst), GPU_CALL_DEVICE(pCopy, src))) \
    X(cuMemcpyAtoH_v2, 3020, 0, (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount), (dstHost, srcArray, srcOffset, ByteCount), cuMemcpyAtoHAsync_v2, (dstHost, srcArray, srcOffset, ByteCount, call.stream), NULL, dstHost, 0, 0, (0, 0)) \
    X(cuMemcpyAtoH_v2_ptds, 7000, 1, (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount), (dstHost, srcArray, srcOffset, ByteCount), cuMemcpyAtoHAsync_v2, (dstHost, srcArray, srcOffset, ByteCount, call.stream), NULL, dstHost, 0, 0, (0, 0)) \
    X(cuMemcpyDtoD_v2, 3020, 0, (CUdeviceptr_v2 dstDevice, CUdeviceptr_v2 srcDevice, size_t ByteCount), (dstDevice, srcDevice, ByteCount), cuMemcpyDtoDAsync_v2, (dstDevice, srcDevice, ByteCount, call.stream), NULL, NULL, dstDevice, srcDevice, (dstDevice, srcDevice)) \
    X(cuMemcpyDtoD_v2_ptds, 7000, 1, (CUdeviceptr_v2 dstDevice, CUdeviceptr_v2 srcDevice, size_t ByteCount), (dstDevice, srcDevice, ByteCount), cuMemcpyDtoDAsync_v2, (dstDevice, srcDevice, ByteCount, call.stream), NULL, NULL, dstDevice, srcDevice, (dstDevice, srcDevice)) \
    X(cuMemcpyHtoA_v2, 3020, 0, (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount), (dstArray, dstOffset, srcHost, ByteCount), cuMemcpyHtoAAsync_v2, (dstArray, dstOffset, srcHost, ByteCount, call.stream), srcHost, NULL, 0, 0, (0, 0)) \
    X(cuMemcpyHtoA_v2_ptds, 7000, 1, (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount), (dstArray, dstOffset, srcHost, ByteCount), cuMemcpyHtoAAsync_v2, (dstArray, dstOffset, srcHost, ByteCount, call.stream), srcHost, NULL, 0, 0, (0, 0)) \
    X(cuMemcpyPeer, 4000, 0, (CUdeviceptr_v2 dstDevice, CUcontext dstContext, CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount), (dstDevice, dstContext, srcDevice, srcContext, ByteCount), cuMemcpyPeerAsync, (dstDevice, dstContext, srcDevice, srcContext, ByteCount, call.stream), NULL, NULL, dstDevice, srcDevice, (dstDevice, srcDevice)) \
    X(cuMemcpyPeer_ptds, 7000, 1, (CUdeviceptr_v2 dstDevice, CUcontext dstContext, CUdeviceptr_v2 srcDevice, CUcontext srcContext, size_t ByteCount), (dstDevice, dstContext, srcDevice, srcContext, ByteCount), cuMemcpyPeerAsync, (dstDevice, dstContext, srcDevice, srcContext, ByteCount, call.stream), NULL, NULL, dstDevice, srcDevice, (dstDevice, srcDevice)) \
    X(cuMemsetD16_v2, 3020, 0, (CUdeviceptr_v2 dstDevice, unsigned short us, size_t N), (dstDevice, us, N), cuMemsetD16Async, (dstDevice, us, N, call.stream), NULL, NULL, dstDevice, 0, (0, 0)) \
    X(cuMemsetD16_v2_ptds, 7000, 1, (CUdeviceptr_v2 dstDevice, unsigned short us, size_t N), (dstDevice, us, N), cuMemsetD16Async, (dstDevice, us, N, call.stream), NULL, NULL, dstDevice, 0, (0, 0)) \
    X(cuMemsetD2D16_v2, 3020, 0, (CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height), (dstDevice, dstPitch, us, Width, Height), cuMemsetD2D16Async, (dstDevice, dstPitch, us, Width, Height, call.stream), NULL, NULL, dstDevice, 0, (0, 0)) \
    X(cuMemsetD2D16_v2_ptds, 7000, 1, (CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height), (dstDevice, dstPitch, us, Width, Height), cuMemsetD2D16Async, (dstDevice, dstPitch, us, Width, Height, call.stream), NULL, NULL, dstDevice, 0, (0, 0)) \
    X(cuMemsetD2D32_v2, 3020, 0, (CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height), (dstDevice, dstPitch, ui, Width, Height), cuMemsetD2D32Async, (dstDevice, dstPitch, ui, Width, Height, call.stream), NULL, NULL, dstDevice, 0, (0, 0)) \
    X(cuMemsetD2D32_v2_ptds, 7000, 1, (CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height), (dstDevice, dstPitch, ui, Width, Height), cuMemsetD2D32Async, (dstDevice, dstPitch, ui, Width, Height, call.stream), NULL, NULL, dstDevice, 0, (0, 0)) \
    X(cuMemsetD2D8_v2, 3020, 0, (CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height), (dstDevice, dstPitch, uc, Width, Height), cuMemsetD2D8Async, (dstDevice, dstPitch, uc, Width, Height, call.stream), NULL, NULL, dstDevice, 0, (0, 0)) \
    X(cuMemsetD2D8_v2_ptds, 7000, 1, (CUdeviceptr_v2 dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height), (dstDevice, dstPitch, uc, Width, Height), cuMemsetD2D8Async, (dstDevice, dstPitch, uc, Width, Height, call.stream), NULL, NULL, dstDevice, 0, (0, 0)) \
    X(cuMemsetD32_v2, 3020, 0, (CUdeviceptr_v2 dstDevice, unsigned int ui, size_t N), (dstDevice, ui, N), cuMemsetD32Async, (dstDevice, ui, N, call.stream), NULL, NULL, dstDevice, 0, (0, 0)) \
    X(cuMemsetD32_v2_ptds, 7000, 1, (CUdeviceptr_v2 dstDevice, unsigned int ui, size_t N), (dstDevice, ui, N), cuMemsetD32Async, (dstDevice, ui, N, call.stream), NULL, NULL, dstDevice, 0, (0, 0)) \
    X(cuMemsetD8_v2, 3020, 0, (CUdeviceptr_v2 dstDevice, unsigned char uc, size_t N), (dstDevice, uc, N), cuMemsetD8Async, (dstDevice, uc, N, call.stream), NULL, NULL, dstDevice, 0, (0, 0)) \
    X(cuMemsetD8_v2_ptds, 7000, 1, (CUdeviceptr_v2 dstDevice, unsigned char uc, size_t N), (dstDevice, uc, N), cuMemsetD8Async, (dstDevice, uc, N, call.stream), NULL, NULL, dstDevice, 0, (0, 0))
#define GPU_LONELY_CALLS(X) \
    X(cuMemcpyAtoA_v2, 3020, 0, (CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount), (dstArray, dstOffset, srcArray, srcOffset, ByteCount)) \
    X(cuMemcpyAtoA_v2_ptds, 7000, 1, (CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount), (dstArray, dstOffset, srcArray, srcOffset, ByteCount)) \
    X(cuMemcpyAtoD_v2, 3020, 0, (CUdeviceptr_v2 dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount), (dstDevice, srcArray, srcOffset, ByteCount)) \
    X(cuMemcpyAtoD_v2_ptds, 7000, 1, (CUdeviceptr_v2 dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount), (dstDevice, srcArray, srcOffset, ByteCount)) \
    X(cuMemcpyDtoA_v2, 3020, 0, (CUarray dstArray, size_t dstOffset, CUdeviceptr_v2 srcDevice, size_t ByteCount), (dstArray, dstOffset, srcDevice, ByteCount)) \
    X(cuMemcpyDtoA_v2_ptds, 7000, 1, (CUarray dstArray, size_t dstOffset, CUdeviceptr_v2 srcDevice, size_t ByteCount), (dstArray, dstOffset, srcDevice, ByteCount))
/* clang-format on */

#endif
