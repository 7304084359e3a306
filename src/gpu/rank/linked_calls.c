/* SPDX-License-Identifier: BSD-3-Clause
 *
 * linked_calls.c: see linked_calls.h.
 */
#include "gpu/rank/linked_calls.h"

#include <dlfcn.h>
#include <time.h>

#include "base/loader_lock.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/driver_symbols.h"
#include "gpu/driver/imports.h"
#include "gpu/driver/pe_state.h"
#include "gpu/rank/graph_launches.h"
#include "gpu/rank/waits.h"

#define NO_DEVICE (-2) /* CUDA's */

/* The pause of a launch while another thread frees memory. */
#define PAUSE_NS 20000

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
    X(array, "cuArrayDestroy", CUarray, gpu_wait_device_of(NULL))                      \
    X(mipmapped, "cuMipmappedArrayDestroy", CUmipmappedArray, gpu_wait_device_of(NULL))

#define FUNCTION(name, symbol, type, device)                                       \
    static CUresult(CUDAAPI *real_##name)(type freed);                             \
    static CUresult CUDAAPI free_##name(type freed)                                \
    {                                                                              \
        int freed_on = device;                                                     \
        bool has_begun = freed_on != NO_DEVICE && gpu_wait_beside_begin(freed_on); \
        CUresult result = real_##name(freed);                                      \
                                                                                   \
        gpu_wait_beside_end(has_begun);                                            \
        return result;                                                             \
    }
FREES(FUNCTION)

typedef CUresult(CUDAAPI *launch_fn)(CUgraphExec, CUstream);

static launch_fn real_launch, real_launch_ptsz;

/* stream: the one that the program means, in `given`. */
static CUresult note_launch(launch_fn launch, CUgraphExec exec, CUstream given, CUstream stream)
{
    CUcontext context = gpu_graph_exec_may_wait(exec) ? gpu_graph_launch_begin(stream, NULL) : NULL;
    CUresult result;

    while (context && !gpu_wait_add_begin())
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    result = launch(exec, given);
    if (result == CUDA_SUCCESS)
        gpu_graph_launch_note(stream, context);
    if (context)
        gpu_wait_add_end();
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

#define IMPORT(name, symbol, type, device) {symbol, (void (*)(void))free_##name},
static const struct gpu_import imports[] = {
    FREES(IMPORT){"cuGraphLaunch", (void (*)(void))launch_graph},
    {"cuGraphLaunch_ptsz", (void (*)(void))launch_graph_ptsz},
};

static void find_real(void *driver)
{
#define FIND(name, symbol, type, device) *(void **)&real_##name = gpu_symbol(driver, symbol);
    FREES(FIND)
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
