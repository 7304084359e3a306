/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ucx_streams.c: see ucx_streams.h.
 */
#include "gpu/rank/ucx_streams.h"

#include "base/loader_lock.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/imports.h"
#include "gpu/rank/stream_stock.h"

/* One per pair of kinds of memory, and one for small data. */
#define STREAMS_PER_PE 6

/* The streams have the greatest priority, as the library's own have: a stream of a rank that waits is of another one
 * nearly always, and so in another connection to the GPU. */
static CUresult create(CUstream *stream_out, unsigned flags)
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

int gpu_ucx_streams_take_over(void)
{
    static const struct gpu_import creation = {"cuStreamCreate", (void (*)(void))create};
    bool is_found = false;

    base_loader_lock();
    for (const struct link_map *map = gpu_imports_first_library(); map; map = map->l_next)
        if (gpu_imports_is_library(map->l_name, "libuct_cuda.so") ||
            gpu_imports_is_library(map->l_name, "machine_cuda.so")) /* the tests' */
            gpu_imports_redirect(map, &creation, 1, &is_found);
    base_loader_unlock();
    return is_found ? STREAMS_PER_PE : 0;
}
