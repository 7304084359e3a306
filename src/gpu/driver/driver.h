/* SPDX-License-Identifier: BSD-3-Clause
 *
 * driver.h: CUDA's driver as a table of functions that is filled at run time; for the files of src/gpu
 * alone.
 *
 * The library is not linked with libcuda. The list below defines the members of the table, their types
 * (from cuda.h) and the names to look up. cuda.h turns a name into that of its current version (cuMemAlloc
 * is cuMemAlloc_v2), in the member as well as in the string.
 *
 * Every call goes through gpu_call: an error is recorded for gpu_error_text, and returned.
 */
#ifndef GPU_DRIVER_H
#define GPU_DRIVER_H

#include <cuda.h>

#include "gpu/driver/query.h"
#include "gpu/gpu.h"

#define GPU_DRIVER_SYMBOLS(X)      \
    X(cuInit)                      \
    X(cuDriverGetVersion)          \
    X(cuGetErrorName)              \
    X(cuGetErrorString)            \
    X(cuDeviceGetCount)            \
    X(cuDeviceGet)                 \
    X(cuDeviceGetName)             \
    X(cuDeviceGetAttribute)        \
    X(cuDeviceGetPCIBusId)         \
    X(cuDeviceTotalMem)            \
    X(cuDeviceCanAccessPeer)       \
    X(cuDevicePrimaryCtxRetain)    \
    X(cuDevicePrimaryCtxGetState)  \
    X(cuCtxGetCurrent)             \
    X(cuCtxSetCurrent)             \
    X(cuCtxGetDevice)              \
    X(cuCtxSynchronize)            \
    X(cuCtxGetStreamPriorityRange) \
    X(cuCtxEnablePeerAccess)       \
    X(cuPointerSetAttribute)       \
    X(cuPointerGetAttributes)      \
    X(cuMemPoolGetAccess)          \
    X(cuMemGetAccess)              \
    X(cuMemAlloc)                  \
    X(cuMemAllocManaged)           \
    X(cuMemFree)                   \
    X(cuMemHostAlloc)              \
    X(cuMemFreeHost)               \
    X(cuMemHostGetDevicePointer)   \
    X(cuMemcpyAsync)               \
    X(cuMemcpyDtoDAsync)           \
    X(cuMemcpyHtoDAsync)           \
    X(cuMemcpyDtoHAsync)           \
    X(cuStreamCreateWithPriority)  \
    X(cuStreamDestroy)             \
    X(cuStreamQuery)               \
    X(cuStreamSynchronize)         \
    X(cuStreamWaitEvent)           \
    X(cuEventCreate)               \
    X(cuEventDestroy)              \
    X(cuEventQuery)                \
    X(cuEventRecord)               \
    X(cuEventSynchronize)          \
    X(cuStreamWriteValue32)        \
    X(cuStreamBatchMemOp)          \
    X(cuModuleLoadData)            \
    X(cuModuleGetFunction)         \
    X(cuLaunchKernel)

struct gpu_driver {
#define GPU_DRIVER_MEMBER(name) __typeof__(&name) name;
    GPU_DRIVER_SYMBOLS(GPU_DRIVER_MEMBER)
#undef GPU_DRIVER_MEMBER
};
extern struct gpu_driver gpu_driver;

/* Replaces functions of a table that has been filled, so that captures of the program neither forbid the library's calls nor
 * are ended by them. (relaxed.c) */
void gpu_driver_relax(struct gpu_driver *driver, void *library) BASE_COLD;

/* Replaces cuCtxSetCurrent, which returns CUDA_ERROR_CONTEXT_IS_DESTROYED for such contexts from then on. (context_ends.c) */
void gpu_driver_guard_contexts(struct gpu_driver *driver) BASE_COLD;

/* True if all captures of the process are relaxed anyway. Set before the ranks begin. */
extern bool gpu_captures_are_relaxed;

/* Calls a function of the table and returns its CUresult as an int: gpu_call(cuMemFree, (addr)). */
#define gpu_call(function, arguments) gpu_driver_check(gpu_driver.function arguments, #function)

/* A function of the driver that is seldom needed, so not in the table; NULL: it is missing. */
void *gpu_driver_find(const char *name) BASE_COLD;

/* The last error of this thread. */
int gpu_driver_last(void);

/* True for errors that make a context unusable: they come from kernels, and every later call returns them. */
bool gpu_driver_is_sticky(int error);

/* Records that `function` returned this error, for gpu_error_text on this thread. Returns it. */
int gpu_driver_record(int error, const char *function) BASE_COLD;

/* The same for an error that concerns an address, which gpu_error_text will print. */
int gpu_driver_record_address(int error, const char *function, uintptr_t addr) BASE_COLD;

static inline int gpu_driver_check(CUresult result, const char *function)
{
    return BASE_LIKELY(result == CUDA_SUCCESS) ? 0 : gpu_driver_record((int)result, function);
}

/* ---- Devices and contexts (device.c) ---- */

/* "GPU 0: NVIDIA H200, 143771 MiB, PCI 0000:01:00.0" */
void gpu_device_describe(int device, char *text, size_t text_bytes);

/* The primary context of a device, kept for the rest of the process. NULL: unavailable (error recorded). */
CUcontext gpu_context_of(int device);

/* True if the device's context has been retained; true if this context is one of those. */
bool gpu_context_is_held(int device);
bool gpu_context_is_kept(CUcontext context);

/* The first: the program is about to destroy a context. The second: it has created one with this handle, or, is_same,
 * has not destroyed it. Any thread. (context_ends.c) */
void gpu_context_ends(CUcontext context);
void gpu_context_begins(CUcontext context, bool is_same);

/* The number of contexts destroyed so far; true if the one with this handle has been destroyed since that number was `since`. */
uint64_t gpu_context_count_ends(void);
bool gpu_context_is_lost(CUcontext context, uint64_t since);

/* True if the context with this handle has been destroyed, and no other has got the handle. */
bool gpu_context_is_gone(CUcontext context);

/* True if this is device memory, and the driver's synchronous calls on it may return early: without
 * CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, or where that has no effect. (device.c) */
bool gpu_memory_may_be_late(CUdeviceptr address);

/* The kind of memory at this address: an enum gpu_memory, from the driver. Unlike gpu_query, it has no side
 * effects. (device.c) */
int gpu_memory_type(CUdeviceptr address);

/* True for memory of cuMemAllocAsync, and of pools in general: cuMemFree of it waits for nothing. (device.c) */
bool gpu_memory_is_of_pool(CUdeviceptr address);

/* The current context of this thread; NULL: none. */
static inline CUcontext gpu_context_current(void)
{
    CUcontext context = NULL;

    return gpu_driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : NULL;
}

/* Makes a context current on this thread; gpu_context_leave restores the previous one. Returns 0 or an
 * error (recorded); after an error there is nothing to leave. */
static inline int gpu_context_enter(CUcontext wanted, CUcontext *before_out) BASE_MUST_CHECK;
static inline int gpu_context_enter(CUcontext wanted, CUcontext *before_out)
{
    CUcontext before = NULL;
    int error = gpu_call(cuCtxGetCurrent, (&before));

    if (!error && before != wanted)
        error = gpu_call(cuCtxSetCurrent, (wanted));
    *before_out = before;
    return error;
}

static inline void gpu_context_leave(CUcontext wanted, CUcontext before)
{
    if (before != wanted && gpu_driver.cuCtxSetCurrent(before) != CUDA_SUCCESS)
        gpu_driver.cuCtxSetCurrent(NULL); /* it has been destroyed */
}

#endif
