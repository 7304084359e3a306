/* SPDX-License-Identifier: BSD-3-Clause
 *
 * launches.c: see launches.h.
 */
#include "gpu/rank/launches.h"

#include <string.h>

#include "base/log.h"
#include "gpu/copy/resident.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/guard_calls.h"
#include "gpu/rank/offload.h"
#include "gpu/rank/repeats.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/waits.h"

#define real gpu_stream_real

/* ---- The kernels launched so far ---- */

#define PLACES_AT_FIRST 64

/* A library's kernel may be launched in several contexts. */
static inline uintptr_t key_of(const struct gpu_launched *launched, CUfunction function)
{
    return (uintptr_t)function ^ (uintptr_t)launched->context << 16;
}

static inline uintptr_t *place_of(const struct gpu_launched *launched, uintptr_t key)
{
    unsigned mask = launched->n_places - 1, i = base_hash_address((void *)key) & mask;

    while (launched->keys[i] && launched->keys[i] != key)
        i = (i + 1) & mask;
    return &launched->keys[i];
}

static inline bool is_known(const struct gpu_launched *launched, CUfunction function)
{
    return launched->n_places > 0 && *place_of(launched, key_of(launched, function));
}

static void grow(struct gpu_launched *launched)
{
    struct gpu_launched old = *launched;

    launched->n_places = old.n_places ? 2 * old.n_places : PLACES_AT_FIRST;
    launched->keys = base_calloc(launched->n_places, sizeof *launched->keys, "the kernels of a rank");
    for (unsigned i = 0; i < old.n_places; i++)
        if (old.keys[i])
            *place_of(launched, old.keys[i]) = old.keys[i];
    free(old.keys);
}

static void add(struct gpu_launched *launched, CUfunction function)
{
    if (is_known(launched, function))
        return;
    if (2 * (launched->n_used + 1) > launched->n_places)
        grow(launched);
    *place_of(launched, key_of(launched, function)) = key_of(launched, function);
    launched->n_used++;
}

static struct gpu_launched *launched_of_self(void)
{
    struct gpu_rank_streams *rank = gpu_streams_of_main();

    return rank ? &rank->launched : NULL;
}

void gpu_launches_enter(CUcontext context)
{
    struct gpu_launched *launched = launched_of_self();

    if (launched)
        launched->context = context;
}

void gpu_launches_forget(void)
{
    struct gpu_launched *launched = launched_of_self();

    if (launched && launched->n_used > 0) {
        memset(launched->keys, 0, launched->n_places * sizeof *launched->keys);
        launched->n_used = 0;
    }
}

bool gpu_launches_know(const void *kernel)
{
    const struct gpu_launched *launched = launched_of_self();

    return launched && is_known(launched, (CUfunction)kernel);
}

void gpu_launches_note(const void *kernel)
{
    struct gpu_launched *launched = launched_of_self();

    if (launched)
        add(launched, (CUfunction)kernel);
}

/* ---- First launches ---- */

/* All parameters of a launch. */
struct launch {
    struct gpu_offload offload;
    CUlaunchConfig config; /* its stream is the driver's */
    CUfunction function;
    void **parameters;
    void **extra;
    union {
        __typeof__(real.r_cuLaunchKernel) kernel;
        __typeof__(real.r_cuLaunchCooperativeKernel) cooperative;
        __typeof__(real.r_cuLaunchKernelEx) ex;
    } driver;
};

#define SIZES(config)                                                                                     \
    (config)->gridDimX, (config)->gridDimY, (config)->gridDimZ, (config)->blockDimX, (config)->blockDimY, \
        (config)->blockDimZ, (config)->sharedMemBytes, (config)->hStream

static void run_kernel(struct gpu_offload *offload)
{
    struct launch *launch = BASE_CONTAINER(offload, struct launch, offload);

    offload->result =
        launch->driver.kernel(launch->function, SIZES(&launch->config), launch->parameters, launch->extra);
}

/* It may need every multiprocessor. */
static void run_cooperative(struct gpu_offload *offload)
{
    struct launch *launch = BASE_CONTAINER(offload, struct launch, offload);
    int hold = gpu_resident_hold(GPU_RESIDENT_CURRENT);

    offload->result =
        launch->driver.cooperative(launch->function, SIZES(&launch->config), launch->parameters);
    gpu_resident_release(hold);
}

static void run_ex(struct gpu_offload *offload)
{
    struct launch *launch = BASE_CONTAINER(offload, struct launch, offload);

    offload->result = launch->driver.ex(&launch->config, launch->function, launch->parameters, launch->extra);
}

/* Loading would wait for the resident kernel, too. The per-thread stream of the PE's thread is not that of
 * the other thread: there the kernel is only loaded. */
static BASE_COLD CUresult launch_first(struct launch *launch, const struct gpu_call *call, const void *caller)
{
    bool is_wanted = call->rank && gpu_offload_is_wanted(caller);
    int hold = gpu_resident_hold(GPU_RESIDENT_CURRENT);
    CUresult result;

    launch->config.hStream = call->stream;
    launch->offload.label = "the first launch of a kernel";
    if (call->rank)
        launch->offload.drain_tries = gpu_guard_tries(launch->function);
    if (is_wanted && call->is_of_thread)
        gpu_guard_load(launch->function);
    result = gpu_offload_call(&launch->offload, is_wanted && !call->is_of_thread);
    gpu_resident_release(hold);
    gpu_call_end(call);
    if (result == CUDA_SUCCESS && call->rank && call->rank->n_captures == 0)
        add(&call->rank->launched, launch->function);
    return result;
}

/* Launches a kernel that is loaded. */
static CUresult launch_again(struct launch *launch, const struct gpu_call *call, const void *caller)
{
    CUresult result;

    gpu_submit_begin(caller);
    result = gpu_offload_call(&launch->offload, false);
    gpu_submit_end();
    gpu_call_end(call);
    return result;
}

/* True if the kernel is known to be loaded. Always true where the ranks share their streams. */
static inline bool is_loaded(const struct gpu_call *call, CUfunction function)
{
    return BASE_LIKELY(!call->rank || is_known(&call->rank->launched, function));
}

/* ---- The functions ---- */

#define SIZE_PARAMETERS                                                                                      \
    unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, \
        unsigned shared_bytes
#define SIZE_ARGUMENTS grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes
#define CONFIG                                                                            \
    {                                                                                     \
        .gridDimX = grid_x, .gridDimY = grid_y, .gridDimZ = grid_z, .blockDimX = block_x, \
        .blockDimY = block_y, .blockDimZ = block_z, .sharedMemBytes = shared_bytes        \
    }

static inline CUresult begin(struct gpu_call *call, CUfunction function, CUstream stream, bool is_per_thread,
                             const void *caller)
{
    CUresult result;

    if (BASE_UNLIKELY(gpu_launch_watcher != NULL))
        gpu_launch_watcher(function);
    gpu_guard_find();
    gpu_repeats_break_unless(stream, is_per_thread);
    result = gpu_call_begin(call, stream, is_per_thread, GPU_CALL_SUBMIT, caller);
    if (BASE_LIKELY(result == CUDA_SUCCESS))
        gpu_call_make_room(call, caller);
    return result;
}

#define LAUNCH_KERNEL(is_per_thread, driver_function)                                                    \
    struct gpu_call call;                                                                                \
    CUresult result = begin(&call, function, stream, is_per_thread, GPU_CALLER);                         \
    if (BASE_UNLIKELY(result != CUDA_SUCCESS))                                                           \
        return result;                                                                                   \
    if (is_loaded(&call, function)) {                                                                    \
        const unsigned sizes[] = {SIZE_ARGUMENTS};                                                       \
        if (gpu_repeats_take_launch(&call, stream, is_per_thread, function, sizes, parameters, extra,    \
                                    GPU_CALLER, &result))                                                \
            return result;                                                                               \
        gpu_submit_begin(GPU_CALLER);                                                                    \
        result = real.driver_function(function, SIZE_ARGUMENTS, call.stream, parameters, extra);         \
        gpu_submit_end();                                                                                \
        gpu_call_end(&call);                                                                             \
        return result;                                                                                   \
    }                                                                                                    \
    gpu_repeats_break();                                                                                 \
    return launch_first(                                                                                 \
        &(struct launch){                                                                                \
            {.run = run_kernel}, CONFIG, function, parameters, extra, {.kernel = real.driver_function}}, \
        &call, GPU_CALLER)

CUresult CUDAAPI gpu_launch_kernel(CUfunction function, SIZE_PARAMETERS, CUstream stream, void **parameters,
                                   void **extra)
{
    LAUNCH_KERNEL(false, r_cuLaunchKernel);
}

CUresult CUDAAPI gpu_launch_kernel_ptsz(CUfunction function, SIZE_PARAMETERS, CUstream stream,
                                        void **parameters, void **extra)
{
    LAUNCH_KERNEL(true, r_cuLaunchKernel_ptsz);
}

static CUresult launch_cooperative(struct launch *launch, CUstream stream, bool is_per_thread,
                                   const void *caller)
{
    struct gpu_call call;
    CUresult result = begin(&call, launch->function, stream, is_per_thread, caller);

    if (result != CUDA_SUCCESS)
        return result;
    launch->offload.run = run_cooperative;
    launch->config.hStream = call.stream;
    return is_loaded(&call, launch->function) ? launch_again(launch, &call, caller)
                                              : launch_first(launch, &call, caller);
}

CUresult CUDAAPI gpu_launch_cooperative(CUfunction function, SIZE_PARAMETERS, CUstream stream,
                                        void **parameters)
{
    struct launch launch = {.config = CONFIG, .function = function, .parameters = parameters};

    gpu_guard_prepare();
    launch.driver.cooperative = real.r_cuLaunchCooperativeKernel;
    return launch_cooperative(&launch, stream, false, GPU_CALLER);
}

CUresult CUDAAPI gpu_launch_cooperative_ptsz(CUfunction function, SIZE_PARAMETERS, CUstream stream,
                                             void **parameters)
{
    struct launch launch = {.config = CONFIG, .function = function, .parameters = parameters};

    gpu_guard_prepare();
    launch.driver.cooperative = real.r_cuLaunchCooperativeKernel_ptsz;
    return launch_cooperative(&launch, stream, true, GPU_CALLER);
}

static CUresult launch_ex(const CUlaunchConfig *config, bool is_per_thread, CUfunction function,
                          void **parameters, void **extra, const void *caller,
                          CUresult(CUDAAPI *driver)(const CUlaunchConfig *, CUfunction, void **, void **))
{
    struct launch launch = {
        {.run = run_ex}, .function = function, .parameters = parameters, .extra = extra, .driver.ex = driver};
    struct gpu_call call;
    CUresult result;

    if (!config)
        return driver(config, function, parameters, extra);
    result = begin(&call, function, config->hStream, is_per_thread, caller);
    if (result != CUDA_SUCCESS)
        return result;
    launch.config = *config;
    launch.config.hStream = call.stream;
    if (is_loaded(&call, function) && config->numAttrs == 0) {
        const unsigned sizes[] = {config->gridDimX,      config->gridDimY,  config->gridDimZ,
                                  config->blockDimX,     config->blockDimY, config->blockDimZ,
                                  config->sharedMemBytes};
        if (gpu_repeats_take_launch(&call, config->hStream, is_per_thread, function, sizes, parameters, extra,
                                    caller, &result))
            return result;
    }
    gpu_repeats_break();
    return is_loaded(&call, function) ? launch_again(&launch, &call, caller)
                                      : launch_first(&launch, &call, caller);
}

CUresult CUDAAPI gpu_launch_ex(const CUlaunchConfig *config, CUfunction function, void **parameters,
                               void **extra)
{
    gpu_guard_find();
    return launch_ex(config, false, function, parameters, extra, GPU_CALLER, real.r_cuLaunchKernelEx);
}

CUresult CUDAAPI gpu_launch_ex_ptsz(const CUlaunchConfig *config, CUfunction function, void **parameters,
                                    void **extra)
{
    gpu_guard_find();
    return launch_ex(config, true, function, parameters, extra, GPU_CALLER, real.r_cuLaunchKernelEx_ptsz);
}
