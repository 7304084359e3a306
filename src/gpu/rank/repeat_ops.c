/* SPDX-License-Identifier: BSD-3-Clause
 *
 * repeat_ops.c: how launches and copies are recorded, submitted, captured and compared; see repeats.h.
 */
#include <dlfcn.h>
#include <string.h>

#include "base/log.h"
#include "gpu/copy/gpu_pack.h"
#include "gpu/driver/driver_symbols.h"
#include "gpu/driver/module.h"
#include "gpu/kernels/kernels.h"
#include "gpu/rank/repeats.h"
#include "gpu/rank/stream_api.h"

#define real gpu_stream_real

/* Functions that not every driver has. Set by gpu_graphs_can_be. */
static CUresult(CUDAAPI *get_parameter)(CUfunction, size_t, size_t *, size_t *);
static CUresult(CUDAAPI *get_kernel_parameter)(CUkernel, size_t, size_t *, size_t *);
static CUresult(CUDAAPI *instantiate)(CUgraphExec *, CUgraph, unsigned long long);
static CUresult(CUDAAPI *destroy_graph)(CUgraph);
static CUresult(CUDAAPI *destroy_exec)(CUgraphExec);

static void *look_up(void *driver, const char *name)
{
    return driver ? gpu_symbol(driver, name) : NULL;
}

bool gpu_graphs_can_be(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    *(void **)&get_parameter = look_up(driver, "cuFuncGetParamInfo");
    *(void **)&get_kernel_parameter = look_up(driver, "cuKernelGetParamInfo");
    *(void **)&instantiate = look_up(driver, "cuGraphInstantiateWithFlags");
    *(void **)&destroy_graph = look_up(driver, "cuGraphDestroy");
    *(void **)&destroy_exec = look_up(driver, "cuGraphExecDestroy");
    return instantiate && destroy_graph && destroy_exec && real.r_cuStreamBeginCapture_v2 &&
           real.r_cuStreamEndCapture && real.r_cuGraphLaunch && real.r_cuCtxRecordEvent;
}

/* ---- Kernels ---- */

/* Launches accept a CUkernel as well; this query does not. */
static CUresult ask_parameter(CUfunction function, size_t i, size_t *at_out, size_t *n_bytes_out)
{
    CUresult result =
        get_parameter ? get_parameter(function, i, at_out, n_bytes_out) : CUDA_ERROR_NOT_SUPPORTED;

    return result == CUDA_ERROR_INVALID_HANDLE && get_kernel_parameter
               ? get_kernel_parameter((CUkernel)function, i, at_out, n_bytes_out)
               : result;
}

static void ask_parameters(struct gpu_function *kernel)
{
    size_t at = 0, n_bytes = 0;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    int n = 0;

    for (; n < (int)BASE_COUNT(kernel->parameters); n++) {
        result = ask_parameter(kernel->function, (size_t)n, &at, &n_bytes);
        if (result != CUDA_SUCCESS || at + n_bytes > GPU_ARGUMENTS_MAX)
            break;
        kernel->parameters[n].at = (uint16_t)at;
        kernel->parameters[n].n_bytes = (uint16_t)n_bytes;
        kernel->n_bytes = (uint32_t)(at + n_bytes);
    }
    /* The driver rejects index n if there are n parameters: that yields their number. */
    kernel->n = result == CUDA_ERROR_INVALID_VALUE ? n : -1;
}

static const struct gpu_function *kernel_of(struct gpu_kernels *kernels, CUfunction function)
{
    struct gpu_function **bucket =
        &kernels
             ->buckets[((uintptr_t)function >> 4 ^ (uintptr_t)function >> 12) % BASE_COUNT(kernels->buckets)];
    struct gpu_function *kernel = *bucket;

    while (kernel && kernel->function != function)
        kernel = kernel->next;
    if (BASE_LIKELY(kernel != NULL))
        return kernel;
    kernel = base_calloc(1, sizeof *kernel, "the parameters of a kernel");
    kernel->function = function;
    ask_parameters(kernel);
    kernel->next = *bucket;
    *bucket = kernel;
    return kernel;
}

void gpu_kernels_forget(struct gpu_kernels *kernels)
{
    for (size_t i = 0; i < BASE_COUNT(kernels->buckets); i++)
        while (kernels->buckets[i]) {
            struct gpu_function *kernel = kernels->buckets[i];
            kernels->buckets[i] = kernel->next;
            free(kernel);
        }
}

/* Arguments that are in one buffer already. NULL: none. */
static const void *find_buffer(void **extra, size_t *n_bytes_out)
{
    const void *buffer = NULL;

    *n_bytes_out = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            *n_bytes_out = *(const size_t *)extra[1];
        else
            return NULL;
    }
    return *n_bytes_out <= GPU_ARGUMENTS_MAX ? buffer : NULL;
}

static bool gather(struct gpu_kernels *kernels, CUfunction function, void **parameters, char *data,
                   uint32_t *n_bytes_out)
{
    const struct gpu_function *kernel = kernel_of(kernels, function);

    if (kernel->n < 0 || (kernel->n > 0 && !parameters))
        return false;
    *n_bytes_out = kernel->n_bytes;
    memset(data, 0, kernel->n_bytes);
    for (int i = 0; i < kernel->n; i++)
        memcpy(data + kernel->parameters[i].at, parameters[i], kernel->parameters[i].n_bytes);
    return true;
}

static uint64_t two(unsigned low, unsigned high)
{
    return low | (uint64_t)high << 32;
}

bool gpu_op_of_launch(struct gpu_kernels *kernels, CUfunction function, const unsigned sizes[7],
                      void **parameters, void **extra, struct gpu_operation *op, char *data)
{
    const void *buffer;
    size_t n_bytes = 0;

    *op = (struct gpu_operation){.key = {GPU_OP_LAUNCH, (uintptr_t)function, two(sizes[0], sizes[1]),
                                         two(sizes[2], sizes[3]), two(sizes[4], sizes[5]), sizes[6]}};
    if (!function || (parameters && extra))
        return false;
    if (!extra)
        return gather(kernels, function, parameters, data, &op->n_bytes);
    buffer = find_buffer(extra, &n_bytes);
    if (!buffer)
        return false;
    memcpy(data, buffer, n_bytes);
    op->n_bytes = (uint32_t)n_bytes;
    return true;
}

/* ---- Copies ---- */

bool gpu_op_of_copy(enum gpu_operation_kind kind, CUdeviceptr to, CUdeviceptr from, size_t n_bytes,
                    struct gpu_operation *op)
{
    *op = (struct gpu_operation){.key = {kind, to, from, n_bytes}};
    return n_bytes > 0;
}

/* True for memory of the driver: pageable data is copied before the call returns, and managed memory may
 * migrate. */
static bool is_fixed(CUdeviceptr address)
{
    int memory = gpu_memory_type(address);

    return memory == GPU_MEMORY_DEVICE || memory == GPU_MEMORY_PINNED;
}

bool gpu_op_is_safe(const struct gpu_operation *op)
{
    return op->key[0] == GPU_OP_LAUNCH || (is_fixed(op->key[1]) && is_fixed(op->key[2]));
}

/* ---- Submitting ---- */

static CUresult submit_launch(const struct gpu_operation *op, const char *data, CUstream stream)
{
    const uint64_t *key = op->key;
    size_t n_bytes = op->n_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)data, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &n_bytes, CU_LAUNCH_PARAM_END};

    return real.r_cuLaunchKernel((CUfunction)key[1], (unsigned)key[2], (unsigned)(key[2] >> 32),
                                 (unsigned)key[3], (unsigned)(key[3] >> 32), (unsigned)key[4],
                                 (unsigned)(key[4] >> 32), (unsigned)key[5], stream, NULL, extra);
}

CUresult gpu_op_submit(const struct gpu_operation *op, const char *data, CUstream stream)
{
    const uint64_t *key = op->key;

    switch ((enum gpu_operation_kind)key[0]) {
    case GPU_OP_LAUNCH:
        return submit_launch(op, data, stream);
    case GPU_OP_COPY_TO_DEVICE:
        return real.r_cuMemcpyHtoDAsync_v2(key[1], (const void *)key[2], key[3], stream);
    case GPU_OP_COPY_TO_HOST:
        return real.r_cuMemcpyDtoHAsync_v2((void *)key[1], key[2], key[3], stream);
    case GPU_OP_COPY_WITHIN:
        return real.r_cuMemcpyDtoDAsync_v2(key[1], key[2], key[3], stream);
    case GPU_OP_COPY:
        break;
    }
    return real.r_cuMemcpyAsync(key[1], key[2], key[3], stream);
}

/* ---- Copies by a kernel ---- */

/* Switching between a kernel and a copy engine takes a GPU some 4 us, and so does each copy by an engine.
 * So copies up to this size are made by a kernel if the graph has kernels before them: a kernel that fills the GPU may wait for a graph that begins with copies. */
#define BY_KERNEL_MAX ((size_t)256 << 10)
#define THREADS 256
#define BLOCKS_MAX 64

/* Per device; NULL: not loaded. */
static CUfunction _Atomic copy_kernels[GPU_DEVICES_MAX];

void gpu_repeats_load(int device, CUcontext context, CUresult (*load)(CUfunction))
{
    CUcontext before;
    CUfunction kernel;

    if (!gpu_repeats_are_on || !gpu_has_kernels() || !gpu_module_has_machine_code(device) ||
        gpu_context_enter(context, &before))
        return;
    if (gpu_module_function(device, GPU_KERNEL_COPY, &kernel) == 0 && load && load(kernel) == CUDA_SUCCESS)
        atomic_store(&copy_kernels[device], kernel);
    gpu_context_leave(context, before);
}

/* True if a kernel on the current context's device can use the memory at this address. */
static bool is_near(CUdeviceptr address, int device, CUcontext context)
{
    CUmemorytype type = 0;
    unsigned is_managed = 0;
    int owner = -1;
    CUcontext of = NULL;
    CUdeviceptr alias = 0;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT,
                                    CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
    void *answers[] = {&type, &is_managed, &owner, &of, &alias};

    if (gpu_driver.cuPointerGetAttributes(BASE_COUNT(wanted), wanted, answers, address) != CUDA_SUCCESS ||
        is_managed || alias != address)
        return false;
    return type == CU_MEMORYTYPE_HOST || (type == CU_MEMORYTYPE_DEVICE && owner == device && of == context);
}

/* Adds a copy to the captured stream. */
static CUresult capture_copy(const struct gpu_operation *op, CUstream capture, CUcontext context)
{
    struct gpu_kernel_copy arguments = {op->key[1], op->key[2], op->key[3]};
    uint64_t n_blocks = (arguments.n_bytes / sizeof(uint64_t[2]) + THREADS - 1) / THREADS;
    size_t n_bytes = sizeof arguments;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &n_bytes,
                     CU_LAUNCH_PARAM_END};
    CUdevice device = -1;
    CUfunction kernel;

    if (arguments.n_bytes > BY_KERNEL_MAX || gpu_driver.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        !(kernel = atomic_load(&copy_kernels[device])) || !is_near(arguments.to, device, context) ||
        !is_near(arguments.from, device, context))
        return gpu_op_submit(op, NULL, capture);
    n_blocks = n_blocks < 1 ? 1 : n_blocks < BLOCKS_MAX ? n_blocks : BLOCKS_MAX;
    return real.r_cuLaunchKernel(kernel, (unsigned)n_blocks, 1, 1, THREADS, 1, 1, 0, capture, NULL, extra);
}

/* ---- Graphs ---- */

CUgraphExec gpu_graph_of(const struct gpu_sequence *sequence, CUstream capture)
{
    CUresult result = real.r_cuStreamBeginCapture_v2(capture, CU_STREAM_CAPTURE_MODE_RELAXED);
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;
    bool is_good = true, has_kernel = false;

    if (result != CUDA_SUCCESS)
        return NULL;
    for (int i = 0; i < sequence->n && is_good; i++) {
        const struct gpu_operation *op = &sequence->ops[i];
        bool is_copy = op->key[0] != GPU_OP_LAUNCH;
        result = is_copy && has_kernel ? capture_copy(op, capture, sequence->context)
                                       : gpu_op_submit(op, sequence->data + op->at, capture);
        is_good = result == CUDA_SUCCESS;
        has_kernel |= !is_copy;
    }
    result = real.r_cuStreamEndCapture(capture, &graph);
    if (result == CUDA_SUCCESS && is_good && instantiate(&exec, graph, 0) != CUDA_SUCCESS)
        exec = NULL;
    if (result == CUDA_SUCCESS && graph)
        destroy_graph(graph);
    return exec;
}

void gpu_graph_destroy(CUgraphExec graph)
{
    destroy_exec(graph);
}

/* ---- Comparison ---- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

uint64_t gpu_sequence_hash(const struct gpu_sequence *sequence)
{
    uint64_t hash = mix((uintptr_t)sequence->stream, (uintptr_t)sequence->context), word;

    for (int i = 0; i < sequence->n; i++) {
        const struct gpu_operation *op = &sequence->ops[i];
        for (size_t k = 0; k < BASE_COUNT(op->key); k++)
            hash = mix(hash, op->key[k]);
        for (uint32_t at = 0; at < op->n_bytes; at += (uint32_t)sizeof word) {
            size_t left = op->n_bytes - at;
            word = 0;
            memcpy(&word, sequence->data + op->at + at, left < sizeof word ? left : sizeof word);
            hash = mix(hash, word);
        }
    }
    return hash;
}
