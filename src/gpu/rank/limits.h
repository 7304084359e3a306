/* SPDX-License-Identifier: BSD-3-Clause
 *
 * limits.h: limits of a context (cuCtxSetLimit) that several ranks set. For the files of src/gpu alone.
 *
 * The ranks of a process share the primary context of a GPU, so a limit is that of the rank that needs most: with several ranks,
 * the stacks, the heap and the printf buffer of kernels only grow (CUDA's documentation: the driver may modify the requested
 * value). Otherwise a rank that asks for small stacks would break the kernels of other ranks, and the second rank that asks for a
 * heap would get an error, because kernels of the first one have used theirs.
 *
 * While one thread changes the stacks, a kernel that another thread launches fails, and with it the context (driver 580.159 on an
 * H200: Xid 13, SKEDCHECK05_LOCAL_MEMORY_TOTAL_SIZE). So the context is closed during the call, however long that takes.
 */
#ifndef GPU_LIMITS_H
#define GPU_LIMITS_H

#include <cuda.h>

typedef CUresult(CUDAAPI *gpu_limit_set_fn)(CUlimit limit, size_t value);

/* drain_tries (offload.h) for the call. */
int gpu_limit_tries(CUlimit limit, size_t value);

/* Sets the limit by the driver's function `set`, unless several ranks share it and it is as large already. */
CUresult gpu_limit_set(gpu_limit_set_fn set, CUlimit limit, size_t value);

#endif
