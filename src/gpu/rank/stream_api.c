/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_api.c: the stream functions of CUDA's driver, as the program calls them (stream_api.h): each finds
 * the rank's stream, waits in a way that lets other ranks run, and calls the driver's function.
 */
#include "gpu/copy/call_watch.h"
#include "gpu/rank/stream_api.h"

#include <string.h>

#include "base/log.h"
#include "gpu/rank/deferred_frees.h"
#include "gpu/rank/graph_launches.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/guard_calls.h"
#include "gpu/rank/offload.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/visible.h"
#include "gpu/rank/waits.h"

struct gpu_stream_real gpu_stream_real;
#define real gpu_stream_real

/* ---- Host memory ---- */

/* An address of the host or a device; and those in descriptions of copies. */
#define GPU_CALL_POINTER(address) ((const void *)(uintptr_t)(address))
#define GPU_CALL_HOST(copy, end)                                                                \
    (!(copy)                                            ? NULL                                  \
     : (copy)->end##MemoryType == CU_MEMORYTYPE_HOST    ? (copy)->end##Host                     \
     : (copy)->end##MemoryType == CU_MEMORYTYPE_UNIFIED ? GPU_CALL_POINTER((copy)->end##Device) \
                                                        : NULL)

/* The address of an end that may be a device's; and the ends of a copy as arguments. */
#define GPU_CALL_DEVICE(copy, end)                                            \
    (!(copy)                                            ? 0                   \
     : (copy)->end##MemoryType == CU_MEMORYTYPE_DEVICE  ? (copy)->end##Device \
     : (copy)->end##MemoryType == CU_MEMORYTYPE_UNIFIED ? (copy)->end##Device \
                                                        : 0)
#define GPU_CALL_ENDS(to, from) (CUdeviceptr)(to), (CUdeviceptr)(from)

/* The driver's number of a device that the program names. */
#define GPU_CALL_NUMBER(device) gpu_visible_to_driver(gpu_visible(GPU_CALLER), device)
#define GPU_CALL_PLACE(location) gpu_visible_place(gpu_visible(GPU_CALLER), location)

/* Up to this size the driver copies data from pageable memory at once, without waiting. */
#define TAKEN_ALONG ((size_t)64 << 10)

/* The driver copies pageable memory with the CPU's help, when the stream gets there. The PE must not wait
 * for that: the rank waits for the stream first. */
void gpu_api_wait_if_pageable(CUstream stream, const void *from, const void *to, size_t n_bytes,
                              const void *caller)
{
    if (!gpu_wait_may_lend_pe(caller))
        return;
    if (!gpu_host_is_pageable(to) && !(n_bytes > TAKEN_ALONG && gpu_host_is_pageable(from)))
        return;
    if (gpu_stream_is_captured(stream, NULL))
        return;
    if (gpu_waits_are_of_all_code) /* an idle stream may have to wait for the default stream, or that for others */
        gpu_wait_for_special(stream, false, caller);
    else
        (void)gpu_wait_for_stream(stream, caller); /* the copy returns the error, too */
}

/* ---- Calls that take a stream ---- */

/* True if the function of this name frees memory; the compiler evaluates it. */
static inline bool ends_memory(const char *name)
{
    static const char free_async[] = "cuMemFreeAsync";

    return strncmp(name, free_async, sizeof free_async - 1) == 0;
}

/* True if the function of this name allocates memory; the compiler evaluates it. */
static inline bool allocates(const char *name)
{
    static const char allocate[] = "cuMemAlloc";

    return strncmp(name, allocate, sizeof allocate - 1) == 0;
}

static BASE_COLD bool give_memory_back(int *n_attempts, const void *caller)
{
    return gpu_deferred_give_back(n_attempts, gpu_offload_is_wanted_later(caller));
}

/* True for the name of a wait for an event; the compiler evaluates it. */
static inline bool waits_for_event(const char *name)
{
    static const char wait[] = "cuStreamWaitEvent";

    return strncmp(name, wait, sizeof wait - 1) == 0;
}

/* True for the name of a launch of a graph; the compiler evaluates it. */
static inline bool launches_graph(const char *name)
{
    static const char launch[] = "cuGraphLaunch";

    return strncmp(name, launch, sizeof launch - 1) == 0;
}

/* The executable graph of a launch. */
#define LAUNCHED(exec, ...) ((CUgraphExec)(uintptr_t)(exec))

/* The stream of a call, where NULL is the legacy default stream. */
#define LAUNCH_STREAM(twin) (!call.stream && (twin) ? CU_STREAM_PER_THREAD : call.stream)

#define FUNCTION(name, version, twin, kind, parameters, arguments, from, to, bytes, ends) \
    static CUresult CUDAAPI call_##name parameters                                        \
    {                                                                                     \
        struct gpu_call call;                                                             \
        CUresult result;                                                                  \
        struct gpu_graph_launch launch = {.context = NULL};                               \
        int n_attempts = 0;                                                               \
        bool is_noted;                                                                    \
        gpu_guard_prepare();                                                              \
        result = gpu_call_begin(&call, stream, twin, GPU_CALL_##kind, GPU_CALLER);        \
        if (BASE_UNLIKELY(result != CUDA_SUCCESS))                                        \
            return result;                                                                \
        if (GPU_CALL_##kind != GPU_CALL_SUBMIT)                                           \
            return real.r_##name arguments;                                               \
        gpu_watch_call(#name);                                                            \
        gpu_call_make_room(&call, GPU_CALLER);                                            \
        result = gpu_call_reach(&call, GPU_CALL_ENDS ends);                               \
        if (BASE_UNLIKELY(result != CUDA_SUCCESS))                                        \
            return result;                                                                \
        if ((bytes) > 0 && gpu_waits_suspend)                                             \
            gpu_api_wait_if_pageable(call.stream, from, to, bytes, GPU_CALLER);           \
        is_noted = launches_graph(#name) && gpu_graph_exec_may_wait(LAUNCHED arguments);  \
        if (is_noted)                                                                     \
            gpu_graph_launch_begin(&launch, LAUNCH_STREAM(twin), GPU_CALLER);             \
        if (waits_for_event(#name))                                                       \
            gpu_graph_wait_begin(&launch, LAUNCH_STREAM(twin), GPU_CALLER);               \
        gpu_submit_begin_to(LAUNCH_STREAM(twin), GPU_CALLER);                             \
        result = real.r_##name arguments;                                                 \
        if (launch.context)                                                               \
            gpu_graph_launch_end(&launch, LAUNCH_STREAM(twin), result == CUDA_SUCCESS);   \
        gpu_submit_end();                                                                 \
        while (allocates(#name) && result == CUDA_ERROR_OUT_OF_MEMORY &&                  \
               give_memory_back(&n_attempts, GPU_CALLER)) {                               \
            gpu_submit_begin(GPU_CALLER);                                                 \
            result = real.r_##name arguments;                                             \
            gpu_submit_end();                                                             \
        }                                                                                 \
        gpu_call_end(&call);                                                              \
        if (waits_for_event(#name))                                                       \
            result = gpu_capture_keep_out(&call, result);                                 \
        if (ends_memory(#name) || allocates(#name))                                       \
            gpu_count_change();                                                           \
        return result;                                                                    \
    }
GPU_STREAM_CALLS(FUNCTION)
#undef FUNCTION

/* ---- Calls that work on the default stream and wait ---- */

/* Completes a call that was put on the default stream. Copies within device memory usually need not wait. */
static CUresult finish(const struct gpu_call *call, CUdeviceptr written, CUdeviceptr read, const void *caller)
{
    return gpu_streams_return_early(call, written, read) ? CUDA_SUCCESS
                                                         : gpu_wait_for_stream(call->stream, caller);
}

/* Calls the driver's own function, on its own default stream, ordered after the rank's work and before
 * later work. */
#define CALL_NATIVE(call, caller, function, arguments)           \
    (result = gpu_wait_for_stream((call).stream, caller),        \
     result == CUDA_SUCCESS ? (result = function arguments) : 0, \
     result == CUDA_SUCCESS ? gpu_driver.cuStreamSynchronize(CU_STREAM_LEGACY) : result)

/* The driver rejects some copies only in their asynchronous form (unaligned pitches). */
#define FUNCTION(name, version, twin, parameters, arguments, async, async_arguments, from, to, written, \
                 read, ends)                                                                            \
    static CUresult CUDAAPI call_##name parameters                                                      \
    {                                                                                                   \
        struct gpu_call call;                                                                           \
        CUresult result;                                                                                \
        gpu_guard_prepare();                                                                            \
        result = gpu_call_begin(&call, NULL, twin, GPU_CALL_SUBMIT, GPU_CALLER);                        \
        if (result != CUDA_SUCCESS)                                                                     \
            return result;                                                                              \
        if (!call.face) {                                                                               \
            if (!gpu_waits_are_of_all_code || !gpu_driver_returns_early(written, read))                 \
                gpu_wait_for_special(CU_STREAM_LEGACY, twin, GPU_CALLER);                               \
            return real.r_##name arguments;                                                             \
        }                                                                                               \
        gpu_watch_call(#name);                                                                          \
        gpu_call_make_room(&call, GPU_CALLER);                                                          \
        result = gpu_call_reach(&call, GPU_CALL_ENDS ends);                                             \
        if (BASE_UNLIKELY(result != CUDA_SUCCESS))                                                      \
            return result;                                                                              \
        gpu_api_wait_if_pageable(call.stream, from, to, SIZE_MAX, GPU_CALLER);                          \
        gpu_submit_begin(GPU_CALLER);                                                                   \
        result = real.r_##async async_arguments;                                                        \
        gpu_submit_end();                                                                               \
        gpu_call_end(&call);                                                                            \
        if (BASE_UNLIKELY(result == CUDA_ERROR_INVALID_VALUE))                                          \
            return CALL_NATIVE(call, GPU_CALLER, real.r_##name, arguments);                             \
        return result != CUDA_SUCCESS ? result : finish(&call, written, read, GPU_CALLER);              \
    }
GPU_WAITING_CALLS(FUNCTION)
#undef FUNCTION

#define FUNCTION(name, version, twin, parameters, arguments)                     \
    static CUresult CUDAAPI call_##name parameters                               \
    {                                                                            \
        struct gpu_call call;                                                    \
        CUresult result;                                                         \
        gpu_guard_prepare();                                                     \
        result = gpu_call_begin(&call, NULL, twin, GPU_CALL_SUBMIT, GPU_CALLER); \
        if (result != CUDA_SUCCESS)                                              \
            return result;                                                       \
        if (!call.face) {                                                        \
            gpu_wait_for_special(CU_STREAM_LEGACY, twin, GPU_CALLER);            \
            return real.r_##name arguments;                                      \
        }                                                                        \
        return CALL_NATIVE(call, GPU_CALLER, real.r_##name, arguments);          \
    }
GPU_LONELY_CALLS(FUNCTION)
#undef FUNCTION

/* ---- Waits ---- */

static CUresult synchronize(CUstream stream, bool is_per_thread, const void *caller,
                            CUresult(CUDAAPI *function)(CUstream))
{
    struct gpu_call call;
    CUresult result;

    result = gpu_call_begin(&call, stream, is_per_thread, GPU_CALL_JOIN, caller);
    if (result != CUDA_SUCCESS)
        return result;
    if (call.face || call.stream > CU_STREAM_PER_THREAD)
        return gpu_wait_for_stream(call.stream, caller);
    gpu_wait_for_special(call.stream, is_per_thread, caller); /* a stream of the current context */
    return function(call.stream);
}

GPU_TWINS(gpu_api_stream_synchronize, cuStreamSynchronize, _ptsz, (CUstream stream),
          synchronize(stream, twin, GPU_CALLER, driver))

CUresult CUDAAPI gpu_api_event_synchronize(CUevent event)
{
    gpu_guard_prepare();
    return gpu_wait_for_event(event, GPU_CALLER);
}

static CUresult query(CUstream stream, bool is_per_thread, const void *caller,
                      CUresult(CUDAAPI *function)(CUstream))
{
    struct gpu_call call;
    CUresult result;

    if (BASE_UNLIKELY(gpu_kept_is_behind(stream, is_per_thread))) {
        gpu_wait_before_asking_again(caller);
        return CUDA_ERROR_NOT_READY;
    }
    result = gpu_call_begin(&call, stream, is_per_thread, GPU_CALL_JOIN, caller);
    if (result == CUDA_SUCCESS)
        result = function(call.stream);
    if (result == CUDA_ERROR_NOT_READY)
        gpu_wait_before_asking_again(caller);
    else
        gpu_wait_is_over(caller);
    return result;
}

GPU_TWINS(gpu_api_stream_query, cuStreamQuery, _ptsz, (CUstream stream),
          query(stream, twin, GPU_CALLER, driver))

CUresult CUDAAPI gpu_api_event_query(CUevent event)
{
    CUresult result;

    gpu_guard_prepare();
    result = real.r_cuEventQuery(event);
    if (result == CUDA_ERROR_NOT_READY)
        gpu_wait_before_asking_again(GPU_CALLER);
    else
        gpu_wait_is_over(GPU_CALLER);
    return result;
}

/* ---- All of a rank's streams ---- */

#define AWAITED_FEW 16

/* The work to wait for, as it was at the start of the wait. */
struct awaited {
    CUstream *streams;
    CUevent *events;
    int n_streams;
    int n_events;
    bool skips_captured; /* streams that are being captured */
    CUstream few_streams[AWAITED_FEW];
    CUevent few_events[AWAITED_FEW];
};

static void collect_stream(struct awaited *awaited, CUstream stream)
{
    if (!awaited->skips_captured || !gpu_stream_is_captured(stream, NULL))
        awaited->streams[awaited->n_streams++] = stream;
}

/* Lock held. False: a stream is being captured. */
static bool collect(struct gpu_rank_streams *rank, struct gpu_face *face, struct awaited *awaited)
{
    size_t n = 2, n_orphans = 0;

    for (const struct gpu_stream *i = face->streams; i; i = i->next)
        n++;
    for (const struct gpu_orphan *i = face->orphans; i; i = i->next)
        n_orphans++;
    if (n > AWAITED_FEW)
        awaited->streams = base_malloc(n * sizeof(CUstream), "a rank's streams");
    if (n_orphans > AWAITED_FEW)
        awaited->events = base_malloc(n_orphans * sizeof(CUevent), "a rank's streams");
    for (const struct gpu_stream *i = face->streams; i; i = i->next)
        collect_stream(awaited, i->stream);
    if (face->thread.stream)
        collect_stream(awaited, face->thread.stream);
    if (face->base.stream)
        collect_stream(awaited, face->base.stream);
    for (const struct gpu_orphan *i = face->orphans; i; i = i->next)
        awaited->events[awaited->n_events++] = i->event;
    return awaited->skips_captured || rank->n_captures == 0 || !gpu_streams_are_captured(face, true, true);
}

static void free_awaited(struct awaited *awaited)
{
    if (awaited->streams != awaited->few_streams)
        free(awaited->streams);
    if (awaited->events != awaited->few_events)
        free(awaited->events);
}

static CUresult wait_for_all(const struct awaited *awaited, const void *caller)
{
    CUresult result = CUDA_SUCCESS;

    for (int i = 0; i < awaited->n_events && result == CUDA_SUCCESS; i++)
        result = gpu_wait_for_event(awaited->events[i], caller);
    for (int i = 0; i < awaited->n_streams && result == CUDA_SUCCESS; i++)
        result = gpu_wait_for_stream(awaited->streams[i], caller);
    if (result == CUDA_SUCCESS && awaited->n_streams == 0 &&
        !awaited->skips_captured) { /* a failed context returns its error */
        result = gpu_driver.cuStreamQuery(CU_STREAM_LEGACY);
        if (result == CUDA_ERROR_NOT_READY)
            result = CUDA_SUCCESS;
    }
    return result;
}

static bool synchronize_streams(CUcontext context, bool skips_captured, const void *caller,
                                CUresult *result_out)
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    struct awaited awaited;
    struct gpu_face *face;
    bool can_wait = false;

    if (gpu_kept_is_any())
        gpu_kept_pass(GPU_KEPT_ALL, false, caller);
    if (!rank)
        return false;
    awaited.streams = awaited.few_streams;
    awaited.events = awaited.few_events;
    awaited.n_streams = awaited.n_events = 0;
    awaited.skips_captured = skips_captured;
    pthread_mutex_lock(&rank->lock);
    face = gpu_streams_face(rank, context);
    if (face)
        can_wait = collect(rank, face, &awaited);
    gpu_orphans_begin_wait(rank);
    pthread_mutex_unlock(&rank->lock);
    if (face)
        *result_out = can_wait ? wait_for_all(&awaited, caller) : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    gpu_orphans_end_wait(rank, caller);
    free_awaited(&awaited);
    return face != NULL;
}

bool gpu_streams_synchronize(CUcontext context, const void *caller, CUresult *result_out)
{
    return synchronize_streams(context, false, caller, result_out);
}

bool gpu_streams_synchronize_uncaptured(CUcontext context, const void *caller, CUresult *result_out)
{
    return synchronize_streams(context, true, caller, result_out);
}

bool gpu_streams_are_idle(CUcontext context)
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    struct awaited awaited = {.n_streams = 0};
    struct gpu_face *face;
    bool is_idle;

    if (!rank || gpu_kept_is_any())
        return false;
    awaited.streams = awaited.few_streams;
    awaited.events = awaited.few_events;
    pthread_mutex_lock(&rank->lock);
    face = gpu_streams_face(rank, context);
    is_idle = face && rank->n_captures == 0 && collect(rank, face, &awaited);
    for (int i = 0; i < awaited.n_events && is_idle; i++)
        is_idle = gpu_driver.cuEventQuery(awaited.events[i]) == CUDA_SUCCESS;
    for (int i = 0; i < awaited.n_streams && is_idle; i++)
        is_idle = gpu_driver.cuStreamQuery(awaited.streams[i]) == CUDA_SUCCESS;
    pthread_mutex_unlock(&rank->lock);
    free_awaited(&awaited);
    return is_idle;
}

/* The driver's wait for all work in a context that the program created. */
struct synchronize_call {
    struct gpu_offload offload;
    CUcontext context;
};

static void run_synchronize(struct gpu_offload *offload)
{
    offload->result = gpu_guard_synchronize();
}

static void run_synchronize_v2(struct gpu_offload *offload)
{
    offload->result =
        gpu_guard_synchronize_v2(BASE_CONTAINER(offload, struct synchronize_call, offload)->context);
}

static CUresult synchronize_context(CUcontext context, const void *caller, void (*run)(struct gpu_offload *))
{
    struct synchronize_call call = {{.run = run}, context};
    CUresult result;

    gpu_guard_prepare();
    gpu_wait_for_all(context, caller);
    return gpu_streams_synchronize(context, caller, &result)
               ? result
               : gpu_offload_call(&call.offload, gpu_offload_is_wanted(caller));
}

CUresult CUDAAPI gpu_api_context_synchronize(void)
{
    return synchronize_context(NULL, GPU_CALLER, run_synchronize);
}

CUresult CUDAAPI gpu_api_context_synchronize_v2(CUcontext context)
{
    return synchronize_context(context, GPU_CALLER, run_synchronize_v2);
}

/* ---- Others ---- */

static CUresult get_flags(CUstream stream, bool is_per_thread, unsigned *flags_out,
                          CUresult(CUDAAPI *function)(CUstream, unsigned *))
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    const struct gpu_stream *known;
    struct gpu_call call;
    CUresult result = gpu_call_begin(&call, stream, is_per_thread, GPU_CALL_ASK, NULL);

    if (result == CUDA_SUCCESS)
        result = function(call.stream, flags_out);
    if (!rank || result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&rank->lock);
    known = gpu_streams_find(rank, call.stream);
    if (call.face || (known && known->is_blocking))
        *flags_out &= ~(unsigned)CU_STREAM_NON_BLOCKING;
    pthread_mutex_unlock(&rank->lock);
    return result;
}

GPU_TWINS(gpu_api_stream_flags, cuStreamGetFlags, _ptsz, (CUstream stream, unsigned *flags_out),
          get_flags(stream, twin, flags_out, driver))

static CUresult get_id(CUstream stream, bool is_per_thread, unsigned long long *id_out,
                       CUresult(CUDAAPI *function)(CUstream, unsigned long long *))
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    const struct gpu_stream *known;
    struct gpu_call call;
    CUresult result = gpu_call_begin(&call, stream, is_per_thread, GPU_CALL_ASK, NULL);

    if (result == CUDA_SUCCESS)
        result = function(call.stream, id_out);
    if (!rank || result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&rank->lock);
    known = gpu_streams_find(rank, call.stream);
    if (known)
        *id_out = known->id;
    pthread_mutex_unlock(&rank->lock);
    return result;
}

GPU_TWINS(gpu_api_stream_id, cuStreamGetId, _ptsz, (CUstream stream, unsigned long long *id_out),
          get_id(stream, twin, id_out, driver))

static CUresult copy_attributes(CUstream to, CUstream from, bool is_per_thread,
                                CUresult(CUDAAPI *function)(CUstream, CUstream))
{
    struct gpu_call first, second;
    CUresult result = gpu_call_begin(&first, to, is_per_thread, GPU_CALL_ASK, NULL);

    gpu_streams_change(to);
    if (result == CUDA_SUCCESS)
        result = gpu_call_begin(&second, from, is_per_thread, GPU_CALL_ASK, NULL);
    return result == CUDA_SUCCESS ? function(first.stream, second.stream) : result;
}

GPU_TWINS(gpu_api_copy_attributes, cuStreamCopyAttributes, _ptsz, (CUstream to, CUstream from),
          copy_attributes(to, from, twin, driver))

/* ---- The list ---- */

const struct gpu_guarded gpu_stream_functions[] = {
#define ROW(name, version, parameters, ours, why) \
    {#name, (void *)ours, version, why, (void **)&gpu_stream_real.r_##name},
    GPU_STREAM_API_CALLS(ROW)
#undef ROW
#define ROW(name, version, twin, kind, parameters, arguments, from, to, bytes, ends) \
    {#name, (void *)call_##name, version, "the default stream is the rank's",        \
     (void **)&gpu_stream_real.r_##name},
        GPU_STREAM_CALLS(ROW)
#undef ROW
#define ROW(name, version, twin, parameters, arguments, async, async_arguments, from, to, written, read, \
            ends)                                                                                        \
    {#name, (void *)call_##name, version, "waits for the default stream", (void **)&gpu_stream_real.r_##name},
            GPU_WAITING_CALLS(ROW)
#undef ROW
#define ROW(name, version, twin, parameters, arguments) \
    {#name, (void *)call_##name, version, "waits for the default stream", (void **)&gpu_stream_real.r_##name},
                GPU_LONELY_CALLS(ROW)
#undef ROW
};
const size_t gpu_n_stream_functions = BASE_COUNT(gpu_stream_functions);
