/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank's call of CUDA that blocks inside the driver does not stop the PE: rank 1 enqueues a receive for which its stream waits,
 * rank 2 makes the call, and rank 0 of the same PE enqueues the send only then. The fake driver makes each of these calls wait
 * for all work of the GPUs. "late": a call that waits for long is reported. "limit": also a free for which no memory is left that
 * may be given back later.
 */
#include "enqueue.h"
#include "mpi-ext.h"
#include <pthread.h>
#include <stdatomic.h>

#define N 500

static struct etest test;
static CUdeviceptr memory, device;
static CUstream stream;
static CUcontext context;
static CUmemoryPool pool;
static CUgraphExec exec;
static CUmodule module;
static void *host;
static char page[8192] __attribute__((aligned(4096)));

/* ---- The calls ---- */

static void alloc(void)
{
    GTEST_CU(cuMemAlloc(&device, 1 << 20));
}

static void alloc_managed(void)
{
    GTEST_CU(cuMemAllocManaged(&device, 4096, CU_MEM_ATTACH_GLOBAL));
}

static void free_memory(void)
{
    GTEST_CU(cuMemFree(device));
}

static void alloc_host(void)
{
    GTEST_CU(cuMemAllocHost(&host, 4096));
}

static void host_alloc(void)
{
    GTEST_CU(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_PORTABLE));
}

static void free_host(void)
{
    GTEST_CU(cuMemFreeHost(host));
}

static void register_memory(void)
{
    GTEST_CU(cuMemHostRegister(page, sizeof page, 0));
}

static void unregister_memory(void)
{
    GTEST_CU(cuMemHostUnregister(page));
}

static void create_stream(void)
{
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void destroy_stream(void)
{
    GTEST_CU(cuStreamDestroy(stream));
}

static void create_context(void)
{
    GTEST_CU(cuCtxCreate(&context, NULL, 0, 0));
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
}

static void destroy_context(void)
{
    CUcontext current = NULL;

    GTEST_CU(cuCtxDestroy(context));
    GTEST_CU(cuCtxGetCurrent(&current));
    MTEST_CHECK(current == gtest_contexts[0], "another context is current");
}

static void destroy_current(void)
{
    CUcontext current = NULL;

    GTEST_CU(cuCtxCreate(&context, NULL, 0, 0));
    GTEST_CU(cuCtxDestroy(context));
    GTEST_CU(cuCtxGetCurrent(&current));
    MTEST_CHECK(current == gtest_contexts[0], "the context below is not current");
}

static void *destroy_there(void *arg)
{
    atomic_int *is_over = (atomic_int *)arg;

    GTEST_CU(cuCtxDestroy(context));
    atomic_store(is_over, 1);
    return NULL;
}

/* A thread of the rank destroys the context that is current here. */
static void create_after(void)
{
    atomic_int is_over = 0;
    pthread_t thread;

    GTEST_CU(cuCtxCreate(&context, NULL, 0, 0));
    MTEST_CHECK(pthread_create(&thread, NULL, destroy_there, &is_over) == 0, "no thread");
    while (!atomic_load(&is_over))
        continue;
    create_context();
    destroy_context();
    pthread_join(thread, NULL);
}

static void destroy_pool(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

    GTEST_CU(cuMemPoolCreate(&pool, &props));
    GTEST_CU(cuMemPoolDestroy(pool));
}

static void create_pool(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gtest_n_devices - 1}};

    GTEST_CU(cuMemPoolCreate(&pool, &props));
    GTEST_CU(cuMemPoolDestroy(pool));
}

static void create_memory(void)
{
    CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    size_t n_bytes;

    GTEST_CU(cuMemGetAllocationGranularity(&n_bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    GTEST_CU(cuMemCreate(&handle, n_bytes, &wanted, 0));
    GTEST_CU(cuMemRelease(handle));
}

/* As programs do that compile kernels at run time. */
static void load_library(void)
{
    CUlibrary library;
    CUfunction function;
    CUkernel kernel;

    GTEST_CU(cuLibraryLoadData(&library, gtest_ptx, NULL, NULL, 0, NULL, NULL, 0));
    GTEST_CU(cuLibraryGetKernel(&kernel, library, "gtest_update"));
    GTEST_CU(cuKernelGetFunction(&function, kernel));
    GTEST_CU(cuLibraryUnload(library));
}

static void get_function(void)
{
    CUfunction function;

    GTEST_CU(cuModuleGetFunction(&function, module, "gtest_update"));
}

static void instantiate(void)
{
    CUgraph graph;

    GTEST_CU(cuGraphCreate(&graph, 0));
    GTEST_CU(cuGraphInstantiate(&exec, graph, 0));
    GTEST_CU(cuGraphDestroy(graph));
}

static void destroy_exec(void)
{
    GTEST_CU(cuGraphExecDestroy(exec));
}

static const struct way {
    const char *function; /* that blocks */
    void (*call)(void);
} ways[] = {
    {"cuMemAlloc", alloc},
    {"cuMemFree", free_memory},
    {"cuMemAllocManaged", alloc_managed},
    {"cuMemFree", free_memory},
    {"cuMemAllocHost", alloc_host},
    {"cuMemFreeHost", free_host},
    {"cuMemHostAlloc", host_alloc},
    {"cuMemFreeHost", free_host},
    {"cuMemHostRegister", register_memory},
    {"cuMemHostUnregister", unregister_memory},
    {"cuStreamCreateWithPriority", create_stream},
    {"cuStreamDestroy", destroy_stream},
    {"cuMemPoolDestroy", destroy_pool},
    {"cuMemPoolCreate", create_pool},
    {"cuMemCreate", create_memory},
    {"cuMemRelease", create_memory},
    {"cuLibraryLoadData", load_library},
    {"cuKernelGetFunction", load_library},
    {"cuLibraryUnload", load_library},
    {"cuModuleGetFunction", get_function},
    {"cuGraphInstantiateWithFlags", instantiate},
    {"cuGraphExecDestroy", destroy_exec},
    {"cuCtxCreate", create_context},
    {"cuCtxDestroy", destroy_context},
    {"cuCtxDestroy", destroy_current},
    {"cuCtxCreate", create_after},
};

/* ---- The ranks ---- */

static void run(const struct way *way, unsigned value)
{
    if (mtest_rank == 1) {
        MTEST_OK(MPIX_Recv_enqueue((void *)memory, N, MPI_UNSIGNED, 0, 0, test.comm, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 2, 0, MPI_COMM_WORLD));
    } else if (mtest_rank == 2) {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD));
        if (fakecuda_block)
            fakecuda_block(way->function);
        way->call();
    } else if (mtest_rank == 0) {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        GTEST_CU(cuMemsetD32Async(memory, value, N, test.cuda));
        MTEST_OK(MPIX_Send_enqueue((void *)memory, N, MPI_UNSIGNED, 1, 0, test.comm));
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
    if (mtest_rank < 2)
        etest_expect(memory, N, value, way->function);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Together more than the library gives back later. */
static CUdeviceptr blocks[3];

static void alloc_much(void)
{
    for (int i = 0; i < 3; i++)
        GTEST_CU(cuMemAlloc(&blocks[i], (size_t)400 << 20));
}

static void free_much(void)
{
    for (int i = 0; i < 3; i++)
        GTEST_CU(cuMemFree(blocks[i]));
}

/* Rank 0 sends after a line has reported the call, which is then 2 s old. */
static void run_late(int is_limit)
{
    if (mtest_rank == 1) {
        MTEST_OK(MPIX_Recv_enqueue((void *)memory, N, MPI_UNSIGNED, 0, 0, test.comm, MPI_STATUS_IGNORE));
        if (is_limit)
            MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 2, 0, MPI_COMM_WORLD));
        else
            fakecuda_block("cuGraphInstantiateWithFlags"), instantiate();
    } else if (mtest_rank == 2 && is_limit) {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        free_much();
    } else if (mtest_rank == 0) {
        etest_yield_until_report(10);
        MTEST_OK(MPIX_Send_enqueue((void *)memory, N, MPI_UNSIGNED, 1, 0, test.comm));
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : NULL;
    int is_limit = only && strcmp(only, "limit") == 0,
        is_late = is_limit || (only && strcmp(only, "late") == 0);

    mtest_init(&argc, &argv, 3);
    gtest_init();
    if (is_late && !is_limit && !fakecuda_is_here())
        mtest_skip("needs the fake driver");
    gtest_load_kernels();
    GTEST_CU(cuModuleLoadData(&module, gtest_ptx));
    test = etest_begin(0, 0);
    memory = etest_alloc(N);
    if (is_limit && mtest_rank == 2)
        alloc_much();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (is_late)
        run_late(is_limit);
    for (size_t i = 0; !is_late && i < sizeof ways / sizeof *ways; i++)
        if (!only || strstr(only, ways[i].function))
            run(&ways[i], (unsigned)i + 1);
    etest_end(&test);
    return mtest_end();
}
