/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory.c: memory of CUDA for the program, as MPI_Alloc_mem and MPI_Win_allocate give it on request.
 *
 * It belongs to the rank's current context, or to the primary context of its PE's device if the rank has none yet.
 */
#include "gpu/driver/driver.h"
#include "gpu/gpu.h"
#include "gpu/rank/deferred_frees.h"
#include "gpu/rank/guard_calls.h"
#include "gpu/rank/repeats.h"

static int allocate(enum gpu_memory kind, size_t n_bytes, CUdeviceptr *memory_out)
{
    void *host = NULL;
    int error;

    if (kind == GPU_MEMORY_DEVICE)
        return gpu_driver_check(gpu_deferred_alloc(memory_out, n_bytes), "cuMemAlloc");
    if (kind == GPU_MEMORY_MANAGED)
        return gpu_call(cuMemAllocManaged, (memory_out, n_bytes, CU_MEM_ATTACH_GLOBAL));
    error = gpu_call(cuMemHostAlloc, (&host, n_bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    *memory_out = (CUdeviceptr)(uintptr_t)host;
    return error;
}

/* Makes a context of the library current if none is, which is then *entered_out: CUDA's calls need one. */
static int enter(CUcontext *entered_out)
{
    CUcontext context = NULL;
    int device, error = gpu_call(cuCtxGetCurrent, (&context));

    *entered_out = NULL;
    if (error || context)
        return error;
    device = gpu_device_of_self();
    context = device >= 0 ? gpu_context_of(device) : NULL;
    error = device < 0 ? gpu_driver_record(CUDA_ERROR_NO_DEVICE, "cuDeviceGetCount")
            : context  ? gpu_call(cuCtxSetCurrent, (context))
                       : gpu_driver_last();
    *entered_out = error ? NULL : context;
    return error;
}

static void leave(CUcontext entered)
{
    if (entered)
        gpu_driver.cuCtxSetCurrent(NULL);
}

int gpu_memory_alloc(enum gpu_memory kind, size_t n_bytes, void **memory_out)
{
    CUcontext entered;
    CUdeviceptr memory = 0;
    int n_attempts = 0, error = enter(&entered);

    if (error)
        return error;
    do
        error = allocate(kind, n_bytes, &memory);
    while (error == CUDA_ERROR_OUT_OF_MEMORY &&
           gpu_deferred_give_back(&n_attempts, gpu_offload_is_wanted_in_mpi()));
    leave(entered);
    gpu_count_change();
    if (!error)
        *memory_out = (void *)(uintptr_t)memory;
    return error;
}

int gpu_memory_free(enum gpu_memory kind, void *memory)
{
    CUcontext entered;
    int error = enter(&entered);

    if (error)
        return error;
    gpu_repeats_cancel();
    error = gpu_guard_free(memory, kind == GPU_MEMORY_PINNED);
    gpu_repeats_forget();
    leave(entered);
    return error;
}
