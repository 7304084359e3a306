/* SPDX-License-Identifier: BSD-3-Clause
 *
 * repeat_calls.c: launches and copies that may be part of a sequence (repeats.h), as the program calls
 * them.
 */
#include "gpu/copy/call_watch.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/repeats.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/waits.h"

#define real gpu_stream_real

/* The call's stream, and the receiver of the operation; NULL: the driver. */
struct taker {
    struct gpu_call call;
    struct gpu_repeats *repeats;
    CUcontext context;
};

/* Success: a submission has begun (drain.h). */
static CUresult begin(struct taker *taker, const char *what, CUstream stream, bool is_per_thread,
                      const void *caller)
{
    CUresult result;

    gpu_watch_call(what);
    gpu_guard_find();
    gpu_repeats_break_unless(stream, is_per_thread);
    result = gpu_call_begin(&taker->call, stream, is_per_thread, GPU_CALL_SUBMIT, caller);
    if (result != CUDA_SUCCESS)
        return result;
    gpu_call_make_room(&taker->call, caller);
    gpu_submit_begin(caller);
    taker->repeats = gpu_repeats_for(&taker->call, stream, is_per_thread, &taker->context);
    return CUDA_SUCCESS;
}

/* True: the sequences have taken the operation. False: it must go to the driver, and the sequence is over. */
static bool take(const struct taker *taker, bool is_good, const struct gpu_operation *op, const char *data,
                 CUresult *result_out)
{
    if (!is_good) {
        gpu_repeats_break();
        return false;
    }
    *result_out = gpu_repeats_take(taker->repeats, taker->call.stream, taker->context, op, data);
    return true;
}

/* ---- Launches ---- */

bool gpu_repeats_take_launch(const struct gpu_call *call, CUstream stream, bool is_per_thread,
                             CUfunction function, const unsigned sizes[7], void **parameters, void **extra,
                             const void *caller, CUresult *result_out)
{
    struct taker taker = {.call = *call};
    char data[GPU_ARGUMENTS_MAX];
    struct gpu_operation op;
    bool is_good, is_taken;

    gpu_submit_begin(caller);
    taker.repeats = gpu_repeats_for(call, stream, is_per_thread, &taker.context);
    is_good = taker.repeats && gpu_op_of_launch(gpu_repeats_kernels(taker.repeats), function, sizes,
                                                parameters, extra, &op, data);
    is_taken = take(&taker, is_good, &op, data, result_out);
    gpu_submit_end();
    return is_taken;
}

/* ---- Calls that must not overtake held-back work, or that invalidate graphs ---- */

/* The driver refuses to attach memory to the legacy stream alone. */
static CUresult attach(CUstream stream, CUdeviceptr address, size_t n_bytes, unsigned flags,
                       bool is_per_thread, const void *caller,
                       CUresult(CUDAAPI *function)(CUstream, CUdeviceptr, size_t, unsigned))
{
    bool is_legacy = stream == CU_STREAM_LEGACY || (!stream && !is_per_thread);
    struct gpu_call call;
    CUresult result;

    if (is_legacy && flags == CU_MEM_ATTACH_SINGLE)
        return function(stream, address, n_bytes, flags);
    result = gpu_call_begin(&call, stream, is_per_thread, GPU_CALL_SUBMIT, caller);
    if (result != CUDA_SUCCESS)
        return result;
    gpu_streams_change(stream);
    gpu_submit_begin(caller);
    result = function(call.stream, address, n_bytes, flags);
    gpu_submit_end();
    gpu_call_end(&call);
    return result;
}

GPU_TWINS(gpu_repeat_attach, cuStreamAttachMemAsync, _ptsz,
          (CUstream stream, CUdeviceptr address, size_t n_bytes, unsigned flags),
          attach(stream, address, n_bytes, flags, twin, GPU_CALLER, driver))

static CUresult
set_attribute(CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *value, bool is_per_thread,
              CUresult(CUDAAPI *function)(CUstream, CUstreamAttrID, const CUstreamAttrValue *))
{
    struct gpu_call call;
    CUresult result = gpu_call_begin(&call, stream, is_per_thread, GPU_CALL_ASK, NULL);

    gpu_repeats_forget(); /* a graph has the attributes of its stream */
    gpu_streams_change(stream);
    return result == CUDA_SUCCESS ? function(call.stream, attribute, value) : result;
}

GPU_TWINS(gpu_repeat_set_attribute, cuStreamSetAttribute, _ptsz,
          (CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *value),
          set_attribute(stream, attribute, value, twin, driver))

CUresult CUDAAPI gpu_repeat_unmap(CUdeviceptr address, size_t n_bytes)
{
    gpu_guard_prepare();
    gpu_repeats_forget();
    return real.r_cuMemUnmap(address, n_bytes);
}

/* ---- Copies ---- */

/* Ends the submission that begin() has begun. For pageable memory the rank waits for the stream first (stream_api.c);
 * such a copy is in no sequence. */
static bool take_copy(const struct taker *taker, enum gpu_operation_kind kind, CUdeviceptr to,
                      CUdeviceptr from, size_t n_bytes, const void *caller, CUresult *result_out)
{
    const void *read = kind == GPU_OP_COPY || kind == GPU_OP_COPY_TO_DEVICE ? (const void *)from : NULL;
    const void *written = kind == GPU_OP_COPY || kind == GPU_OP_COPY_TO_HOST ? (const void *)to : NULL;
    struct gpu_operation op;
    bool is_good = taker->repeats && !taker->call.peers[0] && gpu_op_of_copy(kind, to, from, n_bytes, &op) &&
                   (gpu_repeats_has(taker->repeats, &op) || gpu_op_is_safe(&op));

    bool is_taken = take(taker, is_good, &op, NULL, result_out);

    gpu_submit_end();
    if (is_taken)
        return true;
    if (n_bytes > 0 && gpu_waits_suspend)
        gpu_api_wait_if_pageable(taker->call.stream, read, written, n_bytes, caller);
    return false;
}

#define COPY(name, is_per_thread, kind, to_type, from_type)                                            \
    CUresult CUDAAPI gpu_repeat_##name(to_type to, from_type from, size_t n_bytes, CUstream stream)    \
    {                                                                                                  \
        struct taker taker;                                                                            \
        CUresult result = begin(&taker, #name, stream, is_per_thread, GPU_CALLER);                     \
        if (result == CUDA_SUCCESS && (kind == GPU_OP_COPY || kind == GPU_OP_COPY_WITHIN))             \
            result = gpu_call_reach(&taker.call, (CUdeviceptr)to, (CUdeviceptr)from);                  \
        if (result != CUDA_SUCCESS ||                                                                  \
            take_copy(&taker, kind, (CUdeviceptr)to, (CUdeviceptr)from, n_bytes, GPU_CALLER, &result)) \
            return result;                                                                             \
        gpu_submit_begin(GPU_CALLER);                                                                  \
        result = real.r_##name(to, from, n_bytes, taker.call.stream);                                  \
        gpu_submit_end();                                                                              \
        gpu_call_end(&taker.call);                                                                     \
        return result;                                                                                 \
    }
COPY(cuMemcpyAsync, false, GPU_OP_COPY, CUdeviceptr, CUdeviceptr)
COPY(cuMemcpyAsync_ptsz, true, GPU_OP_COPY, CUdeviceptr, CUdeviceptr)
COPY(cuMemcpyHtoDAsync_v2, false, GPU_OP_COPY_TO_DEVICE, CUdeviceptr, const void *)
COPY(cuMemcpyHtoDAsync_v2_ptsz, true, GPU_OP_COPY_TO_DEVICE, CUdeviceptr, const void *)
COPY(cuMemcpyDtoHAsync_v2, false, GPU_OP_COPY_TO_HOST, void *, CUdeviceptr)
COPY(cuMemcpyDtoHAsync_v2_ptsz, true, GPU_OP_COPY_TO_HOST, void *, CUdeviceptr)
COPY(cuMemcpyDtoDAsync_v2, false, GPU_OP_COPY_WITHIN, CUdeviceptr, CUdeviceptr)
COPY(cuMemcpyDtoDAsync_v2_ptsz, true, GPU_OP_COPY_WITHIN, CUdeviceptr, CUdeviceptr)
#undef COPY
