/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ucx_calls.c: see ucx_calls.h.
 */
#include "gpu/rank/ucx_calls.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/loader_lock.h"
#include "base/log.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/imports.h"
#include "gpu/rank/stream_stock.h"
#include "gpu/rank/waits.h"

/* One per pair of kinds of memory, and one for small data. */
#define STREAMS_PER_PE 6

/* The streams have the greatest priority, as the library's own have: a stream of a rank that waits is of another one
 * nearly always, and so in another connection to the GPU. */
static CUresult CUDAAPI create(CUstream *stream_out, unsigned flags)
{
    int least = 0, greatest = 0;
    CUstream taken = NULL;
    CUcontext context = NULL;

    if (flags == CU_STREAM_NON_BLOCKING && gpu_driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context &&
        gpu_driver.cuCtxGetStreamPriorityRange(&least, &greatest) == CUDA_SUCCESS)
        taken = gpu_stock_take(context, greatest);
    if (!taken)
        return gpu_driver.cuStreamCreateWithPriority(stream_out, flags, 0);
    *stream_out = taken;
    return CUDA_SUCCESS;
}

static CUresult(CUDAAPI *real_close)(CUdeviceptr);

/* Mappings of other processes' memory that UCX has closed. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping {
    CUcontext context;
    CUdeviceptr memory;
} * closed;
static int n_closed;

/* Lock held. No stream waits for a PE. */
static CUresult close_all(void)
{
    CUresult result = CUDA_SUCCESS;
    CUcontext before;

    while (n_closed > 0 && result == CUDA_SUCCESS) {
        struct mapping mapping = closed[--n_closed];
        if (gpu_context_enter(mapping.context, &before))
            return CUDA_ERROR_INVALID_CONTEXT;
        result = real_close(mapping.memory);
        gpu_context_leave(mapping.context, before);
    }
    return result;
}

/* The driver waits for the GPU, so a mapping stays until no stream waits. */
static CUresult CUDAAPI close_mapping(CUdeviceptr memory)
{
    CUresult result = CUDA_SUCCESS;

    pthread_mutex_lock(&lock);
    closed =
        base_realloc(closed, (size_t)(n_closed + 1) * sizeof *closed, "mappings of other processes' memory");
    closed[n_closed++] = (struct mapping){gpu_context_current(), memory};
    if (atomic_load(&gpu_streams_n_waiting) == 0)
        result = close_all();
    pthread_mutex_unlock(&lock);
    return result;
}

int gpu_ucx_calls_take_over(void)
{
    static const struct gpu_import imports[] = {{"cuStreamCreate", (void (*)(void))create},
                                                {"cuIpcCloseMemHandle", (void (*)(void))close_mapping}};
    bool are_found[BASE_COUNT(imports)] = {false};

    real_close = (CUresult(CUDAAPI *)(CUdeviceptr))gpu_driver_find("cuIpcCloseMemHandle");

    base_loader_lock();
    for (const struct link_map *map = gpu_imports_first_library(); map; map = map->l_next)
        if (gpu_imports_is_library(map->l_name, "libuct_cuda.so") ||
            gpu_imports_is_library(map->l_name, "machine_cuda.so")) /* the tests' */
            gpu_imports_redirect(map, imports, real_close ? BASE_COUNT(imports) : 1, are_found);
    base_loader_unlock();
    return are_found[0] ? STREAMS_PER_PE : 0;
}
