/* SPDX-License-Identifier: BSD-3-Clause
 *
 * relaxed.c: the library's calls of the driver while the program captures a stream.
 *
 * In CUDA's default mode (global), a capture in progress forbids some calls to all threads, such as allocations and queries;
 * such a call fails and ends the capture. Captures of ranks with streams of their own are relaxed for the driver
 * (gpu/rank/capture.c). In other processes the modes are the program's, and the library may not know of a capture. So those of
 * its calls that may be forbidden put their thread into relaxed mode meanwhile, and so do calls of UCX, which calls CUDA.
 */
#include "gpu/driver/driver.h"
#include "gpu/driver/driver_symbols.h"
#include "gpu/gpu.h"
#include "gpu_detect.h"

bool gpu_captures_are_relaxed;

/* X(function, parameters, arguments) */
#define FORBIDDEN(X)                                                                                         \
    X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device), (context, device))                   \
    X(cuCtxSynchronize, (void), ())                                                                          \
    X(cuCtxEnablePeerAccess, (CUcontext peer, unsigned flags), (peer, flags))                                \
    X(cuPointerSetAttribute, (const void *value, CUpointer_attribute attribute, CUdeviceptr address),        \
      (value, attribute, address))                                                                           \
    X(cuMemAlloc, (CUdeviceptr * address, size_t n_bytes), (address, n_bytes))                               \
    X(cuMemAllocManaged, (CUdeviceptr * address, size_t n_bytes, unsigned flags), (address, n_bytes, flags)) \
    X(cuMemFree, (CUdeviceptr address), (address))                                                           \
    X(cuMemHostAlloc, (void **address, size_t n_bytes, unsigned flags), (address, n_bytes, flags))           \
    X(cuMemFreeHost, (void *address), (address))                                                             \
    X(cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority),                         \
      (stream, flags, priority))                                                                             \
    X(cuStreamQuery, (CUstream stream), (stream))                                                            \
    X(cuStreamSynchronize, (CUstream stream), (stream))                                                      \
    X(cuEventCreate, (CUevent * event, unsigned flags), (event, flags))                                      \
    X(cuEventDestroy, (CUevent event), (event))                                                              \
    X(cuEventQuery, (CUevent event), (event))                                                                \
    X(cuEventSynchronize, (CUevent event), (event))                                                          \
    X(cuModuleLoadData, (CUmodule * module, const void *image), (module, image))                             \
    X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name),                       \
      (function, module, name))                                                                              \
    X(cuLaunchKernel,                                                                                        \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,             \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,        \
       void **extra),                                                                                        \
      (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters,        \
       extra))

/* The functions that these call: the driver's, or their replacements for the library (guard.h). */
static struct {
#define MEMBER(name, parameters, arguments) __typeof__(&name) name;
    FORBIDDEN(MEMBER)
#undef MEMBER
} real;

static CUresult(CUDAAPI *exchange)(CUstreamCaptureMode *mode);

#define FUNCTION(name, parameters, arguments)                            \
    static CUresult CUDAAPI relaxed_##name parameters                    \
    {                                                                    \
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;       \
        CUresult result;                                                 \
                                                                         \
        if (gpu_captures_are_relaxed || exchange(&mode) != CUDA_SUCCESS) \
            return real.name arguments;                                  \
        result = real.name arguments;                                    \
        (void)exchange(&mode);                                           \
        return result;                                                   \
    }
FORBIDDEN(FUNCTION)
#undef FUNCTION

void gpu_driver_relax(struct gpu_driver *driver, void *library)
{
    *(void **)&exchange = gpu_symbol(library, "cuThreadExchangeStreamCaptureMode");
    if (!exchange)
        return;
#define TAKE(name, parameters, arguments) \
    real.name = driver->name;             \
    driver->name = relaxed_##name;
    FORBIDDEN(TAKE)
#undef TAKE
}

int gpu_relax_begin(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    return !gpu_captures_are_relaxed && atomic_load(&gpu_is_active) && exchange &&
                   exchange(&mode) == CUDA_SUCCESS
               ? (int)mode
               : -1;
}

void gpu_relax_end(int mode)
{
    CUstreamCaptureMode before = (CUstreamCaptureMode)mode;

    if (mode >= 0)
        (void)exchange(&before);
}
