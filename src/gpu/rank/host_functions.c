/* SPDX-License-Identifier: BSD-3-Clause
 *
 * host_functions.c: functions of the program that CUDA calls on a thread of its own when a stream comes to them (stream_api.h).
 *
 * They may call MPI, which CUDA does not know, but not CUDA. So the PE is shared with CUDA's threads if the rank's thread
 * level allows it, and while such a function runs, its thread polls no GPU (ult_polls_in_part).
 */
#include "base/log.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/waits.h"

#define real gpu_stream_real

_Atomic int gpu_n_callbacks;

/* What the program passed. */
struct callback {
    CUhostFn host;             /* NULL: the next field is set */
    CUstreamCallback function; /* gets the stream */
    CUstream stream;
    void *data;
    bool is_captured; /* graphs call it again */
};

static struct callback begin(void *data)
{
    struct callback callback = *(struct callback *)data;

    if (!callback.is_captured)
        free(data);
    ult_polls_in_part = true;
    return callback;
}

static void end(const struct callback *callback)
{
    ult_polls_in_part = false;
    if (callback->is_captured)
        return;
    atomic_fetch_sub(&gpu_n_callbacks, 1);
    ult_wake_all(); /* the ranks may wait for nothing any more */
}

/* On a thread of the driver. */
static void CUDA_CB call_host(void *data)
{
    struct callback callback = begin(data);

    callback.host(callback.data);
    end(&callback);
}

static void CUDA_CB call_back(CUstream stream, CUresult result, void *data)
{
    struct callback callback = begin(data);

    (void)stream;
    callback.function(callback.stream, result, callback.data);
    end(&callback);
}

/* The functions of the driver, one of which adds the callback. */
struct adder {
    __typeof__(gpu_stream_real.r_cuLaunchHostFunc) host;
    __typeof__(gpu_stream_real.r_cuStreamAddCallback) function;
};

static CUresult add(struct callback what, bool is_per_thread, unsigned flags, const void *caller,
                    struct adder adder)
{
    struct callback *kept;
    struct gpu_call call;
    CUresult result;

    if (gpu_expect_thread)
        gpu_expect_thread();
    result = gpu_call_begin(&call, what.stream, is_per_thread, GPU_CALL_SUBMIT, caller);
    if (result != CUDA_SUCCESS)
        return result;
    gpu_call_make_room(&call, caller);
    kept = base_malloc(sizeof *kept, "a callback of a stream");
    *kept = what;
    kept->is_captured = gpu_stream_is_captured(call.stream, NULL);
    atomic_fetch_add(&gpu_n_callbacks, 1);
    gpu_submit_begin(caller);
    result = what.host ? adder.host(call.stream, call_host, kept)
                       : adder.function(call.stream, call_back, kept, flags);
    gpu_submit_end();
    gpu_call_end(&call);
    if (result != CUDA_SUCCESS) {
        atomic_fetch_sub(&gpu_n_callbacks, 1);
        free(kept);
    }
    return result;
}

/* ---- The functions; without a function to call, the driver returns the error ---- */

GPU_TWINS(gpu_api_add_callback, cuStreamAddCallback, _ptsz,
          (CUstream stream, CUstreamCallback callback, void *data, unsigned flags),
          (callback ? add((struct callback){.function = callback, .stream = stream, .data = data}, twin,
                          flags, GPU_CALLER, (struct adder){.function = driver})
                    : driver(stream, callback, data, flags)))

GPU_TWINS(gpu_api_launch_host, cuLaunchHostFunc, _ptsz, (CUstream stream, CUhostFn function, void *data),
          (function ? add((struct callback){.host = function, .stream = stream, .data = data}, twin, 0,
                          GPU_CALLER, (struct adder){.host = driver})
                    : driver(stream, function, data)))
