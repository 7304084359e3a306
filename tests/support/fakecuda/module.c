/* SPDX-License-Identifier: BSD-3-Clause
 *
 * module.c: the fake driver's kernels: functions of the CPU, found by name. What is in a module's image does
 * not matter.
 */
#include "fake.h"

#include <dlfcn.h>
#include <stdio.h>

/* ---- Finding ---- */

struct function {
    struct function *next;
    char name[96];
    fakecuda_kernel_fn run;
};
static struct function *functions;

FAKE_EXPORT void fakecuda_add_kernel(const char *name, fakecuda_kernel_fn kernel)
{
    struct function *added = calloc(1, sizeof *added);

    snprintf(added->name, sizeof added->name, "%s", name);
    added->run = kernel;
    pthread_mutex_lock(&fake_lock);
    added->next = functions;
    functions = added;
    pthread_mutex_unlock(&fake_lock);
}

static struct function *find(const char *name)
{
    struct function *i;

    pthread_mutex_lock(&fake_lock);
    for (i = functions; i && strcmp(i->name, name) != 0; i = i->next)
        ;
    pthread_mutex_unlock(&fake_lock);
    return i;
}

#define KERNELS_NAME "libfakekernels.so"

/* Looks into the library of kernels, which may lie beside this one. */
static fakecuda_kernel_fn find_in_library(const char *name)
{
    static void *library;
    char path[4096];
    Dl_info self;

    if (!library && dladdr(&functions, &self) && strrchr(self.dli_fname, '/')) {
        snprintf(path, sizeof path, "%.*s/" KERNELS_NAME,
                 (int)(strrchr(self.dli_fname, '/') - self.dli_fname), self.dli_fname);
        /* It refers to functions of this one, which may have been opened for its opener alone. */
        dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
        library = dlopen(path, RTLD_NOW);
    }
    if (!library)
        library = dlopen(KERNELS_NAME, RTLD_NOW);
    return library ? (fakecuda_kernel_fn)(uintptr_t)dlsym(library, name) : NULL;
}

FAKE_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);

    if (error)
        return error;
    if (!image)
        return CUDA_ERROR_INVALID_VALUE;
    *module = (CUmodule)context;
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    return cuModuleLoadData(module, image);
}

FAKE_EXPORT CUresult cuModuleUnload(CUmodule module)
{
    return fake_enter(__func__);
}

FAKE_EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);
    fakecuda_kernel_fn kernel;
    struct function *found;

    if (error)
        return error;
    if (module != (CUmodule)context)
        return CUDA_ERROR_INVALID_HANDLE;
    found = find(name);
    if (!found && (kernel = find_in_library(name))) {
        fakecuda_add_kernel(name, kernel);
        found = find(name);
    }
    if (!found)
        return CUDA_ERROR_NOT_FOUND;
    *function = (CUfunction)found;
    return CUDA_SUCCESS;
}

/* ---- Launching ---- */

/* What the kernel that runs on this thread has reached already: kernels ask for each number that they touch.
 */
static __thread struct {
    uintptr_t at;
    size_t n_bytes; /* 0: nothing */
    char *alias;
    unsigned n_removed; /* how many ranges were gone then */
} reached[64];

static CUresult run_kernel(struct fake_op *op)
{
    memset(reached, 0, sizeof reached);
    fake_running = op->context;
    ((struct function *)op->object)->run(op->captured);
    fake_running = NULL;
    return op->context->broken;
}

static bool may_run(struct fake_op *op)
{
    return !fake.are_kernels_held;
}

/* The arguments come in one piece (CU_LAUNCH_PARAM_BUFFER_POINTER); one by one is not supported. */
FAKE_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                    unsigned block_x, unsigned block_y, unsigned block_z,
                                    unsigned shared_bytes, CUstream handle, void **params, void **extra)
{
    struct fake_context *context;
    struct fake_stream *stream;
    CUresult error = fake_enter_context(__func__, &context);
    const void *args = NULL;
    size_t args_bytes = 0;
    struct fake_op *op;

    if (error)
        return error;
    for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2)
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            args = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            args_bytes = *(size_t *)extra[1];
    if (params || !args || grid_x == 0 || grid_y == 0 || grid_z == 0 || block_x == 0 ||
        (uint64_t)block_x * block_y * block_z > 1024 || args_bytes > 32764)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    stream = fake_stream_of(handle, context);
    if (!stream || stream->context != context) {
        error = CUDA_ERROR_INVALID_HANDLE;
    } else {
        op = fake_op_create(run_kernel);
        op->is_ready = may_run;
        op->object = function;
        op->captured = malloc(args_bytes);
        memcpy(op->captured, args, args_bytes);
        fake_queue(stream, op);
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

/* ---- What kernels reach ---- */

/* The memory of its device's other contexts is not there for a kernel. Memory of pools and mapped memory is
 * all contexts' of the devices that it is open to. */
static bool can_use(const struct fake_context *running, const struct fake_range *range)
{
    if (range->kind != FAKE_DEVICE)
        return true;
    if (range->pool || range->physical)
        return fake_is_open_to(range, running->device);
    if (range->context && range->context->device == running->device)
        return range->context == running;
    return running->can_reach[range->device];
}

FAKE_EXPORT void *fakecuda_alias(uintptr_t address, size_t n_bytes)
{
    size_t place = address / FAKE_PAGE % 64, skip = address - reached[place].at;
    struct fake_range *range;
    char *bytes = NULL;

    if (fake_running && skip < reached[place].n_bytes && n_bytes <= reached[place].n_bytes - skip &&
        reached[place].n_removed == __atomic_load_n(&fake_n_removed, __ATOMIC_ACQUIRE))
        return reached[place].alias + skip;
    pthread_mutex_lock(&fake_lock);
    range = fake_range_at(address);
    if (range && n_bytes <= range->n_bytes - (address - range->at) &&
        (!fake_running || can_use(fake_running, range)))
        bytes = range->alias + (address - range->at);
    if (bytes && fake_running) {
        reached[place].at = range->at;
        reached[place].n_bytes = range->n_bytes;
        reached[place].alias = range->alias;
        reached[place].n_removed = fake_n_removed;
    }
    if (!bytes && !range && !fake_running)
        bytes = (char *)address;
    if (!bytes && fake_running)
        fake_running->broken = CUDA_ERROR_ILLEGAL_ADDRESS;
    pthread_mutex_unlock(&fake_lock);
    return bytes;
}
