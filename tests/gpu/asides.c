/* SPDX-License-Identifier: BSD-3-Clause
 *
 * CUDA calls that wait in the driver have the same results, errors and side effects if the library makes them
 * on another thread while other ranks run: errors, the current context, kernels loaded in several contexts,
 * captures, and calls of a forked child.
 */
#include <sys/wait.h>

#include "kernels.h"

#define N 64
#define ROUNDS 20

static CUresult launch(CUfunction function, CUdeviceptr to, unsigned n_threads, CUstream stream)
{
    struct gtest_update_args args = {to, N, 3, 1, 0};
    size_t n_bytes = sizeof args;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &n_bytes,
                     CU_LAUNCH_PARAM_END};

    return cuLaunchKernel(function, 1, 1, 1, n_threads, 1, 1, 0, stream, NULL, extra);
}

static void expect(CUresult result, CUresult wanted, const char *what)
{
    MTEST_CHECK(result == wanted, "%s: %d instead of %d", what, (int)result, (int)wanted);
}

static CUfunction load(const char *name, CUmodule *module_out)
{
    CUfunction function;

    GTEST_CU(cuModuleLoadData(module_out, gtest_ptx));
    GTEST_CU(cuModuleGetFunction(&function, *module_out, name));
    return function;
}

static unsigned first_of(CUdeviceptr memory)
{
    unsigned value = 0;

    GTEST_CU(cuMemcpyDtoH(&value, memory, sizeof value));
    return value;
}

/* Each rank has another device than its neighbor: a module belongs to the context it was loaded in. */
static void contexts(void)
{
    CUcontext own = gtest_contexts[mtest_rank % gtest_n_devices], now;
    CUfunction function;
    CUdeviceptr memory;
    CUmodule module;

    GTEST_CU(cuCtxSetCurrent(own));
    for (int i = 0; i < ROUNDS; i++) {
        function = load("gtest_update", &module);
        GTEST_CU(cuMemAlloc(&memory, N * sizeof(unsigned)));
        GTEST_CU(cuMemsetD32Async(memory, 5, N, NULL));
        GTEST_CU(launch(function, memory, 1, NULL));
        MTEST_CHECK(first_of(memory) == 16, "round %d: %u instead of 16", i, first_of(memory));
        GTEST_CU(cuMemFree(memory));
        GTEST_CU(cuModuleUnload(module)); /* the next kernel may have this one's handle */
        GTEST_CU(cuCtxGetCurrent(&now));
        MTEST_CHECK(now == own, "round %d: another context is current", i);
    }
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
}

/* A kernel of a library has one handle for all contexts. */
static void kernel_of_library(void)
{
    CUdeviceptr memory;
    CUlibrary library;
    CUfunction function;
    CUkernel kernel;

    GTEST_CU(cuLibraryLoadData(&library, gtest_ptx, NULL, NULL, 0, NULL, NULL, 0));
    GTEST_CU(cuLibraryGetKernel(&kernel, library, "gtest_update"));
    for (int i = 0; i < 2 * gtest_n_devices; i++) {
        GTEST_CU(cuCtxPushCurrent(gtest_contexts[i % gtest_n_devices]));
        GTEST_CU(cuKernelGetFunction(&function, kernel));
        GTEST_CU(cuMemAlloc(&memory, N * sizeof(unsigned)));
        GTEST_CU(cuMemsetD32Async(memory, 7, N, NULL));
        GTEST_CU(launch(function, memory, 1, NULL));
        GTEST_CU(launch((CUfunction)kernel, memory, 1, NULL));
        MTEST_CHECK(first_of(memory) == 67, "GPU %d: %u instead of 67", i, first_of(memory));
        GTEST_CU(cuMemFree(memory));
        GTEST_CU(cuCtxPopCurrent(NULL));
    }
    GTEST_CU(cuLibraryUnload(library));
}

static void errors(void)
{
    CUdeviceptr memory;
    CUfunction function;
    CUmodule module;
    int number;

    GTEST_CU(cuMemAlloc(&memory, N * sizeof(unsigned)));
    GTEST_CU(cuMemsetD32(memory, 1, N));
    expect(cuMemFree(memory + 4), CUDA_ERROR_INVALID_VALUE, "cuMemFree of the middle");
    expect(cuMemFree(0), CUDA_SUCCESS, "cuMemFree of NULL");
    expect(cuMemFreeHost(&number), CUDA_ERROR_INVALID_VALUE, "cuMemFreeHost of the stack");
    expect(cuMemHostUnregister(&number), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "cuMemHostUnregister");
    expect(cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE, "cuModuleLoadData of NULL");
    function = load("gtest_update", &module);
    for (int i = 0; i < 2; i++)
        expect(launch(function, memory, 5000, NULL), CUDA_ERROR_INVALID_VALUE, "5,000 threads");
    expect(launch(function, memory, 1, NULL), CUDA_SUCCESS, "a launch after one that failed");
    MTEST_CHECK(first_of(memory) == 4, "%u instead of 4", first_of(memory));
    GTEST_CU(cuCtxSetCurrent(NULL));
    expect(cuModuleLoadData(&module, gtest_ptx), CUDA_ERROR_INVALID_CONTEXT, "without a context");
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
    GTEST_CU(cuMemFree(memory));
}

/* A first launch is captured, not made. */
static void captures(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr memory;
    CUfunction function;
    CUmodule module;
    CUgraphExec exec;
    CUstream stream;
    CUgraph graph;

    function = load("gtest_update", &module);
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    GTEST_CU(cuMemAlloc(&memory, N * sizeof(unsigned)));
    GTEST_CU(cuMemsetD32(memory, 1, N));
    GTEST_CU(cuCtxSynchronize());
    GTEST_CU(cuThreadExchangeStreamCaptureMode(&mode));
    GTEST_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    GTEST_CU(launch(function, memory, 1, stream));
    GTEST_CU(cuStreamEndCapture(stream, &graph));
    MTEST_CHECK(first_of(memory) == 1, "a captured launch was made");
    GTEST_CU(cuGraphInstantiate(&exec, graph, 0));
    GTEST_CU(cuGraphLaunch(exec, stream));
    GTEST_CU(launch(function, memory, 1, stream));
    GTEST_CU(cuStreamSynchronize(stream));
    MTEST_CHECK(first_of(memory) == 13, "%u instead of 13", first_of(memory));
    GTEST_CU(cuModuleUnload(module));
    GTEST_CU(cuThreadExchangeStreamCaptureMode(&mode));
    MTEST_CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED, "the mode of captures is %d", (int)mode);
    GTEST_CU(cuStreamDestroy(stream));
    GTEST_CU(cuMemFree(memory));
}

/* The child has none of the threads that made the calls before. CUDA refuses all calls there. */
static void child(void)
{
    CUdeviceptr memory;
    int status = 0;
    pid_t pid;

    GTEST_CU(cuMemAlloc(&memory, 64));
    GTEST_CU(cuMemFree(memory));
    pid = fork();
    if (pid == 0)
        _exit(cuMemFree(memory) == CUDA_SUCCESS ? 1 : 0);
    MTEST_CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the child's end: %#x", status);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    contexts();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    kernel_of_library();
    errors();
    captures();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0)
        child();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return mtest_end();
}
