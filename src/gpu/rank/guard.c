/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard.c: replacements of the CUDA driver functions that wait for all work on a GPU; see guard.h. Each one
 * evicts the resident kernels, keeps them away, and calls the driver's function.
 *
 * The list of waiting functions was measured with bench/gpu/waiting_calls.cu. None waits
 * for a GPU other than that of its context or memory, but finding that GPU takes a query, so all kernels
 * are evicted where the call takes long anyway. launches.c handles the first launch of a kernel, which
 * loads it.
 */
#include "gpu/rank/guard.h"

#include <string.h>

#include "base/log.h"
#include "gpu/copy/resident.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/driver_monitor.h"
#include "gpu/rank/deferred_frees.h"
#include "gpu/rank/guard_calls.h"
#include "gpu/rank/launches.h"
#include "gpu/rank/offload.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/repeats.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/stream_stock.h"
#include "gpu/rank/streams.h"
#include "gpu/rank/waits.h"
#include "gpu_detect.h"

#define AS_TEXT(name) AS_TEXT_2(name)
#define AS_TEXT_2(name) #name

/* Missing in some versions of cuda.h, or named differently. */
CUresult CUDAAPI cuFuncLoad(CUfunction function);

/* X(function, the first version of CUDA whose cuGetProcAddress has it, its number of parameters, (their
 * types and names), GPU whose kernels are evicted, drain_tries (offload.h), what the rank does afterwards, why) */
#define WAITING(X)                                                                                          \
    X(cuCtxSetLimit, 3010, 2, (CUlimit, limit, size_t, value), GPU_RESIDENT_ALL, GPU_DRAIN_OFTEN,           \
      gpu_repeats_forget(), "waits for the GPU to change the stacks of kernels")                            \
    X(cuMemFree, 3020, 1, (CUdeviceptr, memory), GPU_RESIDENT_ALL, GPU_DRAIN_OFTEN, gpu_repeats_forget(),   \
      "waits for the memory's GPU")                                                                         \
    X(cuMemFreeHost, 2000, 1, (void *, memory), GPU_RESIDENT_ALL, GPU_DRAIN_OFTEN, gpu_repeats_forget(),    \
      "waits for the GPU")                                                                                  \
    X(cuMemHostUnregister, 4000, 1, (void *, memory), GPU_RESIDENT_ALL, GPU_DRAIN_OFTEN,                    \
      gpu_repeats_forget(), "waits for the GPU")                                                            \
    X(cuArrayDestroy, 2000, 1, (CUarray, array), GPU_RESIDENT_ALL, GPU_DRAIN_OFTEN, gpu_repeats_forget(),   \
      "waits for the memory's GPU")                                                                         \
    X(cuMipmappedArrayDestroy, 5000, 1, (CUmipmappedArray, array), GPU_RESIDENT_ALL, GPU_DRAIN_OFTEN,       \
      gpu_repeats_forget(), "waits for the memory's GPU")                                                   \
    X(cuModuleLoad, 2000, 2, (CUmodule *, module, const char *, path), GPU_RESIDENT_CURRENT,                \
      GPU_DRAIN_OFTEN, nothing(), "waits for the GPU")                                                      \
    X(cuModuleLoadData, 2000, 2, (CUmodule *, module, const void *, image), GPU_RESIDENT_CURRENT,           \
      GPU_DRAIN_OFTEN, nothing(), "waits for the GPU")                                                      \
    X(cuModuleLoadDataEx, 2010, 5,                                                                          \
      (CUmodule *, module, const void *, image, unsigned, n_options, CUjit_option *, options, void **,      \
       values),                                                                                             \
      GPU_RESIDENT_CURRENT, GPU_DRAIN_OFTEN, nothing(), "waits for the GPU")                                \
    X(cuModuleLoadFatBinary, 2000, 2, (CUmodule *, module, const void *, image), GPU_RESIDENT_CURRENT,      \
      GPU_DRAIN_OFTEN, nothing(), "waits for the GPU")                                                      \
    X(cuModuleUnload, 2000, 1, (CUmodule, module), GPU_RESIDENT_ALL, GPU_DRAIN_OFTEN, forget_kernels(),     \
      "waits for the GPU")                                                                                  \
    X(cuLibraryUnload, 12000, 1, (CUlibrary, library), GPU_RESIDENT_ALL, GPU_DRAIN_OFTEN, forget_kernels(), \
      "waits for the GPU")                                                                                  \
    X(cuKernelGetFunction, 12000, 2, (CUfunction *, function, CUkernel, kernel), GPU_RESIDENT_CURRENT,      \
      gpu_launches_know(kernel) ? 0 : GPU_DRAIN_OFTEN, note(kernel, result),                                \
      "may load the kernel, and waits for the GPU then")                                                    \
    X(cuFuncLoad, 12040, 1, (CUfunction, function), GPU_RESIDENT_CURRENT, gpu_guard_tries(function),        \
      nothing(), "waits for the GPU")

/* The memory that the function of this name frees; the compiler evaluates it. */
static inline enum gpu_deferred_kind deferred_kind(const char *name)
{
    return strcmp(name, AS_TEXT(cuMemFree)) == 0       ? GPU_DEFERRED_DEVICE
           : strcmp(name, AS_TEXT(cuMemFreeHost)) == 0 ? GPU_DEFERRED_PINNED
                                                       : GPU_DEFERRED_NOT;
}

/* From a list of types and names: the first name, the parameters, their names, their fields in the struct of a call. */
#define FIRST_1(t1, n1) n1
#define FIRST_2(t1, n1, ...) n1
#define FIRST_5(t1, n1, ...) n1
#define PARAMETERS_1(t1, n1) t1 n1
#define PARAMETERS_2(t1, n1, ...) t1 n1, PARAMETERS_1(__VA_ARGS__)
#define PARAMETERS_3(t1, n1, ...) t1 n1, PARAMETERS_2(__VA_ARGS__)
#define PARAMETERS_4(t1, n1, ...) t1 n1, PARAMETERS_3(__VA_ARGS__)
#define PARAMETERS_5(t1, n1, ...) t1 n1, PARAMETERS_4(__VA_ARGS__)
#define MEMBERS_1(t1, n1) t1 n1;
#define MEMBERS_2(t1, n1, ...) \
    t1 n1;                     \
    MEMBERS_1(__VA_ARGS__)
#define MEMBERS_3(t1, n1, ...) \
    t1 n1;                     \
    MEMBERS_2(__VA_ARGS__)
#define MEMBERS_4(t1, n1, ...) \
    t1 n1;                     \
    MEMBERS_3(__VA_ARGS__)
#define MEMBERS_5(t1, n1, ...) \
    t1 n1;                     \
    MEMBERS_4(__VA_ARGS__)
#define KEPT_1(t1, n1) .n1 = n1
#define KEPT_2(t1, n1, ...) .n1 = n1, KEPT_1(__VA_ARGS__)
#define KEPT_3(t1, n1, ...) .n1 = n1, KEPT_2(__VA_ARGS__)
#define KEPT_4(t1, n1, ...) .n1 = n1, KEPT_3(__VA_ARGS__)
#define KEPT_5(t1, n1, ...) .n1 = n1, KEPT_4(__VA_ARGS__)
#define ARGUMENTS_1(t1, n1) call->n1
#define ARGUMENTS_2(t1, n1, ...) call->n1, ARGUMENTS_1(__VA_ARGS__)
#define ARGUMENTS_3(t1, n1, ...) call->n1, ARGUMENTS_2(__VA_ARGS__)
#define ARGUMENTS_4(t1, n1, ...) call->n1, ARGUMENTS_3(__VA_ARGS__)
#define ARGUMENTS_5(t1, n1, ...) call->n1, ARGUMENTS_4(__VA_ARGS__)

int gpu_guard_tries(CUfunction function)
{
    CUresult(CUDAAPI * is_loaded)(CUfunctionLoadingState *, CUfunction) =
        (CUresult(CUDAAPI *)(CUfunctionLoadingState *, CUfunction))gpu_driver_find("cuFuncIsLoaded");
    CUfunctionLoadingState state;

    return is_loaded && is_loaded(&state, function) == CUDA_SUCCESS &&
                   state == CU_FUNCTION_LOADING_STATE_UNLOADED
               ? GPU_DRAIN_OFTEN
               : GPU_DRAIN_NOT;
}

/* ---- The functions ---- */

/* The driver's functions. */
static struct {
#define MEMBER(name, version, n, parameters, device, drains, after, why) __typeof__(&name) name;
    WAITING(MEMBER)
#undef MEMBER
} real;

static void nothing(void) {}

/* Without a kernel the call fails. */
static void note(const void *kernel, CUresult result)
{
    if (kernel && result == CUDA_SUCCESS)
        gpu_launches_note(kernel);
}

static void forget_kernels(void)
{
    gpu_launches_forget();
    gpu_repeats_forget();
}

/* True if objects are gone after the call; the compiler evaluates it. */
static inline bool forgets(const char *after)
{
    return strstr(after, "forget") != NULL;
}

/* Each function is offloaded if it may. Before the first resident kernel there is nothing to evict. The
 * driver's function does not wait for kernels that start while it waits. */
#define FUNCTION(name, version, n, parameters, device, drains, after, why)                                \
    struct call_##name {                                                                                  \
        struct gpu_offload offload;                                                                       \
        MEMBERS_##n parameters                                                                            \
    };                                                                                                    \
    static void run_##name(struct gpu_offload *offload)                                                   \
    {                                                                                                     \
        struct call_##name *call = BASE_CONTAINER(offload, struct call_##name, offload);                  \
        int hold = gpu_resident_hold(device);                                                             \
        offload->result = real.name(ARGUMENTS_##n parameters);                                            \
        gpu_resident_release(hold);                                                                       \
    }                                                                                                     \
    static CUresult CUDAAPI guard_##name(PARAMETERS_##n parameters)                                       \
    {                                                                                                     \
        struct call_##name call = {.offload = {.label = #name, .run = run_##name, .drain_tries = drains}, \
                                   KEPT_##n parameters};                                                  \
        const enum gpu_deferred_kind kind = deferred_kind(AS_TEXT(name));                                 \
        CUresult result;                                                                                  \
        gpu_guard_prepare();                                                                              \
        if (forgets(#after))                                                                              \
            gpu_repeats_cancel();                                                                         \
        if (kind == GPU_DEFERRED_NOT)                                                                     \
            result = gpu_offload_call(&call.offload, gpu_offload_is_wanted(GPU_CALLER));                  \
        else                                                                                              \
            result = gpu_deferred_call(&call.offload, kind, (uintptr_t)FIRST_##n parameters, GPU_CALLER); \
        after;                                                                                            \
        return result;                                                                                    \
    }
WAITING(FUNCTION)
#undef FUNCTION

void gpu_guard_load(CUfunction function)
{
    struct call_cuFuncLoad call = {
        .offload = {.run = run_cuFuncLoad, .drain_tries = gpu_guard_tries(function)}, .function = function};

    if (real.cuFuncLoad)
        (void)gpu_offload_call(&call.offload, true);
}

bool gpu_guard_notices_frees(void)
{
    return gpu_streams_n_ranks > 1 && !gpu_monitor_is_late() && gpu_monitor_is_sound();
}

/* ---- Freeing of memory by the library ---- */

CUresult gpu_guard_free_now(void *memory, bool is_pinned)
{
    int hold = gpu_resident_hold(GPU_RESIDENT_ALL);
    CUresult result = is_pinned ? real.cuMemFreeHost(memory) : real.cuMemFree((CUdeviceptr)(uintptr_t)memory);

    gpu_resident_release(hold);
    return result;
}

struct call_free {
    struct gpu_offload offload;
    void *memory;
    bool is_pinned;
};

static void run_free(struct gpu_offload *offload)
{
    const struct call_free *call = BASE_CONTAINER(offload, struct call_free, offload);

    offload->result = gpu_guard_free_now(call->memory, call->is_pinned);
}

int gpu_guard_free(void *memory, bool is_pinned)
{
    struct call_free call = {.offload = {.run = run_free, .drain_tries = GPU_DRAIN_OFTEN},
                             .memory = memory,
                             .is_pinned = is_pinned};

    gpu_guard_prepare();
    return gpu_driver_check(gpu_offload_call(&call.offload, gpu_offload_is_wanted_in_mpi()),
                            is_pinned ? "cuMemFreeHost" : "cuMemFree");
}

void gpu_guard_free_later(CUcontext context, void *memory, bool is_pinned)
{
    gpu_guard_prepare();
    gpu_deferred_add(context, memory, is_pinned);
}

CUresult CUDAAPI gpu_guard_synchronize(void)
{
    int hold;
    CUresult result;

    gpu_guard_prepare();
    hold = gpu_resident_hold(GPU_RESIDENT_CURRENT);
    result = gpu_stream_real.r_cuCtxSynchronize();
    gpu_resident_release(hold);
    return result;
}

CUresult CUDAAPI gpu_guard_synchronize_v2(CUcontext context)
{
    int hold = gpu_resident_hold(context ? GPU_RESIDENT_ALL : GPU_RESIDENT_CURRENT);
    CUresult result = gpu_stream_real.r_cuCtxSynchronize_v2(context);

    gpu_resident_release(hold);
    return result;
}

/* Nothing runs yet in a context that this call creates: streams can be created and the library's kernels be
 * loaded without waiting. */
CUresult CUDAAPI gpu_guard_retain(CUcontext *context, CUdevice device)
{
    unsigned flags;
    int is_there = 1;
    CUresult result;

    gpu_guard_prepare();
    if ((gpu_resident_us > 0 || gpu_streams_are_private) && gpu_is_used())
        gpu_driver.cuDevicePrimaryCtxGetState(device, &flags, &is_there);
    result = gpu_contexts_real.retain(context, device);
    if (result != CUDA_SUCCESS || is_there)
        return result;
    gpu_resident_load(device, *context, real.cuFuncLoad);
    gpu_repeats_load(device, *context, real.cuFuncLoad);
    if (gpu_streams_are_private)
        gpu_stock_fill(device, *context, gpu_streams_n_ranks);
    return result;
}

/* ---- The list ---- */

const struct gpu_guarded gpu_waiting_functions[] = {
#define ROW(name, version, n, parameters, device, drains, after, why) \
    {AS_TEXT(name), (void *)guard_##name, version, why, (void **)&real.name},
    WAITING(ROW)
#undef ROW
};
const size_t gpu_n_waiting_functions = BASE_COUNT(gpu_waiting_functions);
