/* SPDX-License-Identifier: BSD-3-Clause
 *
 * limits.c: see limits.h.
 */
#include "gpu/rank/limits.h"

#include <stdbool.h>

#include "gpu/driver/driver.h"
#include "gpu/rank/drain.h"
#include "gpu/rank/streams.h"

/* True if the current context's limit stays as it is. */
static bool is_met(CUlimit limit, size_t value)
{
    CUresult(CUDAAPI * get)(size_t *, CUlimit) =
        (CUresult(CUDAAPI *)(size_t *, CUlimit))gpu_driver_find("cuCtxGetLimit");
    size_t now;

    if (gpu_streams_n_ranks < 2 || (limit != CU_LIMIT_STACK_SIZE && limit != CU_LIMIT_MALLOC_HEAP_SIZE &&
                                    limit != CU_LIMIT_PRINTF_FIFO_SIZE))
        return false;
    return get && get(&now, limit) == CUDA_SUCCESS && now >= value;
}

int gpu_limit_tries(CUlimit limit, size_t value)
{
    return is_met(limit, value) ? 0 : limit == CU_LIMIT_STACK_SIZE ? GPU_DRAIN_UNTIL_IDLE : GPU_DRAIN_OFTEN;
}

CUresult gpu_limit_set(gpu_limit_set_fn set, CUlimit limit, size_t value)
{
    return is_met(limit, value) ? CUDA_SUCCESS : set(limit, value);
}
