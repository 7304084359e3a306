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
#include "gpu/rank/free_gate.h"
#include "gpu/rank/guard.h"

#include <string.h>

#include "base/log.h"
#include "gpu/copy/resident.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/driver_monitor.h"
#include "gpu/rank/deferred_frees.h"
#include "gpu/rank/graph_launches.h"
#include "gpu/rank/guard_calls.h"
#include "gpu/rank/launches.h"
#include "gpu/rank/limits.h"
#include "gpu/rank/loaded_modules.h"
#include "gpu/rank/offload.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/registrations.h"
#include "gpu/rank/repeats.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/stream_stock.h"
#include "gpu/rank/streams.h"
#include "gpu/rank/visible.h"
#include "gpu/rank/waits.h"
#include "gpu_detect.h"

#define AS_TEXT(name) AS_TEXT_2(name)
#define AS_TEXT_2(name) #name

/* Missing in some versions of cuda.h, or named differently. */
CUresult CUDAAPI cuFuncLoad(CUfunction function);

/* X(function, the first version of CUDA whose cuGetProcAddress has it, its number of parameters, (their types and
 * names), what is called instead, GPU whose kernels are evicted, drain_tries (offload.h), what the rank does before and
 * afterwards, why) */
#define WAITING(X)                                                                                           \
    X(cuCtxSetLimit, 3010, 2, (CUlimit, limit, size_t, value), set_limit, GPU_RESIDENT_ALL,                  \
      gpu_limit_tries(limit, value), gpu_repeats_cancel(), gpu_repeats_forget(),                             \
      "waits for the GPU to change the stacks of kernels")                                                   \
    X(cuMemFree, 3020, 1, (CUdeviceptr, memory), real.cuMemFree, GPU_RESIDENT_ALL, GPU_DRAIN_OFTEN,          \
      gpu_repeats_cancel(), gpu_repeats_forget(), "waits for the memory's GPU")                              \
    X(cuMemFreeHost, 2000, 1, (void *, memory), real.cuMemFreeHost, GPU_RESIDENT_ALL, GPU_DRAIN_OFTEN,       \
      gpu_repeats_cancel(), gpu_repeats_forget(), "waits for the GPU")                                       \
    X(cuMemHostRegister, 6050, 3, (void *, memory, size_t, n_bytes, unsigned, flags), register_memory,       \
      GPU_RESIDENT_NONE, 0, nothing(), gpu_count_change(),                                                   \
      "is counted by rank, and waits while memory is unregistered")                                          \
    X(cuMemHostUnregister, 4000, 1, (void *, memory), unregister_memory, GPU_RESIDENT_ALL,                   \
      gpu_registration_is_last(memory) ? GPU_DRAIN_OFTEN : 0, gpu_repeats_cancel(), gpu_repeats_forget(),    \
      "waits for the GPU")                                                                                   \
    X(cuArrayDestroy, 2000, 1, (CUarray, array), real.cuArrayDestroy, GPU_RESIDENT_ALL, GPU_DRAIN_OFTEN,     \
      gpu_repeats_cancel(), gpu_repeats_forget(), "waits for the memory's GPU")                              \
    X(cuMipmappedArrayDestroy, 5000, 1, (CUmipmappedArray, array), real.cuMipmappedArrayDestroy,             \
      GPU_RESIDENT_ALL, GPU_DRAIN_OFTEN, gpu_repeats_cancel(), gpu_repeats_forget(),                         \
      "waits for the memory's GPU")                                                                          \
    X(cuModuleLoad, 2000, 2, (CUmodule *, module, const char *, path), real.cuModuleLoad,                    \
      GPU_RESIDENT_CURRENT, GPU_DRAIN_OFTEN, nothing(), note_module(module, result), "waits for the GPU")    \
    X(cuModuleLoadData, 2000, 2, (CUmodule *, module, const void *, image), real.cuModuleLoadData,           \
      GPU_RESIDENT_CURRENT, GPU_DRAIN_OFTEN, nothing(), note_module(module, result), "waits for the GPU")    \
    X(cuModuleLoadDataEx, 2010, 5,                                                                           \
      (CUmodule *, module, const void *, image, unsigned, n_options, CUjit_option *, options, void **,       \
       values),                                                                                              \
      real.cuModuleLoadDataEx, GPU_RESIDENT_CURRENT, GPU_DRAIN_OFTEN, nothing(),                             \
      note_module(module, result), "waits for the GPU")                                                      \
    X(cuModuleLoadFatBinary, 2000, 2, (CUmodule *, module, const void *, image), real.cuModuleLoadFatBinary, \
      GPU_RESIDENT_CURRENT, GPU_DRAIN_OFTEN, nothing(), note_module(module, result), "waits for the GPU")    \
    X(cuLibraryLoadData, 12000, 8,                                                                           \
      (CUlibrary *, library, const void *, image, CUjit_option *, jit, void **, jit_values, unsigned, n_jit, \
       CUlibraryOption *, options, void **, values, unsigned, n_options),                                    \
      real.cuLibraryLoadData, GPU_RESIDENT_ALL, library_tries(), nothing(),                                  \
      note_library(library, n_options, result), "waits for the GPUs if kernels are loaded early")            \
    X(cuLibraryLoadFromFile, 12000, 8,                                                                       \
      (CUlibrary *, library, const char *, path, CUjit_option *, jit, void **, jit_values, unsigned, n_jit,  \
       CUlibraryOption *, options, void **, values, unsigned, n_options),                                    \
      real.cuLibraryLoadFromFile, GPU_RESIDENT_ALL, library_tries(), nothing(),                              \
      note_library(library, n_options, result), "waits for the GPUs if kernels are loaded early")            \
    X(cuModuleUnload, 2000, 1, (CUmodule, module), real.cuModuleUnload, GPU_RESIDENT_ALL, GPU_DRAIN_OFTEN,   \
      gpu_repeats_cancel(), forget_kernels(), "waits for the GPU")                                           \
    X(cuLibraryUnload, 12000, 1, (CUlibrary, library), real.cuLibraryUnload, GPU_RESIDENT_ALL,               \
      GPU_DRAIN_OFTEN, gpu_repeats_cancel(), forget_kernels(), "waits for the GPU")                          \
    X(cuKernelGetFunction, 12000, 2, (CUfunction *, function, CUkernel, kernel), real.cuKernelGetFunction,   \
      GPU_RESIDENT_CURRENT, gpu_launches_know(kernel) ? 0 : GPU_DRAIN_OFTEN, nothing(),                      \
      note(kernel, result), "may load the kernel, and waits for the GPU then")                               \
    X(cuFuncLoad, 12040, 1, (CUfunction, function), real.cuFuncLoad, GPU_RESIDENT_CURRENT,                   \
      gpu_guard_tries(function), nothing(), nothing(), "waits for the GPU")                                  \
    X(cuGreenCtxCreate, 12040, 4,                                                                            \
      (CUgreenCtx *, green_out, CUdevResourceDesc, desc, CUdevice, device, unsigned, flags),                 \
      real.cuGreenCtxCreate, GPU_RESIDENT_CURRENT, GPU_DRAIN_OFTEN,                                          \
      device = gpu_visible_to_driver(gpu_visible(GPU_CALLER), device), nothing(), "waits for the GPU")       \
    X(cuGreenCtxStreamCreate, 12050, 4,                                                                      \
      (CUstream *, stream_out, CUgreenCtx, green, unsigned, flags, int, priority),                           \
      real.cuGreenCtxStreamCreate, GPU_RESIDENT_CURRENT, GPU_DRAIN_BRIEFLY, nothing(),                       \
      gpu_green_has_stream(stream_out, result), "belongs to the rank, and may wait for the GPU")             \
    X(cuGreenCtxDestroy, 12040, 1, (CUgreenCtx, green), real.cuGreenCtxDestroy, GPU_RESIDENT_CURRENT,        \
      GPU_DRAIN_OFTEN, gpu_green_ends(green), nothing(),                                                     \
      "destroys the rank's streams, and waits for the GPU")

/* The driver may block in these. They are offloaded once streams have waited for operations of PEs. X(function, version, its
 * number of parameters, (their types and names), what is called instead, what the rank does before and afterwards, why) */
#define BLOCKING(X)                                                                                          \
    X(cuMemAlloc, 3020, 2, (CUdeviceptr *, memory_out, size_t, n_bytes), gpu_deferred_alloc, nothing(),      \
      gpu_count_change(), "takes memory that is given back later")                                           \
    X(cuMemAllocPitch, 3020, 5,                                                                              \
      (CUdeviceptr *, memory_out, size_t *, pitch_out, size_t, n_bytes, size_t, n_rows, unsigned,            \
       element_bytes),                                                                                       \
      real.cuMemAllocPitch, nothing(), gpu_count_change(), "may block")                                      \
    X(cuMemAllocManaged, 6000, 3, (CUdeviceptr *, memory_out, size_t, n_bytes, unsigned, flags),             \
      real.cuMemAllocManaged, nothing(), gpu_count_change(), "may block")                                    \
    X(cuMemAllocHost, 3020, 2, (void **, memory_out, size_t, n_bytes), real.cuMemAllocHost, nothing(),       \
      gpu_count_change(), "may block")                                                                       \
    X(cuMemHostAlloc, 2020, 3, (void **, memory_out, size_t, n_bytes, unsigned, flags), real.cuMemHostAlloc, \
      nothing(), gpu_count_change(), "may block")                                                            \
    X(cuArrayCreate, 3020, 2, (CUarray *, array_out, const CUDA_ARRAY_DESCRIPTOR *, wanted),                 \
      real.cuArrayCreate, nothing(), nothing(), "may block")                                                 \
    X(cuArray3DCreate, 3020, 2, (CUarray *, array_out, const CUDA_ARRAY3D_DESCRIPTOR *, wanted),             \
      real.cuArray3DCreate, nothing(), nothing(), "may block")                                               \
    X(cuMemCreate, 10020, 4,                                                                                 \
      (CUmemGenericAllocationHandle *, handle_out, size_t, n_bytes, const CUmemAllocationProp *, wanted,     \
       unsigned long long, flags),                                                                           \
      real.cuMemCreate, PLACE(CUmemAllocationProp, wanted), nothing(), "takes a device, and may block")      \
    X(cuMemRelease, 10020, 1, (CUmemGenericAllocationHandle, handle), real.cuMemRelease, nothing(),          \
      nothing(), "may block")                                                                                \
    X(cuMemPoolCreate, 11020, 2, (CUmemoryPool *, pool_out, const CUmemPoolProps *, wanted),                 \
      real.cuMemPoolCreate, PLACE(CUmemPoolProps, wanted), nothing(), "takes a device, and may block")       \
    X(cuMemPoolExportToShareableHandle, 11020, 4,                                                            \
      (void *, handle_out, CUmemoryPool, pool, CUmemAllocationHandleType, type, unsigned long long, flags),  \
      real.cuMemPoolExportToShareableHandle, nothing(), nothing(), "may block")                              \
    X(cuMemPoolImportFromShareableHandle, 11020, 4,                                                          \
      (CUmemoryPool *, pool_out, void *, handle, CUmemAllocationHandleType, type, unsigned long long,        \
       flags),                                                                                               \
      real.cuMemPoolImportFromShareableHandle, nothing(), nothing(), "may block")                            \
    X(cuMemPoolExportPointer, 11020, 2, (CUmemPoolPtrExportData *, data_out, CUdeviceptr, memory),           \
      real.cuMemPoolExportPointer, nothing(), nothing(), "may block")                                        \
    X(cuMemPoolImportPointer, 11020, 3,                                                                      \
      (CUdeviceptr *, memory_out, CUmemoryPool, pool, CUmemPoolPtrExportData *, data),                       \
      real.cuMemPoolImportPointer, nothing(), gpu_count_change(), "may block")                               \
    X(cuDeviceGraphMemTrim, 11040, 1, (CUdevice, device), real.cuDeviceGraphMemTrim,                         \
      device = gpu_visible_to_driver(gpu_visible(GPU_CALLER), device), nothing(),                            \
      "takes a device, and may block")                                                                       \
    X(cuModuleGetFunction, 2000, 3, (CUfunction *, function_out, CUmodule, module, const char *, kernel),    \
      real.cuModuleGetFunction, module = gpu_deferred_check(module), nothing(), "may load the kernel")       \
    X(cuLibraryGetModule, 12000, 2, (CUmodule *, module_out, CUlibrary, library), real.cuLibraryGetModule,   \
      library = gpu_deferred_check(library), nothing(), "may load the library")                              \
    X(cuLibraryGetKernel, 12000, 3, (CUkernel *, kernel_out, CUlibrary, library, const char *, name),        \
      real.cuLibraryGetKernel, library = gpu_deferred_check(library), nothing(),                             \
      "refuses an unloaded library")                                                                         \
    X(cuModuleGetGlobal, 3020, 4,                                                                            \
      (CUdeviceptr *, variable_out, size_t *, n_bytes_out, CUmodule, module, const char *, name),            \
      real.cuModuleGetGlobal, module = gpu_deferred_check(module), gpu_count_change(),                       \
      "may load the variable")                                                                               \
    X(cuLibraryGetGlobal, 12000, 4,                                                                          \
      (CUdeviceptr *, variable_out, size_t *, n_bytes_out, CUlibrary, library, const char *, name),          \
      real.cuLibraryGetGlobal, library = gpu_deferred_check(library), gpu_count_change(),                    \
      "may load the variable")                                                                               \
    X(cuLibraryGetManaged, 12000, 4,                                                                         \
      (CUdeviceptr *, variable_out, size_t *, n_bytes_out, CUlibrary, library, const char *, name),          \
      real.cuLibraryGetManaged, library = gpu_deferred_check(library), gpu_count_change(),                   \
      "may load the variable")                                                                               \
    X(cuMemPoolTrimTo, 11020, 2, (CUmemoryPool, pool, size_t, n_bytes_kept), real.cuMemPoolTrimTo,           \
      nothing(), nothing(), "may block")                                                                     \
    X(cuMemPoolDestroy, 11020, 1, (CUmemoryPool, pool), real.cuMemPoolDestroy, forget_repeats(), nothing(),  \
      "graphs may have copies there, and may block")                                                         \
    X(cuGraphExecDestroy, 10000, 1, (CUgraphExec, exec), real.cuGraphExecDestroy, forget_exec(exec),         \
      nothing(), "may block")

/* What the function of this name frees; the compiler evaluates it. */
static inline enum gpu_deferred_kind deferred_kind(const char *name)
{
    return strcmp(name, AS_TEXT(cuMemFree)) == 0         ? GPU_DEFERRED_DEVICE
           : strcmp(name, AS_TEXT(cuMemFreeHost)) == 0   ? GPU_DEFERRED_PINNED
           : strcmp(name, AS_TEXT(cuModuleUnload)) == 0  ? GPU_DEFERRED_MODULE
           : strcmp(name, AS_TEXT(cuLibraryUnload)) == 0 ? GPU_DEFERRED_LIBRARY
                                                         : GPU_DEFERRED_NOT;
}

/* True if the function of this name waits for all work of the GPU when it frees something; the compiler evaluates it. */
static inline bool frees_at_once(const char *name)
{
    return strcmp(name, AS_TEXT(cuMemHostUnregister)) == 0 || strcmp(name, AS_TEXT(cuArrayDestroy)) == 0 ||
           strcmp(name, AS_TEXT(cuMipmappedArrayDestroy)) == 0;
}

/* Closes the gate of what such a function frees. CUDA refuses to free anything else, without a wait. An array does not tell its
 * context. */
static int close_gate(const char *name, uintptr_t what, const void *caller)
{
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT};
    CUcontext context = NULL;
    CUmemorytype type = 0;
    void *answers[] = {&type, &context};

    if (strcmp(name, AS_TEXT(cuMemHostUnregister)) != 0)
        return what ? gpu_gate_close(NULL, caller) : GPU_GATE_OPEN;
    if (gpu_driver.cuPointerGetAttributes(BASE_COUNT(wanted), wanted, answers, what) != CUDA_SUCCESS || !type)
        return GPU_GATE_OPEN;
    return gpu_gate_close(context, caller);
}

/* From a list of types and names: the first name, the parameters, their names, their fields in the struct of a call. */
#define FIRST_1(t1, n1) n1
#define FIRST_2(t1, n1, ...) n1
#define FIRST_3(t1, n1, ...) n1
#define FIRST_4(t1, n1, ...) n1
#define FIRST_5(t1, n1, ...) n1
#define FIRST_8(t1, n1, ...) n1
#define PARAMETERS_1(t1, n1) t1 n1
#define PARAMETERS_2(t1, n1, ...) t1 n1, PARAMETERS_1(__VA_ARGS__)
#define PARAMETERS_3(t1, n1, ...) t1 n1, PARAMETERS_2(__VA_ARGS__)
#define PARAMETERS_4(t1, n1, ...) t1 n1, PARAMETERS_3(__VA_ARGS__)
#define PARAMETERS_5(t1, n1, ...) t1 n1, PARAMETERS_4(__VA_ARGS__)
#define PARAMETERS_6(t1, n1, ...) t1 n1, PARAMETERS_5(__VA_ARGS__)
#define PARAMETERS_7(t1, n1, ...) t1 n1, PARAMETERS_6(__VA_ARGS__)
#define PARAMETERS_8(t1, n1, ...) t1 n1, PARAMETERS_7(__VA_ARGS__)
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
#define MEMBERS_6(t1, n1, ...) \
    t1 n1;                     \
    MEMBERS_5(__VA_ARGS__)
#define MEMBERS_7(t1, n1, ...) \
    t1 n1;                     \
    MEMBERS_6(__VA_ARGS__)
#define MEMBERS_8(t1, n1, ...) \
    t1 n1;                     \
    MEMBERS_7(__VA_ARGS__)
#define KEPT_1(t1, n1) .n1 = n1
#define KEPT_2(t1, n1, ...) .n1 = n1, KEPT_1(__VA_ARGS__)
#define KEPT_3(t1, n1, ...) .n1 = n1, KEPT_2(__VA_ARGS__)
#define KEPT_4(t1, n1, ...) .n1 = n1, KEPT_3(__VA_ARGS__)
#define KEPT_5(t1, n1, ...) .n1 = n1, KEPT_4(__VA_ARGS__)
#define KEPT_6(t1, n1, ...) .n1 = n1, KEPT_5(__VA_ARGS__)
#define KEPT_7(t1, n1, ...) .n1 = n1, KEPT_6(__VA_ARGS__)
#define KEPT_8(t1, n1, ...) .n1 = n1, KEPT_7(__VA_ARGS__)
#define ARGUMENTS_1(t1, n1) call->n1
#define ARGUMENTS_2(t1, n1, ...) call->n1, ARGUMENTS_1(__VA_ARGS__)
#define ARGUMENTS_3(t1, n1, ...) call->n1, ARGUMENTS_2(__VA_ARGS__)
#define ARGUMENTS_4(t1, n1, ...) call->n1, ARGUMENTS_3(__VA_ARGS__)
#define ARGUMENTS_5(t1, n1, ...) call->n1, ARGUMENTS_4(__VA_ARGS__)
#define ARGUMENTS_6(t1, n1, ...) call->n1, ARGUMENTS_5(__VA_ARGS__)
#define ARGUMENTS_7(t1, n1, ...) call->n1, ARGUMENTS_6(__VA_ARGS__)
#define ARGUMENTS_8(t1, n1, ...) call->n1, ARGUMENTS_7(__VA_ARGS__)

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

/* The driver loads a library into the contexts at once, or at the first use of a kernel. */
static int library_tries(void)
{
    CUresult(CUDAAPI * get)(CUmoduleLoadingMode *) =
        (CUresult(CUDAAPI *)(CUmoduleLoadingMode *))gpu_driver_find("cuModuleGetLoadingMode");
    CUmoduleLoadingMode mode;

    return get && get(&mode) == CUDA_SUCCESS && mode == CU_MODULE_LAZY_LOADING ? 0 : GPU_DRAIN_OFTEN;
}

/* ---- The functions ---- */

/* The place in the description of memory gets the driver's number of the device (visible.h). */
#define PLACE(type, wanted)                                                            \
    type placed;                                                                       \
    if (wanted) {                                                                      \
        placed = *wanted;                                                              \
        placed.location = gpu_visible_place(gpu_visible(GPU_CALLER), placed.location); \
        wanted = &placed;                                                              \
    }

/* The driver's functions. */
static struct {
#define MEMBER(name, ...) __typeof__(&name) name;
    WAITING(MEMBER) BLOCKING(MEMBER)
#undef MEMBER
} real;

static void nothing(void) {}

/* Without a kernel the call fails. */
static void note(const void *kernel, CUresult result)
{
    if (kernel && result == CUDA_SUCCESS)
        gpu_launches_note(kernel);
}

static void note_module(CUmodule *module, CUresult result)
{
    gpu_module_note((void *const *)module, result);
    gpu_count_change();
}

static void note_library(CUlibrary *library, unsigned n_options, CUresult result)
{
    if (n_options == 0)
        gpu_module_note((void *const *)library, result);
    gpu_count_change();
}

static void forget_kernels(void)
{
    gpu_launches_forget();
    gpu_repeats_forget();
}

static void forget_repeats(void)
{
    gpu_repeats_break();
    gpu_repeats_forget();
}

static void forget_exec(CUgraphExec exec)
{
    gpu_repeats_break();
    gpu_graph_exec_note(exec, true);
}

static CUresult CUDAAPI set_limit(CUlimit limit, size_t value)
{
    return gpu_limit_set(real.cuCtxSetLimit, limit, value);
}

/* Another rank may have registered the memory. */
static CUresult CUDAAPI register_memory(void *memory, size_t n_bytes, unsigned flags)
{
    return gpu_registration_begin(real.cuMemHostRegister, memory, n_bytes, flags);
}

static CUresult CUDAAPI unregister_memory(void *memory)
{
    return gpu_registration_end(real.cuMemHostUnregister, memory);
}

/* The GPU of a call with drain_tries is closed already. */
static bool lacks_memory(const struct gpu_offload *offload)
{
    return offload->result == CUDA_ERROR_OUT_OF_MEMORY && offload->drain_tries == 0;
}

/* Each function is offloaded if `is_wanted`. Before the first resident kernel there is nothing to evict. The
 * driver's function does not wait for kernels that start while it waits. */
#define FUNCTION(text, name, n, parameters, driver, device, drains, prepare, is_wanted, before, after)    \
    struct call_##name {                                                                                  \
        struct gpu_offload offload;                                                                       \
        MEMBERS_##n parameters                                                                            \
    };                                                                                                    \
    static void run_##name(struct gpu_offload *offload)                                                   \
    {                                                                                                     \
        struct call_##name *call = BASE_CONTAINER(offload, struct call_##name, offload);                  \
        int hold = gpu_resident_hold(device), n_attempts = 0;                                             \
        do                                                                                                \
            offload->result = driver(ARGUMENTS_##n parameters);                                           \
        while (lacks_memory(offload) && gpu_deferred_give_back(&n_attempts, false));                      \
        gpu_resident_release(hold);                                                                       \
    }                                                                                                     \
    static CUresult CUDAAPI guard_##name(PARAMETERS_##n parameters)                                       \
    {                                                                                                     \
        const enum gpu_deferred_kind kind = deferred_kind(AS_TEXT(name));                                 \
        int closed = GPU_GATE_OPEN;                                                                       \
        CUresult result;                                                                                  \
        prepare();                                                                                        \
        before;                                                                                           \
        struct call_##name call = {.offload = {.label = text, .run = run_##name, .drain_tries = drains},  \
                                   KEPT_##n parameters};                                                  \
        if (frees_at_once(AS_TEXT(name)))                                                                 \
            closed = close_gate(AS_TEXT(name), (uintptr_t)FIRST_##n parameters, GPU_CALLER);              \
        if (kind == GPU_DEFERRED_NOT)                                                                     \
            result = gpu_offload_call(&call.offload, is_wanted);                                          \
        else                                                                                              \
            result = gpu_deferred_call(&call.offload, kind, (uintptr_t)FIRST_##n parameters, GPU_CALLER); \
        gpu_gate_open(closed);                                                                            \
        after;                                                                                            \
        return result;                                                                                    \
    }
#define WAITING_FUNCTION(name, version, n, parameters, driver, device, drains, before, after, why) \
    FUNCTION(#name, name, n, parameters, driver, device, drains, gpu_guard_prepare,                \
             gpu_offload_is_wanted(GPU_CALLER), before, after)
#define BLOCKING_FUNCTION(name, version, n, parameters, driver, before, after, why)    \
    FUNCTION(#name, name, n, parameters, driver, GPU_RESIDENT_NONE, 0, gpu_guard_find, \
             gpu_offload_is_wanted_later(GPU_CALLER), before, after)
WAITING(WAITING_FUNCTION)
BLOCKING(BLOCKING_FUNCTION)
#undef WAITING_FUNCTION
#undef BLOCKING_FUNCTION
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

void gpu_guard_rank_ends(void)
{
    CUcontext context, before;
    void *memory;

    while ((memory = gpu_registration_left(&context))) {
        struct call_cuMemHostUnregister call = {.offload = {.run = run_cuMemHostUnregister},
                                                .memory = memory};
        bool is_entered = !gpu_context_enter(context, &before);
        call.offload.drain_tries = gpu_registration_is_last(memory) ? GPU_DRAIN_OFTEN : 0;
        (void)gpu_offload_call(&call.offload, gpu_offload_is_wanted_in_mpi());
        if (is_entered)
            gpu_context_leave(context, before);
        gpu_count_change();
    }
}

/* ---- Freeing of memory by the library ---- */

CUresult gpu_guard_free_now(void *memory, enum gpu_deferred_kind kind)
{
    int hold = gpu_resident_hold(GPU_RESIDENT_ALL), mode = gpu_relax_begin();
    CUresult result = kind == GPU_DEFERRED_PINNED    ? real.cuMemFreeHost(memory)
                      : kind == GPU_DEFERRED_MODULE  ? real.cuModuleUnload((CUmodule)memory)
                      : kind == GPU_DEFERRED_LIBRARY ? real.cuLibraryUnload((CUlibrary)memory)
                                                     : real.cuMemFree((CUdeviceptr)(uintptr_t)memory);

    gpu_relax_end(mode);
    gpu_resident_release(hold);
    return result;
}

struct call_free {
    struct gpu_offload offload;
    void *memory;
    enum gpu_deferred_kind kind;
};

static void run_free(struct gpu_offload *offload)
{
    const struct call_free *call = BASE_CONTAINER(offload, struct call_free, offload);

    offload->result = gpu_guard_free_now(call->memory, call->kind);
}

int gpu_guard_free(void *memory, bool is_pinned)
{
    struct call_free call = {.offload = {.run = run_free, .drain_tries = GPU_DRAIN_OFTEN},
                             .memory = memory,
                             .kind = is_pinned ? GPU_DEFERRED_PINNED : GPU_DEFERRED_DEVICE};

    gpu_guard_prepare();
    return gpu_driver_check(gpu_deferred_call_in_mpi(&call.offload, call.kind, (uintptr_t)memory),
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

#define GUARD(name) GUARD_2(name)
#define GUARD_2(name) guard_##name
#define WAITING_ROW(name, version, n, parameters, driver, device, drains, before, after, why) \
    {AS_TEXT(name), (void *)GUARD(name), version, why, (void **)&real.name},
#define BLOCKING_ROW(name, version, n, parameters, driver, before, after, why) \
    {AS_TEXT(name), (void *)GUARD(name), version, why, (void **)&real.name},
const struct gpu_guarded gpu_waiting_functions[] = {WAITING(WAITING_ROW)};
const struct gpu_guarded gpu_blocking_functions[] = {BLOCKING(BLOCKING_ROW)};
const size_t gpu_n_waiting_functions = BASE_COUNT(gpu_waiting_functions);
const size_t gpu_n_blocking_functions = BASE_COUNT(gpu_blocking_functions);
