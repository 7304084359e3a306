/* SPDX-License-Identifier: BSD-3-Clause
 *
 * deferred_frees.h: frees of memory, and unloads of modules, that do not wait for other ranks' streams. For the files of src/gpu alone.
 *
 * cuMemFree and cuMemFreeHost wait for all work of the GPU inside the driver. CUDA promises that they wait for the work of
 * the program that calls them, which is one rank. If streams of other ranks wait for operations of PEs, the call waits for
 * the rank's own streams, and the memory is given back later: when no operation is left for which a stream waits, or when
 * a call fails without it. An allocation of the same size takes it at once. So do cuModuleUnload and cuLibraryUnload
 * (loaded_modules.h): until then the program cannot use the handle any more.
 */
#ifndef GPU_DEFERRED_H
#define GPU_DEFERRED_H

#include <cuda.h>

#include "base/base.h"
#include "gpu/rank/offload.h"

/* Memory of the program, or a handle, by the call that frees it. */
enum gpu_deferred_kind {
    GPU_DEFERRED_NOT, /* no memory */
    GPU_DEFERRED_DEVICE,
    GPU_DEFERRED_PINNED,
    GPU_DEFERRED_MODULE,
    GPU_DEFERRED_LIBRARY, /* its context is the one that was current when it was loaded */
};

/* Frees memory by this call of the driver, or without it, and returns the result. caller: the code that makes the call. May
 * switch. */
CUresult gpu_deferred_call(struct gpu_offload *offload, enum gpu_deferred_kind kind, uintptr_t address,
                           const void *caller);

/* The same of memory of MPI_Alloc_mem in a call of MPI, which is local: it does not wait for streams that wait for messages. */
CUresult gpu_deferred_call_in_mpi(struct gpu_offload *offload, enum gpu_deferred_kind kind,
                                  uintptr_t address);

/* The handle of a module or library for CUDA: NULL if its unload is deferred, which CUDA refuses. Any thread. */
void *gpu_deferred_check(void *handle);

/* Defers the free of memory of the library in this context (any for pinned memory). Any thread; never switches. */
void gpu_deferred_add(CUcontext context, void *memory, bool is_pinned);

/* Forgets the memory of a context that is about to end, which frees it; a library stays loaded. False: a thread gives some back; call it again after a
 * pause, without locks. Any thread; never switches. */
bool gpu_deferred_forget(CUcontext context) BASE_MUST_CHECK;

/* After a call of the driver for the program that found no memory, as often as n_attempts says: gives the deferred memory of the
 * current context back. True: the call is made again. Any thread; may switch if is_wanted (offload.h). */
bool gpu_deferred_give_back(int *n_attempts, bool is_wanted);

/* Contexts whose destruction the rank has not waited for: a call that finds no memory waits for them, too. */
extern _Atomic int gpu_deferred_n_contexts;

/* cuMemAlloc for the program: takes deferred memory of this size. Any thread. */
CUresult CUDAAPI gpu_deferred_alloc(CUdeviceptr *memory_out, size_t n_bytes);

#endif
