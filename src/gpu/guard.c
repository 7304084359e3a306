/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard.c: the functions of CUDA's driver that the program gets ours for; see guard.h. Those that wait for
 * whatever runs on a GPU stand here: each sends the kernels that stay away, keeps them away, and calls the
 * driver's. Those that are about contexts are in rank_context.c.
 *
 * Which ones wait was measured: bench/gpu/waiting_calls.cu, docs/decisions/0008. None waits for another GPU
 * than that of its context or memory, but which that is takes a question, so all go where the call takes long
 * anyway. What waits and is not here is the first launch of a kernel, which is loaded then: the kernels that
 * stay go by themselves after a while.
 */
#include "gpu/guard.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "gpu/driver.h"
#include "gpu/rank_context.h"
#include "gpu/service.h"
#include "gpu/symbols.h"
#include "gpu_detect.h"
#include "gpu_watch.h"

#define AS_TEXT(name) AS_TEXT_2(name)
#define AS_TEXT_2(name) #name

/* Not in every cuda.h, or not by these names. */
CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext context);
CUresult CUDAAPI cuFuncLoad(CUfunction function);
CUresult CUDAAPI cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned x, unsigned y, unsigned z,
                                                unsigned threads_x, unsigned threads_y, unsigned threads_z,
                                                unsigned shared_bytes, CUstream stream, void **parameters);

#define LAUNCH_PARAMETERS                                                                             \
    (CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y, \
     unsigned threads_z, unsigned shared_bytes, CUstream stream, void **parameters)
#define LAUNCH_ARGUMENTS \
    (function, x, y, z, threads_x, threads_y, threads_z, shared_bytes, stream, parameters)

/* X(function, the first version of CUDA whose cuGetProcAddress gives it, parameters, arguments, which GPU's
 * kernels go away, why) */
#define WAITING(X)                                                                                         \
    X(cuCtxSynchronize, 2000, (void), (), current_device(), "waits for the GPU")                           \
    X(cuCtxSynchronize_v2, 13000, (CUcontext context), (context), device_of(context), "waits for the GPU") \
    X(cuCtxSetLimit, 3010, (CUlimit limit, size_t value), (limit, value), GPU_SERVICE_ALL,                 \
      "waits for the GPU to change the stacks of kernels")                                                 \
    X(cuMemFree, 3020, (CUdeviceptr memory), (memory), GPU_SERVICE_ALL, "waits for the memory's GPU")      \
    X(cuMemFreeHost, 2000, (void *memory), (memory), GPU_SERVICE_ALL, "waits for the GPU")                 \
    X(cuMemHostUnregister, 4000, (void *memory), (memory), GPU_SERVICE_ALL, "waits for the GPU")           \
    X(cuArrayDestroy, 2000, (CUarray array), (array), GPU_SERVICE_ALL, "waits for the memory's GPU")       \
    X(cuModuleLoad, 2000, (CUmodule * module, const char *path), (module, path), current_device(),         \
      "waits for the GPU")                                                                                 \
    X(cuModuleLoadData, 2000, (CUmodule * module, const void *image), (module, image), current_device(),   \
      "waits for the GPU")                                                                                 \
    X(cuModuleLoadDataEx, 2010,                                                                            \
      (CUmodule * module, const void *image, unsigned n_options, CUjit_option *options, void **values),    \
      (module, image, n_options, options, values), current_device(), "waits for the GPU")                  \
    X(cuModuleLoadFatBinary, 2000, (CUmodule * module, const void *image), (module, image),                \
      current_device(), "waits for the GPU")                                                               \
    X(cuModuleUnload, 2000, (CUmodule module), (module), GPU_SERVICE_ALL, "waits for the GPU")             \
    X(cuLibraryUnload, 12000, (CUlibrary library), (library), GPU_SERVICE_ALL, "waits for the GPU")        \
    X(cuKernelGetFunction, 12000, (CUfunction * function, CUkernel kernel), (function, kernel),            \
      current_device(), "may load the kernel, and waits for the GPU then")                                 \
    X(cuFuncLoad, 12040, (CUfunction function), (function), current_device(), "waits for the GPU")         \
    X(cuLaunchCooperativeKernel, 9000, LAUNCH_PARAMETERS, LAUNCH_ARGUMENTS, current_device(),              \
      "may need every multiprocessor")                                                                     \
    X(cuLaunchCooperativeKernel_ptsz, 9000, LAUNCH_PARAMETERS, LAUNCH_ARGUMENTS, current_device(),         \
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

static void prepare(void);

/* The driver's, in the order of gpu_guarded. */
static struct {
#define MEMBER(name, version, parameters, arguments, device, why) __typeof__(&name) name;
    WAITING(MEMBER)
#undef MEMBER
} real;

/* Before the first kernel of ours there is none to send away. One that is made while the driver's function
 * waits is not what it waits for. */
#define FUNCTION(name, version, parameters, arguments, device, why) \
    static CUresult guard_##name parameters                         \
    {                                                               \
        CUresult result;                                            \
        int hold = GPU_SERVICE_NONE;                                \
        prepare();                                                  \
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

/* A context that this call makes runs nothing yet: kernels of ours can be loaded without a wait. */
CUresult CUDAAPI gpu_guard_retain(CUcontext *context, CUdevice device)
{
    unsigned flags;
    int is_there = 1;
    CUresult result;

    prepare();
    if (gpu_service_us > 0 && gpu_is_used())
        gpu_driver.cuDevicePrimaryCtxGetState(device, &flags, &is_there);
    result = gpu_contexts_real.retain(context, device);
    if (result == CUDA_SUCCESS && !is_there)
        gpu_service_load(device, *context, real.cuFuncLoad);
    return result;
}

/* ---- Finding them ---- */

typedef CUresult(CUDAAPI *find_1_fn)(const char *, void **, int, cuuint64_t);
typedef CUresult(CUDAAPI *find_2_fn)(const char *, void **, int, cuuint64_t,
                                     CUdriverProcAddressQueryResult *);

static CUresult guard_find_1(const char *name, void **function, int version, cuuint64_t flags);
static CUresult guard_find_2(const char *name, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status);
static CUresult guard_find_2_ptsz(const char *name, void **function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status);

const struct gpu_guarded gpu_guarded[] = {
    {"cuGetProcAddress", (void *)guard_find_1, 11030, "gives the others"},
    {"cuGetProcAddress_v2", (void *)guard_find_2, 12000, "gives the others"},
    {"cuGetProcAddress_v2_ptsz", (void *)guard_find_2_ptsz, 12000, "gives the others"},
#define CONTEXT_ROW(member, parameters, name, version, ours, why) {name, (void *)ours, version, why},
    GPU_RANK_CONTEXT_FUNCTIONS(CONTEXT_ROW)
#undef CONTEXT_ROW
#define ROW(name, version, parameters, arguments, device, why) \
    {AS_TEXT(name), (void *)guard_##name, version, why},
        WAITING(ROW)
#undef ROW
};
const size_t gpu_n_guarded = BASE_COUNT(gpu_guarded);

enum { FIND_1, FIND_2, FIND_2_PTSZ, FIRST_CONTEXT };
enum { FIRST_FUNCTION = FIRST_CONTEXT + sizeof gpu_contexts_real / sizeof(void *) };

/* The addresses of the driver's, by the two ways of finding them; NULL: it has none. */
static struct {
    void *by_name;
    void *by_version;
} addresses[BASE_COUNT(gpu_guarded)];

/* cuGetProcAddress knows a function by its name without what follows the first '_'. */
static void *ask_for(const char *name, int version)
{
    cuuint64_t flags =
        strstr(name, "_ptsz") ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT;
    find_2_fn ask = (find_2_fn)addresses[FIND_2].by_name;
    char base[64] = "";
    void *function = NULL;

    strncpy(base, name, base_min_u64(strcspn(name, "_"), sizeof base - 1));
    return ask && ask(base, &function, version, flags, NULL) == CUDA_SUCCESS ? function : NULL;
}

/* The driver is here, and stays. */
static void look_up(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void **members = (void **)&real, **contexts = (void **)&gpu_contexts_real;

    for (size_t i = 0; driver && i < gpu_n_guarded; i++)
        addresses[i].by_name = gpu_symbol(driver, gpu_guarded[i].name);
    for (size_t i = 0; driver && i < gpu_n_guarded; i++)
        if (i >= FIRST_CONTEXT || addresses[i].by_name)
            addresses[i].by_version = ask_for(gpu_guarded[i].name, gpu_guarded[i].version);
    for (size_t i = FIRST_CONTEXT; i < gpu_n_guarded; i++) {
        void **member = i < FIRST_FUNCTION ? &contexts[i - FIRST_CONTEXT] : &members[i - FIRST_FUNCTION];
        *member = addresses[i].by_name ? addresses[i].by_name : addresses[i].by_version;
    }
}

static void prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, look_up);
}

void gpu_guard_prepare(void)
{
    prepare();
    (void)gpu_driver_open(NULL); /* not within what is done once: it comes here itself */
}

/* Ours in place of one of the driver's. */
static void *replace(void *function)
{
    for (size_t i = 0; i < gpu_n_guarded && function; i++)
        if (function == addresses[i].by_name)
            return gpu_guarded[i].function;
    for (size_t i = 0; i < gpu_n_guarded && function; i++)
        if (function == addresses[i].by_version)
            return gpu_guarded[i].function;
    return function;
}

void *gpu_guard(const char *name, void *function)
{
    if (!function || strncmp(name, "cu", 2) != 0)
        return function;
    for (size_t i = 0; i < gpu_n_guarded; i++)
        if (strcmp(name, gpu_guarded[i].name) == 0) {
            prepare();
            return replace(function);
        }
    return function;
}

void *gpu_guard_library(const char *name, void *function)
{
    prepare();
    for (size_t i = FIRST_CONTEXT; i < FIRST_FUNCTION; i++)
        if (strcmp(name, gpu_guarded[i].name) == 0)
            return function == (void *)gpu_contexts_real.retain ? (void *)gpu_guard_retain : function;
    return gpu_guard(name, function);
}

static CUresult guard_find_1(const char *name, void **function, int version, cuuint64_t flags)
{
    CUresult result;

    prepare();
    result = ((find_1_fn)addresses[FIND_1].by_name)(name, function, version, flags);
    if (result == CUDA_SUCCESS)
        *function = replace(*function);
    return result;
}

static CUresult find(int finder, const char *name, void **function, int version, cuuint64_t flags,
                     CUdriverProcAddressQueryResult *status)
{
    CUresult result;

    prepare();
    result = ((find_2_fn)addresses[finder].by_name)(name, function, version, flags, status);
    if (result == CUDA_SUCCESS)
        *function = replace(*function);
    return result;
}

static CUresult guard_find_2(const char *name, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    return find(FIND_2, name, function, version, flags, status);
}

static CUresult guard_find_2_ptsz(const char *name, void **function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status)
{
    return find(FIND_2_PTSZ, name, function, version, flags, status);
}
