/* SPDX-License-Identifier: BSD-3-Clause
 *
 * module.c: loads the kernels, once per device and process.
 */
#include "gpu/driver/module.h"

#include <pthread.h>

#include "base/log.h"
#include "gpu/driver/pe_state.h"

/* The kernels of each device by number; NULL: not loaded yet. */
static CUfunction *_Atomic functions[GPU_DEVICES_MAX];

static int find_all(CUmodule module, CUfunction **found_out)
{
    CUfunction *found = base_calloc((size_t)gpu_module.n_kernels, sizeof *found, "the kernels of a GPU");
    int error = 0;

    for (int i = 0; i < gpu_module.n_kernels && !error; i++)
        error = gpu_call(cuModuleGetFunction, (&found[i], module, gpu_module.names[i]));
    if (error)
        free(found);
    else
        *found_out = found;
    return error;
}

static BASE_COLD int load(int device)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    CUfunction *found;
    CUmodule module;
    int error = 0;

    if (!gpu_module.image)
        return gpu_driver_record(CUDA_ERROR_NO_BINARY_FOR_GPU, "a library built without nvcc");
    pthread_mutex_lock(&lock);
    if (!atomic_load(&functions[device])) {
        error = gpu_call(cuModuleLoadData, (&module, gpu_module.image));
        if (!error)
            error = find_all(module, &found);
        if (!error)
            atomic_store(&functions[device], found);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

bool gpu_module_has_machine_code(int device)
{
    int major = 0;

    gpu_call(cuDeviceGetAttribute, (&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    return major == 9;
}

bool gpu_module_is_kernel(CUfunction function, int kernel)
{
    bool is_so = false;

    for (int i = 0; i < GPU_DEVICES_MAX && !is_so; i++) {
        const CUfunction *found = atomic_load_explicit(&functions[i], memory_order_acquire);
        is_so = found && found[kernel] == function;
    }
    return is_so;
}

int gpu_module_function(int device, int kernel, CUfunction *function_out)
{
    int error = 0;

    BASE_ASSERT(!gpu_module.image || (kernel >= 0 && kernel < gpu_module.n_kernels));
    if (BASE_UNLIKELY(!atomic_load_explicit(&functions[device], memory_order_acquire)))
        error = load(device);
    if (!error)
        *function_out = atomic_load_explicit(&functions[device], memory_order_acquire)[kernel];
    return error;
}
