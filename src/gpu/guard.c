/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard.c: the functions of CUDA's driver that wait for whatever runs on a GPU; see guard.h. Each sends the
 * kernels that stay away, keeps them away, and calls the driver's.
 *
 * Which ones wait was measured: bench/gpu/waiting_calls.cu, docs/decisions/0008. None waits for another GPU
 * than that of its context or memory, but which that is takes a question, so all go where the call takes long
 * anyway. What waits and is not here is the first launch of a kernel, which is loaded then: the kernels that
 * stay go by themselves after a while.
 */
#include "gpu/guard.h"

#include "gpu/driver.h"
#include "gpu/rank_context.h"
#include "gpu/service.h"
#include "gpu/stream_api.h"
#include "gpu/streams.h"
#include "gpu_detect.h"

#define AS_TEXT(name) AS_TEXT_2(name)
#define AS_TEXT_2(name) #name

/* Not in every cuda.h, or not by these names. */
CUresult CUDAAPI cuFuncLoad(CUfunction function);
CUresult CUDAAPI cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned x, unsigned y, unsigned z,
                                                unsigned threads_x, unsigned threads_y, unsigned threads_z,
                                                unsigned shared_bytes, CUstream stream, void **parameters);

#define LAUNCH_PARAMETERS                                                                             \
    (CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y, \
     unsigned threads_z, unsigned shared_bytes, CUstream stream, void **parameters)
#define LAUNCH_ARGUMENTS(is_per_thread)                                \
    (function, x, y, z, threads_x, threads_y, threads_z, shared_bytes, \
     gpu_streams_use(stream, is_per_thread), parameters)

/* X(function, the first version of CUDA whose cuGetProcAddress gives it, parameters, arguments, which GPU's
 * kernels go away, why) */
#define WAITING(X)                                                                                       \
    X(cuCtxSetLimit, 3010, (CUlimit limit, size_t value), (limit, value), GPU_SERVICE_ALL,               \
      "waits for the GPU to change the stacks of kernels")                                               \
    X(cuMemFree, 3020, (CUdeviceptr memory), (memory), GPU_SERVICE_ALL, "waits for the memory's GPU")    \
    X(cuMemFreeHost, 2000, (void *memory), (memory), GPU_SERVICE_ALL, "waits for the GPU")               \
    X(cuMemHostUnregister, 4000, (void *memory), (memory), GPU_SERVICE_ALL, "waits for the GPU")         \
    X(cuArrayDestroy, 2000, (CUarray array), (array), GPU_SERVICE_ALL, "waits for the memory's GPU")     \
    X(cuModuleLoad, 2000, (CUmodule * module, const char *path), (module, path), current_device(),       \
      "waits for the GPU")                                                                               \
    X(cuModuleLoadData, 2000, (CUmodule * module, const void *image), (module, image), current_device(), \
      "waits for the GPU")                                                                               \
    X(cuModuleLoadDataEx, 2010,                                                                          \
      (CUmodule * module, const void *image, unsigned n_options, CUjit_option *options, void **values),  \
      (module, image, n_options, options, values), current_device(), "waits for the GPU")                \
    X(cuModuleLoadFatBinary, 2000, (CUmodule * module, const void *image), (module, image),              \
      current_device(), "waits for the GPU")                                                             \
    X(cuModuleUnload, 2000, (CUmodule module), (module), GPU_SERVICE_ALL, "waits for the GPU")           \
    X(cuLibraryUnload, 12000, (CUlibrary library), (library), GPU_SERVICE_ALL, "waits for the GPU")      \
    X(cuKernelGetFunction, 12000, (CUfunction * function, CUkernel kernel), (function, kernel),          \
      current_device(), "may load the kernel, and waits for the GPU then")                               \
    X(cuFuncLoad, 12040, (CUfunction function), (function), current_device(), "waits for the GPU")       \
    X(cuLaunchCooperativeKernel, 9000, LAUNCH_PARAMETERS, LAUNCH_ARGUMENTS(false), current_device(),     \
      "may need every multiprocessor")                                                                   \
    X(cuLaunchCooperativeKernel_ptsz, 9000, LAUNCH_PARAMETERS, LAUNCH_ARGUMENTS(true), current_device(), \
      "may need every multiprocessor")

/* ---- Which GPU ---- */

static int current_device(void)
{
    CUdevice device;

    return gpu_driver.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : GPU_SERVICE_ALL;
}

static int device_of(CUcontext context)
{
    return context ? GPU_SERVICE_ALL : current_device();
}

/* ---- The functions ---- */

/* The driver's. */
static struct {
#define MEMBER(name, version, parameters, arguments, device, why) __typeof__(&name) name;
    WAITING(MEMBER)
#undef MEMBER
} real;

/* Before the first resident kernel there is nothing to send away. The driver's function does not wait for a
 * kernel that starts while it waits. */
#define FUNCTION(name, version, parameters, arguments, device, why) \
    static CUresult guard_##name parameters                         \
    {                                                               \
        CUresult result;                                            \
        int hold = GPU_SERVICE_NONE;                                \
        gpu_guard_prepare();                                        \
        if (gpu_service_exists()) {                                 \
            hold = device;                                          \
            gpu_service_hold(hold);                                 \
        }                                                           \
        result = real.name arguments;                               \
        gpu_service_release(hold);                                  \
        return result;                                              \
    }
WAITING(FUNCTION)
#undef FUNCTION

/* Sends the resident kernels of a device away, if there are any. Returns the argument of
 * gpu_service_release. */
static int hold_kernels(int device)
{
    int hold = gpu_service_exists() ? device : GPU_SERVICE_NONE;

    gpu_service_hold(hold);
    return hold;
}

CUresult CUDAAPI gpu_guard_synchronize(void)
{
    int hold;
    CUresult result;

    gpu_guard_prepare();
    hold = hold_kernels(current_device());
    result = gpu_stream_real.r_cuCtxSynchronize();
    gpu_service_release(hold);
    return result;
}

CUresult CUDAAPI gpu_guard_synchronize_v2(CUcontext context)
{
    int hold = hold_kernels(device_of(context));
    CUresult result = gpu_stream_real.r_cuCtxSynchronize_v2(context);

    gpu_service_release(hold);
    return result;
}

/* Nothing runs yet in a context that this call creates: the library's kernels can be loaded without a
 * wait. */
CUresult CUDAAPI gpu_guard_retain(CUcontext *context, CUdevice device)
{
    unsigned flags;
    int is_there = 1;
    CUresult result;

    gpu_guard_prepare();
    if (gpu_service_us > 0 && gpu_is_used())
        gpu_driver.cuDevicePrimaryCtxGetState(device, &flags, &is_there);
    result = gpu_contexts_real.retain(context, device);
    if (result == CUDA_SUCCESS && !is_there)
        gpu_service_load(device, *context, real.cuFuncLoad);
    return result;
}

/* ---- The list ---- */

const struct gpu_guarded gpu_waiting_functions[] = {
#define ROW(name, version, parameters, arguments, device, why) \
    {AS_TEXT(name), (void *)guard_##name, version, why, (void **)&real.name},
    WAITING(ROW)
#undef ROW
};
const size_t gpu_n_waiting_functions = BASE_COUNT(gpu_waiting_functions);
