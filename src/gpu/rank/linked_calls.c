/* SPDX-License-Identifier: BSD-3-Clause
 *
 * linked_calls.c: see linked_calls.h.
 */
#include "gpu/rank/linked_calls.h"

#include <dlfcn.h>

#include "base/loader_lock.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/driver_symbols.h"
#include "gpu/driver/imports.h"
#include "gpu/driver/pe_state.h"
#include "gpu/rank/deferred_frees.h"
#include "gpu/rank/free_gate.h"
#include "gpu/rank/graph_launches.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/waits.h"

#define NO_DEVICE (-2) /* CUDA's */

/* NO_DEVICE: it is no memory of CUDA, or a pool's, and the driver does not wait. */
static int device_of_memory(CUdeviceptr memory)
{
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    int device = NO_DEVICE;
    void *value = &device;

    if (gpu_driver.cuPointerGetAttributes(1, &attribute, &value, memory) != CUDA_SUCCESS ||
        gpu_memory_is_of_pool(memory))
        return NO_DEVICE;
    return device < GPU_DEVICES_MAX ? device : GPU_DEVICES_ALL; /* below 0: NO_DEVICE, or managed memory's */
}

/* X(name, the driver's symbol, the parameter, the device whose work the driver waits for) */
#define FREES(X)                                                                       \
    X(device, "cuMemFree_v2", CUdeviceptr, device_of_memory(freed))                    \
    X(pinned, "cuMemFreeHost", void *, device_of_memory((CUdeviceptr)freed))           \
    X(registered, "cuMemHostUnregister", void *, device_of_memory((CUdeviceptr)freed)) \
    X(array, "cuArrayDestroy", CUarray, gpu_gate_device_of(NULL))                      \
    X(mipmapped, "cuMipmappedArrayDestroy", CUmipmappedArray, gpu_gate_device_of(NULL))

#define FUNCTION(name, symbol, type, device)           \
    static CUresult(CUDAAPI *real_##name)(type freed); \
    static CUresult CUDAAPI free_##name(type freed)    \
    {                                                  \
        int freed_on = device, closed = GPU_GATE_OPEN; \
        CUresult result;                               \
                                                       \
        if (freed_on != NO_DEVICE)                     \
            closed = gpu_gate_close_device(freed_on);  \
        result = real_##name(freed);                   \
        gpu_gate_open(closed);                         \
        return result;                                 \
    }
FREES(FUNCTION)
#undef FUNCTION

typedef CUresult(CUDAAPI *launch_fn)(CUgraphExec, CUstream);

static launch_fn real_launch, real_launch_ptsz;

/* stream: the one that the program means, in `given`. */
static CUresult note_launch(launch_fn launch, CUgraphExec exec, CUstream given, CUstream stream)
{
    struct gpu_graph_launch noted = {.context = NULL};
    CUresult result;

    if (gpu_graph_exec_may_wait(exec))
        gpu_graph_launch_begin(&noted, stream, NULL);
    result = launch(exec, given);
    if (noted.context)
        gpu_graph_launch_end(&noted, stream, result == CUDA_SUCCESS);
    return result;
}

static CUresult CUDAAPI launch_graph(CUgraphExec exec, CUstream stream)
{
    return note_launch(real_launch, exec, stream, stream);
}

static CUresult CUDAAPI launch_graph_ptsz(CUgraphExec exec, CUstream stream)
{
    return note_launch(real_launch_ptsz, exec, stream, stream ? stream : CU_STREAM_PER_THREAD);
}

/* ---- Waits for events ---- */

typedef CUresult(CUDAAPI *wait_fn)(CUstream, CUevent, unsigned);

static wait_fn real_wait, real_wait_ptsz;

/* stream: the one that the program means, in `given`. */
static CUresult wait_by_gate(wait_fn wait, CUstream given, CUstream stream, CUevent event, unsigned flags)
{
    struct gpu_graph_launch noted = {.context = NULL};
    CUresult result;

    gpu_graph_wait_begin(&noted, stream, NULL);
    result = wait(given, event, flags);
    if (noted.context)
        gpu_graph_launch_end(&noted, stream, result == CUDA_SUCCESS);
    return result;
}

static CUresult CUDAAPI wait_event(CUstream stream, CUevent event, unsigned flags)
{
    return wait_by_gate(real_wait, stream, stream, event, flags);
}

static CUresult CUDAAPI wait_event_ptsz(CUstream stream, CUevent event, unsigned flags)
{
    return wait_by_gate(real_wait_ptsz, stream, stream ? stream : CU_STREAM_PER_THREAD, event, flags);
}

/* ---- Contexts and allocations ---- */

/* A new context may have the handle of a destroyed one. X(name, the parameters, their names) */
#define CREATES(X)                                                                                  \
    X(v2, (CUcontext * context_out, unsigned flags, CUdevice device), (context_out, flags, device)) \
    X(v3,                                                                                           \
      (CUcontext * context_out, CUexecAffinityParam * affinity, int n_affinity, unsigned flags,     \
       CUdevice device),                                                                            \
      (context_out, affinity, n_affinity, flags, device))                                           \
    X(v4, (CUcontext * context_out, void *parameters, unsigned flags, CUdevice device),             \
      (context_out, parameters, flags, device))

#define FUNCTION(name, parameters, arguments)                \
    static CUresult(CUDAAPI *real_create_##name) parameters; \
    static CUresult CUDAAPI create_context_##name parameters \
    {                                                        \
        CUresult result = real_create_##name arguments;      \
        if (result == CUDA_SUCCESS)                          \
            gpu_context_begins(*context_out, false);         \
        return result;                                       \
    }
CREATES(FUNCTION)
#undef FUNCTION

static CUresult(CUDAAPI *real_destroy)(CUcontext context);

/* The progress thread enters the context no more. On a PE that it serves, it may be there until this thread has the PE. */
static void end_context(CUcontext context)
{
    struct ult *entered = ult_self() ? gpu_wait_enter() : NULL;

    gpu_context_ends(context);
    gpu_wait_leave(entered);
    gpu_graph_launches_forget(context);
    while (!gpu_deferred_forget(context))
        gpu_gate_pause(NULL);
}

static CUresult CUDAAPI destroy_context(CUcontext context)
{
    bool may_end = context && !gpu_rank_is_primary(context), was_gone = gpu_context_is_gone(context);
    int closed = GPU_GATE_OPEN;
    CUresult result;

    if (may_end && !was_gone)
        closed = gpu_gate_close_for_end(context, NULL);
    if (may_end)
        end_context(context);
    result = real_destroy(context);
    gpu_gate_open(closed);
    if (may_end && !was_gone && result != CUDA_SUCCESS)
        gpu_context_begins(context, true);
    return result;
}

static CUresult(CUDAAPI *real_reset)(CUdevice device);

static CUresult CUDAAPI reset(CUdevice device)
{
    bool is_held = device >= 0 && device < GPU_DEVICES_MAX && gpu_context_is_held(device);

    while (is_held && !gpu_deferred_forget(gpu_context_of(device)))
        gpu_gate_pause(NULL);
    return real_reset(device);
}

/* Memory that is given back later is missing. */
static CUresult(CUDAAPI *real_allocate)(CUdeviceptr *memory_out, size_t n_bytes);

static CUresult CUDAAPI allocate(CUdeviceptr *memory_out, size_t n_bytes)
{
    int n_attempts = 0;
    CUresult result;

    do
        result = real_allocate(memory_out, n_bytes);
    while (result == CUDA_ERROR_OUT_OF_MEMORY && gpu_deferred_give_back(&n_attempts, false));
    return result;
}

#define IMPORT(name, symbol, type, device) {symbol, (void (*)(void))free_##name},
#define IMPORT_CREATE(name, parameters, arguments) \
    {"cuCtxCreate_" #name, (void (*)(void))create_context_##name},
static const struct gpu_import imports[] = {FREES(IMPORT){"cuGraphLaunch", (void (*)(void))launch_graph},
                                            {"cuGraphLaunch_ptsz", (void (*)(void))launch_graph_ptsz},
                                            {"cuStreamWaitEvent", (void (*)(void))wait_event},
                                            {"cuStreamWaitEvent_ptsz", (void (*)(void))wait_event_ptsz},
                                            {"cuCtxDestroy_v2", (void (*)(void))destroy_context},
                                            {"cuDevicePrimaryCtxReset_v2", (void (*)(void))reset},
                                            {"cuMemAlloc_v2", (void (*)(void))allocate},
                                            CREATES(IMPORT_CREATE)};

static void find_real(void *driver)
{
#define FIND(name, symbol, type, device) *(void **)&real_##name = gpu_symbol(driver, symbol);
#define FIND_CREATE(name, parameters, arguments) \
    *(void **)&real_create_##name = gpu_symbol(driver, "cuCtxCreate_" #name);
    FREES(FIND)
    CREATES(FIND_CREATE)
    real_wait = (wait_fn)gpu_symbol(driver, "cuStreamWaitEvent");
    real_wait_ptsz = (wait_fn)gpu_symbol(driver, "cuStreamWaitEvent_ptsz");
    *(void **)&real_destroy = gpu_symbol(driver, "cuCtxDestroy_v2");
    *(void **)&real_reset = gpu_symbol(driver, "cuDevicePrimaryCtxReset_v2");
    *(void **)&real_allocate = gpu_symbol(driver, "cuMemAlloc_v2");
    real_launch = (launch_fn)gpu_symbol(driver, "cuGraphLaunch");
    real_launch_ptsz = (launch_fn)gpu_symbol(driver, "cuGraphLaunch_ptsz");
}

void gpu_linked_calls_take_over(void)
{
    static _Atomic bool is_done;
    bool is_found[BASE_COUNT(imports)];
    void *driver;

    if (atomic_exchange(&is_done, true))
        return;
    base_loader_lock();
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver) {
        find_real(driver);
        for (const struct link_map *map = gpu_imports_first_library(); map; map = map->l_next)
            if (!gpu_symbol_is_for_driver(map->l_name))
                gpu_imports_redirect(map, imports, BASE_COUNT(imports), is_found);
    }
    base_loader_unlock();
}
