/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_calls.h: calls by the library itself of the functions that guard.c replaces. For the files of src/gpu alone.
 */
#ifndef GPU_GUARD_CALLS_H
#define GPU_GUARD_CALLS_H

#include "gpu/driver/driver.h"
#include "gpu/rank/deferred_frees.h"

/* cuDevicePrimaryCtxRetain; if this creates the context, loads Heddle's kernels into it. */
CUresult CUDAAPI gpu_guard_retain(CUcontext *context, CUdevice device);

/* Loads a kernel on another thread (offload.h), if the driver can load kernels separately; its launch will report errors.
 * May switch. */
void gpu_guard_load(CUfunction function);

/* Frees memory of the program in a call of MPI, pinned or of a GPU, and returns the driver's error; later if streams wait for
 * messages, because the driver waits for all work of the GPU. May switch. */
int gpu_guard_free(void *memory, bool is_pinned) BASE_MUST_CHECK;

/* Frees memory, or unloads a module, by the driver's own call, which waits for the GPU. Any thread. */
CUresult gpu_guard_free_now(void *memory, enum gpu_deferred_kind kind);

/* Frees memory of the library on another thread: the GPU's work may wait for the calling PE. Its context is the memory's,
 * any for pinned memory. Never switches. */
void gpu_guard_free_later(CUcontext context, void *memory, bool is_pinned);

/* drain_tries (offload.h) for the first use of this kernel: loading it waits for the GPU, unless the driver says
 * that it is loaded (since CUDA 12.4). */
int gpu_guard_tries(CUfunction function);

/* cuCtxSynchronize: waits for all work of the context. */
CUresult CUDAAPI gpu_guard_synchronize(void);
CUresult CUDAAPI gpu_guard_synchronize_v2(CUcontext context);

#endif
