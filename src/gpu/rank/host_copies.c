/* SPDX-License-Identifier: BSD-3-Clause
 *
 * host_copies.c: cudaMemcpy between device memory and pageable host memory, on a rank's default stream.
 *
 * The driver makes such copies with the CPU's help, and its caller waits in the driver meanwhile. So small
 * copies to the host go to pinned memory; the rank is suspended until they arrive, and copies the bytes
 * itself. Copies from the host are read by the driver before it returns, once the stream is idle.
 */
#include "gpu/rank/stream_api.h"

#include <string.h>

#include "gpu/copy/call_watch.h"
#include "gpu/copy/pool.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/waits.h"
#include "gpu_detect.h"

#define real gpu_stream_real

bool gpu_host_is_pageable(const void *address)
{
    return address && gpu_memory_type((CUdeviceptr)address) == GPU_MEMORY_HOST;
}

/* Copies through pinned memory, if available. False: nothing was done. */
static bool copy_by_pinned(const struct gpu_call *call, void *to, CUdeviceptr from, size_t n_bytes,
                           const void *caller, CUresult *result_out)
{
    size_t room;
    int error = 0;
    void *pinned = gpu_pinned_get(n_bytes, &room, &error);

    if (!pinned)
        return false;
    gpu_submit_begin(caller);
    *result_out = real.r_cuMemcpyDtoHAsync_v2(pinned, from, n_bytes, call->stream);
    gpu_submit_end();
    gpu_call_end(call);
    if (*result_out == CUDA_SUCCESS)
        *result_out = gpu_wait_for_stream(call->stream, caller);
    if (*result_out == CUDA_SUCCESS)
        memcpy(to, pinned, n_bytes);
    gpu_pinned_put(pinned);
    return true;
}

static CUresult copy_to_host(void *to, CUdeviceptr from, size_t n_bytes, bool is_per_thread,
                             const void *caller, CUresult(CUDAAPI *function)(void *, CUdeviceptr, size_t))
{
    struct gpu_call call;
    CUresult result = gpu_call_begin(&call, NULL, is_per_thread, GPU_CALL_SUBMIT, caller);

    gpu_watch_call("cuMemcpyDtoH");
    if (result != CUDA_SUCCESS)
        return result;
    if (!call.face) {
        gpu_wait_for_special(CU_STREAM_LEGACY, is_per_thread, caller);
        return function(to, from, n_bytes);
    }
    if (gpu_wait_may_lend_pe(caller) && gpu_host_is_pageable(to)) {
        struct ult *entered = gpu_wait_enter();
        bool is_copied = n_bytes > 0 && n_bytes <= GPU_PINNED_LARGE &&
                         copy_by_pinned(&call, to, from, n_bytes, caller, &result);
        gpu_wait_leave(entered);
        if (is_copied)
            return result;
        (void)gpu_wait_for_stream(call.stream, caller); /* the copy returns the error, too */
    }
    gpu_submit_begin(caller);
    result = real.r_cuMemcpyDtoHAsync_v2(to, from, n_bytes, call.stream);
    gpu_submit_end();
    gpu_call_end(&call);
    if (result != CUDA_SUCCESS)
        return result;
    return gpu_wait_for_stream(call.stream, caller);
}

/* CUDA's rule: from pageable memory, the call returns when the bytes have been read, after the stream's
 * current work. */
static CUresult copy_from_host(CUdeviceptr to, const void *from, size_t n_bytes, bool is_per_thread,
                               const void *caller,
                               CUresult(CUDAAPI *function)(CUdeviceptr, const void *, size_t))
{
    struct gpu_call call;
    CUresult result = gpu_call_begin(&call, NULL, is_per_thread, GPU_CALL_SUBMIT, caller);
    bool is_pageable;

    gpu_watch_call("cuMemcpyHtoD");
    if (result != CUDA_SUCCESS)
        return result;
    if (!call.face) {
        gpu_wait_for_special(CU_STREAM_LEGACY, is_per_thread, caller);
        return function(to, from, n_bytes);
    }
    is_pageable = gpu_host_is_pageable(from);
    if (is_pageable)
        (void)gpu_wait_for_stream(call.stream, caller);
    gpu_submit_begin(caller);
    result = real.r_cuMemcpyHtoDAsync_v2(to, from, n_bytes, call.stream);
    gpu_submit_end();
    gpu_call_end(&call);
    if (result != CUDA_SUCCESS)
        return result;
    if (is_pageable && atomic_load_explicit(&gpu_streams_n_waiting, memory_order_relaxed) == 0 &&
        gpu_streams_return_early(&call, to, 0))
        return CUDA_SUCCESS;
    return gpu_wait_for_stream(call.stream, caller);
}

GPU_TWINS(gpu_api_copy_to_host, cuMemcpyDtoH_v2, _ptds, (void *to, CUdeviceptr from, size_t n_bytes),
          copy_to_host(to, from, n_bytes, twin, GPU_CALLER, driver))

GPU_TWINS(gpu_api_copy_from_host, cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void *from, size_t n_bytes),
          copy_from_host(to, from, n_bytes, twin, GPU_CALLER, driver))
