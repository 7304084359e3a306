/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that waits for its GPU lets the other ranks of its PE run: a kernel of each even rank runs until the
 * next rank has got a message, which the even rank sends just before it waits. The argument says how it
 * waits: a name of `ways`, all that CUDA says wait for a stream, or gpu: all that wait for the whole GPU or
 * for room in a stream. A wait that blocks the PE hangs. With a second argument, own_context, each rank has a
 * context of its own; no_context: the ranks that do not wait have none; may_block: waits may block the PE.
 * The argument list prints the names of all ways.
 */
#include "kernels.h"

#define N 1000

static CUstream second, streams[4]; /* NULL, a blocking one, a non-blocking one, the thread's */
static const char *const stream_names[] = {"NULL", "blocking", "non-blocking", "per-thread"};
static CUdeviceptr memory, other;
static CUevent event;
static bool has_own_context, has_no_context, may_block;
static unsigned pageable[N], many[100 * N], *pinned;

/* ---- Ways to wait for a stream ---- */

static void by_stream(CUstream stream)
{
    GTEST_CU(cuStreamSynchronize(stream));
}

static void by_event(CUstream stream)
{
    GTEST_CU(cuEventRecord(event, stream));
    GTEST_CU(cuEventSynchronize(event));
}

static void by_context(CUstream stream)
{
    (void)stream;
    GTEST_CU(cuCtxSynchronize());
}

static void by_stream_query(CUstream stream)
{
    CUresult result;

    do
        result = cuStreamQuery(stream);
    while (result == CUDA_ERROR_NOT_READY);
    GTEST_CU(result);
}

static void by_event_query(CUstream stream)
{
    CUresult result;

    GTEST_CU(cuEventRecord(event, stream));
    do
        result = cuEventQuery(event);
    while (result == CUDA_ERROR_NOT_READY);
    GTEST_CU(result);
}

static void by_copy(CUstream stream)
{
    (void)stream;
    GTEST_CU(cuMemcpyDtoH(pageable, memory, sizeof pageable));
}

static void by_copy_to_pinned(CUstream stream)
{
    (void)stream;
    GTEST_CU(cuMemcpy((CUdeviceptr)pinned, memory, sizeof pageable));
}

static void by_copy_from_pageable(CUstream stream)
{
    (void)stream;
    GTEST_CU(cuMemcpyHtoD(other, many, sizeof many));
    GTEST_CU(cuStreamSynchronize(NULL));
}

static void copy_2d(CUmemorytype type)
{
    CUDA_MEMCPY2D what = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = memory,
                          .srcPitch = 40,
                          .dstMemoryType = type,
                          .dstHost = pageable,
                          .dstDevice = (CUdeviceptr)pageable,
                          .dstPitch = 40,
                          .WidthInBytes = 40,
                          .Height = N / 10};

    GTEST_CU(cuMemcpy2D(&what));
}

static void by_copy_2d(CUstream stream)
{
    (void)stream;
    copy_2d(CU_MEMORYTYPE_HOST);
}

static void by_copy_2d_unified(CUstream stream)
{
    (void)stream;
    copy_2d(CU_MEMORYTYPE_UNIFIED);
}

static void by_copy_async(CUstream stream)
{
    GTEST_CU(cuMemcpyDtoHAsync(pageable, memory, sizeof pageable, stream));
    GTEST_CU(cuStreamSynchronize(stream));
}

static void by_copy_async_from_pageable(CUstream stream)
{
    GTEST_CU(cuMemcpyHtoDAsync(other, pageable, sizeof pageable, stream)); /* few bytes are taken along */
    GTEST_CU(cuMemcpyHtoDAsync(other, many, sizeof many, stream));
    GTEST_CU(cuStreamSynchronize(stream));
}

static void by_set_of_pinned(CUstream stream)
{
    (void)stream;
    GTEST_CU(cuMemsetD32((CUdeviceptr)pinned, 1, N));
}

/* ---- Ways to wait for the whole GPU, or for room ---- */

#define N_TIMES 4 /* one for each stream */
static int n_times;
static CUmodule loaded[N_TIMES];
static CUfunction unused[N_TIMES], unused_too[N_TIMES], unused_third[N_TIMES];
static CUlibrary library;
static CUgreenCtx greens[N_TIMES];
static CUdevResourceDesc green_resources;
static CUdevice green_device;
static char registered[3 * 4096];

static void by_free(CUstream stream)
{
    CUdeviceptr freed;

    GTEST_CU(cuMemAlloc(&freed, 1000));
    GTEST_CU(cuMemFree(freed));
    GTEST_CU(cuStreamSynchronize(stream));
}

static void by_free_of_pinned(CUstream stream)
{
    void *freed;

    GTEST_CU(cuMemAllocHost(&freed, 1000));
    GTEST_CU(cuMemFreeHost(freed));
    GTEST_CU(cuStreamSynchronize(stream));
}

static void by_unregister(CUstream stream)
{
    void *page = registered + 4095 - ((uintptr_t)registered + 4095) % 4096;

    GTEST_CU(cuMemHostRegister(page, 4096, 0));
    GTEST_CU(cuMemHostUnregister(page));
    GTEST_CU(cuStreamSynchronize(stream));
}

static void by_load(CUstream stream)
{
    CUmodule module;

    GTEST_CU(cuModuleLoadData(&module, gtest_ptx));
    GTEST_CU(cuStreamSynchronize(stream));
    GTEST_CU(cuModuleUnload(module));
}

static void by_load_with_options(CUstream stream)
{
    CUjit_option option = CU_JIT_MAX_REGISTERS;
    void *value = (void *)32;
    CUmodule module;

    GTEST_CU(cuModuleLoadDataEx(&module, gtest_ptx, 1, &option, &value));
    GTEST_CU(cuStreamSynchronize(stream));
    GTEST_CU(cuModuleUnload(module));
}

static void by_unload(CUstream stream)
{
    GTEST_CU(cuModuleUnload(loaded[n_times]));
    GTEST_CU(cuStreamSynchronize(stream));
}

static void by_load_of_library(CUstream stream)
{
    CUfunction function;
    CUkernel kernel;

    GTEST_CU(cuLibraryGetKernel(&kernel, library, "gtest_update"));
    GTEST_CU(cuKernelGetFunction(&function, kernel));
    GTEST_CU(cuStreamSynchronize(stream));
}

static void by_limit(CUstream stream)
{
    GTEST_CU(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096 + 1024 * (size_t)n_times));
    GTEST_CU(cuStreamSynchronize(stream));
}

static void by_end_of_green(CUstream stream)
{
    CUgreenCtx another;
    CUstream made;

    GTEST_CU(cuGreenCtxCreate(&another, green_resources, green_device, CU_GREEN_CTX_DEFAULT_STREAM));
    GTEST_CU(cuGreenCtxStreamCreate(&made, greens[n_times], CU_STREAM_NON_BLOCKING, 0));
    GTEST_CU(cuGreenCtxDestroy(greens[n_times]));
    GTEST_CU(cuGreenCtxDestroy(another));
    GTEST_CU(cuStreamSynchronize(stream));
}

static void by_first_launch(CUstream stream)
{
    struct gtest_update_args args = {other, N, 1, 0, 0};

    GTEST_CU(gtest_launch(unused[n_times], &args, sizeof args, stream));
    GTEST_CU(cuStreamSynchronize(stream));
}

static void by_first_launch_ex(CUstream stream)
{
    struct gtest_update_args args = {other, N, 1, 0, 0};
    size_t n_bytes = sizeof args;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &n_bytes,
                     CU_LAUNCH_PARAM_END};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, .hStream = stream};

    GTEST_CU(cuLaunchKernelEx(&config, unused_too[n_times], NULL, extra));
    GTEST_CU(cuStreamSynchronize(stream));
}

/* Of a kernel that ends at once. */
static void by_first_cooperative(CUstream stream)
{
    CUdeviceptr flag = (CUdeviceptr)pinned;
    void *parameters[] = {&flag};

    pinned[0] = 1;
    GTEST_CU(cuLaunchCooperativeKernel(unused_third[n_times], 1, 1, 1, 1, 1, 1, 0, stream, parameters));
    GTEST_CU(cuStreamSynchronize(stream));
}

static void by_full_queue(CUstream stream)
{
    for (int i = 0; i < 3000; i++)
        GTEST_CU(cuMemsetD32Async(other, (unsigned)i, N, stream));
    GTEST_CU(cuStreamSynchronize(stream));
}

static void by_queue_full_of_kernels(CUstream stream)
{
    for (int i = 0; i < 3000; i++)
        gtest_launch_update(other, 1, 1, 1, stream);
    GTEST_CU(cuStreamSynchronize(stream));
}

/* Each takes an event besides. */
static void by_queues_full_in_turn(CUstream stream)
{
    for (int i = 0; i < 1500; i++) {
        GTEST_CU(cuMemcpyDtoHAsync(pinned, other, 64, stream));
        GTEST_CU(cuEventRecord(event, stream));
        GTEST_CU(cuStreamWaitEvent(second, event, 0));
    }
    GTEST_CU(cuStreamSynchronize(second));
    GTEST_CU(cuStreamSynchronize(stream));
}

/* Not of all that wait for the GPU: the driver is called while others submit work. */
static void by_instantiation(CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec;

    GTEST_CU(cuGraphCreate(&graph, 0));
    GTEST_CU(cuGraphInstantiate(&exec, graph, 0));
    GTEST_CU(cuStreamSynchronize(stream));
    GTEST_CU(cuGraphExecDestroy(exec));
    GTEST_CU(cuGraphDestroy(graph));
}

enum {
    NULL_ONLY = 1, /* it waits for the streams that NULL is ordered with */
    BRIEFLY = 2,   /* the driver waits for the copy itself, behind the kernel */
    OF_GPU = 4,    /* for the whole GPU, or for room: "gpu" instead of "all" */
    BY_NAME = 8,   /* neither */
};

static const struct way {
    const char *name;
    void (*wait)(CUstream stream);
    int flags;
} ways[] = {
    {"stream", by_stream, 0},
    {"event", by_event, 0},
    {"context", by_context, 0},
    {"stream_query", by_stream_query, 0},
    {"event_query", by_event_query, 0},
    {"copy", by_copy, NULL_ONLY},
    {"copy_to_pinned", by_copy_to_pinned, NULL_ONLY},
    {"copy_from_pageable", by_copy_from_pageable, NULL_ONLY},
    {"copy_2d", by_copy_2d, NULL_ONLY | BRIEFLY},
    {"copy_2d_unified", by_copy_2d_unified, NULL_ONLY | BRIEFLY},
    {"copy_async", by_copy_async, BRIEFLY},
    {"copy_async_from_pageable", by_copy_async_from_pageable, 0},
    {"set_of_pinned", by_set_of_pinned, NULL_ONLY},
    {"free", by_free, OF_GPU},
    {"free_of_pinned", by_free_of_pinned, OF_GPU},
    {"unregister", by_unregister, OF_GPU},
    {"load", by_load, OF_GPU},
    {"load_with_options", by_load_with_options, OF_GPU},
    {"unload", by_unload, OF_GPU},
    {"load_of_library", by_load_of_library, OF_GPU},
    {"limit", by_limit, OF_GPU},
    {"end_of_green", by_end_of_green, OF_GPU},
    {"first_launch", by_first_launch, OF_GPU},
    {"first_launch_ex", by_first_launch_ex, OF_GPU},
    {"first_cooperative", by_first_cooperative, OF_GPU},
    {"full_queue", by_full_queue, OF_GPU},
    {"queue_full_of_kernels", by_queue_full_of_kernels, OF_GPU},
    {"queues_full_in_turn", by_queues_full_in_turn, OF_GPU},
    {"instantiation", by_instantiation, BY_NAME},
};

/* ---- The ranks ---- */

static void make_greens(void)
{
    static CUdevResource all, part;
    unsigned n = 1;

    GTEST_CU(cuCtxGetDevice(&green_device));
    GTEST_CU(cuDeviceGetDevResource(green_device, &all, CU_DEV_RESOURCE_TYPE_SM));
    GTEST_CU(cuDevSmResourceSplitByCount(&part, &n, &all, NULL, 0, fakecuda_is_here() ? 2 : 16));
    GTEST_CU(cuDevResourceGenerateDesc(&green_resources, &part, 1));
    for (int i = 0; i < N_TIMES; i++)
        GTEST_CU(cuGreenCtxCreate(&greens[i], green_resources, green_device, CU_GREEN_CTX_DEFAULT_STREAM));
}

static void set_up(void)
{
    CUfunction *const functions[] = {unused, unused_too, unused_third};
    CUmodule module;
    void *address;

    for (int i = 0; i < N_TIMES; i++) {
        GTEST_CU(cuModuleLoadData(&loaded[i], gtest_ptx));
        for (int k = 0; k < 3; k++) {
            GTEST_CU(cuModuleLoadData(&module, gtest_ptx));
            GTEST_CU(cuModuleGetFunction(&functions[k][i], module, k < 2 ? "gtest_update" : "gtest_spin"));
        }
    }
    GTEST_CU(cuLibraryLoadData(&library, gtest_ptx, NULL, NULL, 0, NULL, NULL, 0));
    GTEST_CU(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    GTEST_CU(cuStreamCreate(&streams[1], CU_STREAM_DEFAULT));
    GTEST_CU(cuStreamCreate(&streams[2], CU_STREAM_NON_BLOCKING));
    streams[3] = CU_STREAM_PER_THREAD;
    GTEST_CU(cuMemAlloc(&memory, sizeof pageable));
    GTEST_CU(cuMemAlloc(&other, sizeof many));
    GTEST_CU(cuMemAllocHost(&address, sizeof pageable));
    pinned = address;
    GTEST_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    make_greens();
}

/* An even rank: the kernel, the message, the wait; then what was queued behind the kernel is done. */
static void wait_for(const struct way *way, CUstream stream, const char *stream_name, volatile unsigned *flag)
{
    int n_blocked = fakecuda_is_here() ? fakecuda_blocked_waits() : 0;

    *flag = 0;
    GTEST_CU(cuMemsetD32Async(memory, 7, N, stream));
    gtest_launch_spin((CUdeviceptr)flag, stream);
    gtest_launch_update(memory, N, 2, 1, stream);
    gtest_send_flag(flag, mtest_rank + 1);
    way->wait(stream);
    MTEST_CHECK(*flag == 1, "%s, stream %s: has not waited", way->name, stream_name);
    /* Where several ranks wait, the counts are those of all on the PE; in a context of the program's own, the
     * driver waits for copies. */
    if (fakecuda_is_here() && mtest_size == 2 && !has_own_context && !may_block && !(way->flags & BRIEFLY))
        MTEST_CHECK(fakecuda_blocked_waits() == n_blocked, "%s, stream %s: the PE was blocked", way->name,
                    stream_name);
    GTEST_CU(cuStreamSynchronize(stream));
    GTEST_CU(cuMemcpyDtoH(pageable, memory, sizeof pageable));
    MTEST_CHECK(pageable[0] == 15 && pageable[N - 1] == 15, "%s, stream %s: %u and %u instead of 15",
                way->name, stream_name, pageable[0], pageable[N - 1]);
}

static void run(const struct way *way, volatile unsigned *flag)
{
    for (int i = 0; i < 4; i++) {
        if (way->flags & NULL_ONLY && i == 2)
            continue;
        n_times = i;
        if (mtest_rank % 2 == 0 && mtest_rank + 1 < mtest_size)
            wait_for(way, streams[i], stream_names[i], flag);
        else if (mtest_rank % 2 == 1)
            *gtest_recv_flag(mtest_rank - 1) = 1;
    }
}

static bool is_wanted(const char *names, const struct way *way)
{
    size_t length = strlen(way->name);

    if (strcmp(names, "all") == 0 || strcmp(names, "gpu") == 0)
        return strcmp(names, "gpu") == 0 ? way->flags & OF_GPU : !(way->flags & (OF_GPU | BY_NAME));
    for (const char *i = names; i; i = strchr(i, ','), i = i ? i + 1 : NULL)
        if (strncmp(i, way->name, length) == 0 && (i[length] == ',' || i[length] == '\0'))
            return true;
    return false;
}

/* On one PE, a wait that blocks it hangs; on several, the driver tells of it. */
int main(int argc, char **argv)
{
    const char *names = argc > 1 ? argv[1] : "all";
    CUcontext own;
    volatile unsigned *flag;
    int n_run = 0;

    if (strcmp(names, "list") == 0) {
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            puts(ways[i].name);
        return 0;
    }
    mtest_init(&argc, &argv, 2);
    gtest_init();
    has_own_context = argc > 2 && strcmp(argv[2], "own_context") == 0;
    may_block = argc > 2 && strcmp(argv[2], "may_block") == 0;
    has_no_context = argc > 2 && strcmp(argv[2], "no_context") == 0 && mtest_rank % 2 == 1;
    if (has_own_context)
        GTEST_CU(cuCtxCreate(&own, NULL, 0, 0));
    gtest_load_kernels();
    set_up();
    flag = gtest_flag();
    if (has_no_context)
        GTEST_CU(cuCtxSetCurrent(NULL));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (is_wanted(names, &ways[i])) {
            run(&ways[i], flag);
            n_run++;
        }
    MTEST_CHECK(n_run > 0, "there is no way of %s", names);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return mtest_end();
}
