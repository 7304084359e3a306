/* SPDX-License-Identifier: BSD-3-Clause
 *
 * remote_writes.c: data that a network card has written into a GPU's memory (GPUDirect RDMA), and work that was in a stream
 * before it came.
 *
 * Kernels that are launched later see such data. Work behind a hold (gpu.h) is in the stream already: on devices that do not
 * order remote writes, the data must be flushed between its arrival and that work. The PE does so before it releases the
 * hold, or the stream's wait itself if the device has no other way.
 */
#include "gpu/streams/stream_sync.h"

static CUresult(CUDAAPI *flush)(CUflushGPUDirectRDMAWritesTarget target,
                                CUflushGPUDirectRDMAWritesScope scope);

static int attribute_of(int device, CUdevice_attribute attribute, int otherwise)
{
    CUdevice handle;
    int value;

    return gpu_driver.cuDeviceGet(&handle, device) == CUDA_SUCCESS &&
                   gpu_driver.cuDeviceGetAttribute(&value, attribute, handle) == CUDA_SUCCESS
               ? value
               : otherwise;
}

void gpu_sync_choose_flush(struct gpu_sync *sync)
{
    int ordering = attribute_of(sync->device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
                                CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
    int options = attribute_of(sync->device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 0);

    *(void **)&flush = gpu_driver_find("cuFlushGPUDirectRDMAWrites");
    sync->must_flush = false;
    sync->wait_flags = 0;
    if (ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER)
        return;
    if (flush && options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST)
        sync->must_flush = true;
    else if (options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS)
        sync->wait_flags = CU_STREAM_WAIT_VALUE_FLUSH;
}

void gpu_sync_flush(const struct gpu_sync *sync)
{
    CUcontext before;

    if (BASE_LIKELY(!sync->must_flush) || gpu_context_enter(sync->context, &before))
        return;
    (void)flush(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
    gpu_context_leave(sync->context, before);
}
