/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A process that finds the driver by dlsym, as CUDA's runtimes do, frees memory behind a launch of a graph that waits for the
 * process: the operations of MPI in the graph go on, also if the process has one rank. A capture that is under way
 * meanwhile stays valid.
 */
#include <cuda.h>
#include <dlfcn.h>

#include "mtest.h"

static void *driver;

/* cuda.h's macros give the names of the current versions. */
#define AS_TEXT(name) AS_TEXT_2(name)
#define AS_TEXT_2(name) #name
#define CALL(name) ((__typeof__(&name))dlsym(driver, AS_TEXT(name)))
#define CU(call) MTEST_CHECK((call) == CUDA_SUCCESS, "%s", #call)

/* Runtimes look waits up at once. */
static void open_driver(void)
{
    CUcontext context;

    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        mtest_skip("there is no driver here");
    MTEST_CHECK(CALL(cuStreamSynchronize) && CALL(cuCtxSynchronize), "the driver has no waits");
    if (CALL(cuInit)(0) != CUDA_SUCCESS)
        mtest_skip("there is no GPU here");
    CU(CALL(cuDevicePrimaryCtxRetain)(&context, 0));
    CU(CALL(cuCtxSetCurrent)(context));
}

static MPI_Comm comm_of(CUstream cuda, MPIX_Stream *stream)
{
    MPI_Info info;
    MPI_Comm comm;

    MTEST_OK(MPI_Info_create(&info));
    MTEST_OK(MPI_Info_set(info, "type", "cudaStream_t"));
    MTEST_OK(MPIX_Info_set_hex(info, "value", &cuda, sizeof cuda));
    MTEST_OK(MPIX_Stream_create(info, stream));
    MTEST_OK(MPI_Info_free(&info));
    MTEST_OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, *stream, &comm));
    return comm;
}

/* A sum over all ranks, which the PE starts at each launch. */
static CUgraphExec capture_sum(CUstream cuda, CUdeviceptr data, MPI_Comm comm)
{
    CUgraph graph;
    CUgraphExec exec;

    CU(CALL(cuStreamBeginCapture)(cuda, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MTEST_OK(MPIX_Allreduce_enqueue(MPI_IN_PLACE, (void *)data, 1, MPI_INT, MPI_SUM, comm));
    CU(CALL(cuStreamEndCapture)(cuda, &graph));
    CU(CALL(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    CU(CALL(cuGraphDestroy)(graph));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return exec;
}

static void free_behind(CUgraphExec exec, CUstream cuda, CUdeviceptr data, CUstream other)
{
    CUdeviceptr freed;
    CUgraph graph;
    int value = 0;

    CU(CALL(cuMemAlloc)(&freed, 4096));
    CU(CALL(cuMemsetD32Async)(data, (unsigned)mtest_rank + 1, 1, cuda));
    CU(CALL(cuGraphLaunch)(exec, cuda));
    CU(CALL(cuStreamBeginCapture)(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(CALL(cuMemFree)(freed));
    CU(CALL(cuStreamEndCapture)(other, &graph));
    CU(CALL(cuGraphDestroy)(graph));
    CU(CALL(cuMemcpyDtoHAsync)(&value, data, sizeof value, cuda));
    CU(CALL(cuStreamSynchronize)(cuda));
    MTEST_CHECK(value == mtest_size * (mtest_size + 1) / 2, "the sum is %d", value);
}

int main(int argc, char **argv)
{
    CUstream cuda, other;
    CUdeviceptr data;
    MPIX_Stream stream;
    MPI_Comm comm;
    CUgraphExec exec;

    mtest_init(&argc, &argv, 1);
    open_driver();
    CU(CALL(cuStreamCreate)(&cuda, CU_STREAM_NON_BLOCKING));
    CU(CALL(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
    CU(CALL(cuMemAlloc)(&data, sizeof(int)));
    comm = comm_of(cuda, &stream);
    exec = capture_sum(cuda, data, comm);
    for (int i = 0; i < 10; i++)
        free_behind(exec, cuda, data, other);
    CU(CALL(cuGraphExecDestroy)(exec));
    CU(CALL(cuMemFree)(data));
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_OK(MPIX_Stream_free(&stream));
    return mtest_end();
}
