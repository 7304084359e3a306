/* SPDX-License-Identifier: BSD-3-Clause
 *
 * module.c: the fake driver's modules and kernels: CPU functions, found by name. The content of a module's
 * image is ignored. Launches are in launch_calls.c.
 */
#include "fake.h"

#include <dlfcn.h>
#include <stdio.h>

/* ---- Finding kernels ---- */

struct kernel {
    struct kernel *next;
    char name[96];
    fakecuda_kernel_fn run;
    size_t args_bytes; /* 0: launches say it */
};
static struct kernel *kernels;

FAKE_EXPORT void fakecuda_add_kernel_of(const char *name, fakecuda_kernel_fn run, size_t args_bytes)
{
    struct kernel *added = calloc(1, sizeof *added);

    snprintf(added->name, sizeof added->name, "%s", name);
    added->run = run;
    added->args_bytes = args_bytes;
    pthread_mutex_lock(&fake_lock);
    added->next = kernels;
    kernels = added;
    pthread_mutex_unlock(&fake_lock);
}

FAKE_EXPORT void fakecuda_add_kernel(const char *name, fakecuda_kernel_fn run)
{
    fakecuda_add_kernel_of(name, run, 0);
}

static struct kernel *find(const char *name)
{
    struct kernel *i;

    pthread_mutex_lock(&fake_lock);
    for (i = kernels; i && strcmp(i->name, name) != 0; i = i->next)
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

    if (!library && dladdr(&kernels, &self) && strrchr(self.dli_fname, '/')) {
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

/* ---- Modules, and libraries, which are modules of all contexts ---- */

struct variable {
    struct variable *next;
    const char *name;
    size_t n_bytes;
    struct fake_context *context; /* of one that is in memory */
    CUdeviceptr at;
    unsigned long long id; /* of its range */
};
static struct variable *variables; /* that modules get */

struct module {
    struct module *next; /* link of the unloaded ones */
    bool is_unloaded;
    struct fake_context *context; /* NULL: of a library */
    struct fake_function *functions;
    struct variable *variables; /* in memory */
};

FAKE_EXPORT void fakecuda_add_variable(const char *name, size_t n_bytes)
{
    struct variable *added = calloc(1, sizeof *added);

    added->name = strdup(name);
    added->n_bytes = n_bytes;
    pthread_mutex_lock(&fake_lock);
    added->next = variables;
    variables = added;
    pthread_mutex_unlock(&fake_lock);
}

/* The driver waits for the GPU when it loads something. */
static void wait_for_gpu(void)
{
    const struct fake_context *current = fake_current();

    if (current)
        fake_wait_device(current->device);
}

static struct variable *find_variable(const struct module *module, const struct fake_context *context,
                                      const char *name)
{
    struct variable *i = module->variables;

    while (i && (i->context != context || (name && strcmp(i->name, name) != 0)))
        i = i->next;
    return i;
}

/* Puts the variables of a module into the memory of a context, once. Lock held. */
static CUresult load_variables(struct module *module, struct fake_context *context)
{
    CUresult error = CUDA_SUCCESS;

    if (find_variable(module, context, NULL))
        return CUDA_SUCCESS;
    for (const struct variable *i = variables; i && !error; i = i->next) {
        struct variable *made = malloc(sizeof *made);
        *made = *i;
        made->context = context;
        error = fake_allocate(context, i->n_bytes, &made->at);
        if (error) {
            free(made);
            return error;
        }
        made->id = fake_range_at(made->at)->id;
        made->next = module->variables;
        module->variables = made;
    }
    return error;
}

/* Those of contexts that have ended are gone. Lock held. */
static void unload_variables(struct module *module)
{
    struct variable *ended;

    while ((ended = module->variables)) {
        struct fake_range *range = fake_range_at(ended->at);
        if (range && range->id == ended->id)
            fake_end_range(range);
        module->variables = ended->next;
        free(ended);
    }
}

static CUresult load(const char *function, const void *image, bool is_library, struct module **module_out)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(function, &context);
    struct module *made;

    if (error)
        return error;
    if (!image)
        return CUDA_ERROR_INVALID_VALUE;
    made = calloc(1, sizeof *made);
    made->context = is_library ? NULL : context;
    pthread_mutex_lock(&fake_lock);
    if (!is_library || fake.is_eager) {
        wait_for_gpu();
        error = context->broken ? context->broken : load_variables(made, context);
    }
    if (error)
        unload_variables(made);
    pthread_mutex_unlock(&fake_lock);
    if (error)
        free(made);
    else
        *module_out = made;
    return error;
}

/* Modules whose memory stays: kernels may be under way. */
static struct module *unloaded;

static CUresult unload(const char *function, struct module *module)
{
    CUresult error = fake_enter(function);

    if (error)
        return error;
    pthread_mutex_lock(&fake_lock);
    if (fake_current())
        fake_wait_contexts_of(fake_current()->device); /* as on H200s */
    if (module && module->is_unloaded) {
        error = CUDA_ERROR_INVALID_HANDLE;
    } else if (module) {
        module->is_unloaded = true;
        unload_variables(module);
        for (struct fake_function *i = module->functions; i; i = i->next)
            i->is_gone = true;
        module->next = unloaded;
        unloaded = module;
    }
    pthread_mutex_unlock(&fake_lock);
    return error;
}

static CUresult get_function(struct module *module, const char *name, struct fake_function **function_out)
{
    struct kernel *kernel = find(name);
    fakecuda_kernel_fn run;
    struct fake_function *i;

    if (!module || module->is_unloaded)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!kernel && (run = find_in_library(name))) {
        fakecuda_add_kernel(name, run);
        kernel = find(name);
    }
    if (!kernel)
        return CUDA_ERROR_NOT_FOUND;
    pthread_mutex_lock(&fake_lock);
    for (i = module->functions; i && i->run != kernel->run; i = i->next)
        ;
    if (!i) {
        i = calloc(1, sizeof *i);
        i->context = module->context;
        i->run = kernel->run;
        i->args_bytes = kernel->args_bytes;
        memset(i->is_loaded, fake.is_eager, sizeof i->is_loaded);
        i->next = module->functions;
        module->functions = i;
    }
    pthread_mutex_unlock(&fake_lock);
    *function_out = i;
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    return load(__func__, path, false, (struct module **)module);
}

FAKE_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    return load(__func__, image, false, (struct module **)module);
}

FAKE_EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n,
                                        CUjit_option *options, void **values)
{
    return load(__func__, image, false, (struct module **)module);
}

FAKE_EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    return load(__func__, image, false, (struct module **)module);
}

FAKE_EXPORT CUresult cuModuleUnload(CUmodule module)
{
    return unload(__func__, (struct module *)module);
}

FAKE_EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);

    if (error)
        return error;
    if (!module || ((struct module *)module)->context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    return get_function((struct module *)module, name, (struct fake_function **)function);
}

FAKE_EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit,
                                       void **jit_values, unsigned n_jit, CUlibraryOption *options,
                                       void **values, unsigned n)
{
    return load(__func__, code, true, (struct module **)library);
}

FAKE_EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    CUresult error = fake_enter(__func__);

    if (!error)
        *mode = fake.is_eager ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
    return error;
}

FAKE_EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
    return unload(__func__, (struct module *)library);
}

FAKE_EXPORT CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    CUresult error = fake_enter(__func__);

    return error ? error : get_function((struct module *)library, name, (struct fake_function **)kernel);
}

/* ---- Variables ---- */

static CUresult get_variable(const char *function, struct module *module, const char *name, CUdeviceptr *at,
                             size_t *n_bytes)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(function, &context);
    const struct variable *found = NULL;

    if (error)
        return error;
    if (!module || module->is_unloaded || (module->context && module->context != context))
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&fake_lock);
    if (variables && !find_variable(module, context, NULL)) {
        wait_for_gpu();
        error = load_variables(module, context);
    }
    if (!error)
        found = find_variable(module, context, name);
    if (found && at)
        *at = found->at;
    if (found && n_bytes)
        *n_bytes = found->n_bytes;
    pthread_mutex_unlock(&fake_lock);
    return error || found ? error : CUDA_ERROR_NOT_FOUND;
}

FAKE_EXPORT CUresult cuModuleGetGlobal(CUdeviceptr *at, size_t *n_bytes, CUmodule module, const char *name)
{
    return get_variable(__func__, (struct module *)module, name, at, n_bytes);
}

FAKE_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *at, size_t *n_bytes, CUlibrary library, const char *name)
{
    return get_variable(__func__, (struct module *)library, name, at, n_bytes);
}

/* ---- Loading kernels: at their first use ---- */

void fake_load(struct fake_function *function)
{
    const struct fake_context *current = fake_current();

    if (current && !function->is_loaded[current->device]) {
        wait_for_gpu();
        function->is_loaded[current->device] = true;
    }
}

static CUresult load_function(const char *name, struct fake_function *function)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(name, &context);

    if (error)
        return error;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&fake_lock);
    fake_load(function);
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuFuncLoad(CUfunction function)
{
    return load_function(__func__, (struct fake_function *)function);
}

FAKE_EXPORT CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    CUresult error = load_function(__func__, (struct fake_function *)kernel);

    if (!error)
        *function = (CUfunction)kernel;
    return error;
}

FAKE_EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    struct fake_context *context;
    CUresult error = fake_enter_context(__func__, &context);

    if (!error)
        *state = ((struct fake_function *)function)->is_loaded[context->device]
                     ? CU_FUNCTION_LOADING_STATE_LOADED
                     : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return error;
}

/* ---- Running ---- */

/* What the kernel that runs on this thread has reached already: kernels ask for each number that they
 * touch. */
static __thread struct {
    uintptr_t at;
    size_t n_bytes; /* 0: nothing */
    char *alias;
    unsigned n_removed; /* how many ranges were gone then */
} reached[64];

static CUresult run_kernel(struct fake_op *op)
{
    memset(reached, 0, sizeof reached);
    fake_running = op->context->parent ? op->context->parent : op->context;
    ((struct fake_function *)op->object)->run(op->captured);
    fake_running = NULL;
    return op->context->broken;
}

/* ---- Launches ---- */

static bool may_run(struct fake_op *op)
{
    return !fake.are_kernels_held;
}

/* The arguments: in one piece (CU_LAUNCH_PARAM_BUFFER_POINTER), or as the one parameter of a kernel whose
 * size is known. NULL: neither. */
static const void *arguments_of(const struct fake_launch *launch, size_t *n_bytes_out)
{
    const struct fake_function *function = (const struct fake_function *)launch->function;
    const void *args = NULL;

    *n_bytes_out = 0;
    if (launch->params) {
        *n_bytes_out = function->args_bytes;
        return function->args_bytes && !launch->extra ? launch->params[0] : NULL;
    }
    for (void **extra = launch->extra; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2)
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            args = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            *n_bytes_out = *(size_t *)extra[1];
    return args;
}

CUresult fake_launch_op(const struct fake_launch *launch, struct fake_op **op_out)
{
    struct fake_function *function = (struct fake_function *)launch->function;
    size_t args_bytes;
    const void *args = function ? arguments_of(launch, &args_bytes) : NULL;
    struct fake_op *op;

    if (!function || function->is_gone || (function->context && function->context != fake_current()))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!args || args_bytes > 32764 || launch->blocks == 0 || launch->threads == 0 || launch->threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    fake_load(function);
    op = fake_op_create(run_kernel);
    op->is_ready = may_run;
    op->type = CU_GRAPH_NODE_TYPE_KERNEL;
    op->context = fake_current();
    op->object = function;
    op->captured = malloc(args_bytes);
    memcpy(op->captured, args, args_bytes);
    *op_out = op;
    return CUDA_SUCCESS;
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
        (!fake_running || (!range->is_unborn && can_use(fake_running, range))))
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
