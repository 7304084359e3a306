/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that waits for a kernel which breaks the GPU gets CUDA's error from its wait, also if other ranks
 * ran meanwhile, and so does every rank's next call; nothing hangs. The argument is the way to wait.
 */
#include "enqueue.h"

#define NOWHERE 4096 /* an address without memory */

static CUstream created;
static CUevent event;
static CUdeviceptr freed;
static unsigned number;

static CUresult poll(CUstream stream, CUevent behind)
{
    CUresult result;

    do
        result = behind ? cuEventQuery(behind) : cuStreamQuery(stream);
    while (result == CUDA_ERROR_NOT_READY);
    return result;
}

static CUresult wait_by(const char *way, CUstream stream, CUdeviceptr memory)
{
    CUmodule module;

    if (strcmp(way, "free") == 0)
        return cuMemFree(freed);
    if (strcmp(way, "load") == 0)
        return cuModuleLoadData(&module, gtest_ptx);
    if (strcmp(way, "stream") == 0)
        return cuStreamSynchronize(stream);
    if (strcmp(way, "destroy") == 0)
        return cuStreamSynchronize(stream) == CUDA_SUCCESS ? CUDA_SUCCESS : cuStreamDestroy(created);
    if (strcmp(way, "context") == 0)
        return cuCtxSynchronize();
    if (strcmp(way, "copy") == 0)
        return cuMemcpyDtoH(&number, memory, sizeof number);
    if (strcmp(way, "stream_query") == 0)
        return poll(stream, NULL);
    return strcmp(way, "event") == 0 ? cuEventSynchronize(event) : poll(stream, event);
}

static void expect_failed(CUresult result, const char *what)
{
    MTEST_CHECK(result == CUDA_ERROR_ILLEGAL_ADDRESS, "%s: %d instead of the error of an illegal address",
                what, (int)result);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "stream";
    volatile unsigned *flag;
    CUdeviceptr memory;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    flag = gtest_flag();
    GTEST_CU(cuMemAlloc(&memory, 64));
    GTEST_CU(cuMemAlloc(&freed, 64));
    GTEST_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    GTEST_CU(cuStreamCreate(&created, CU_STREAM_NON_BLOCKING));
    if (strcmp(way, "destroy") == 0) { /* while streams may wait for messages, destroyed ones are kept */
        MPIX_Stream stream = etest_stream(created);
        MTEST_OK(MPIX_Stream_free(&stream));
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0) {
        gtest_launch_spin((CUdeviceptr)flag, NULL);
        gtest_launch_update(NOWHERE, 1, 1, 1, NULL);
        GTEST_CU(cuEventRecord(event, NULL));
        gtest_send_flag(flag, 1);
        expect_failed(wait_by(way, NULL, memory), way);
    } else if (mtest_rank == 1) {
        *gtest_recv_flag(0) = 1;
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    expect_failed(cuStreamSynchronize(NULL), "cuStreamSynchronize");
    expect_failed(cuStreamQuery(NULL), "cuStreamQuery");
    expect_failed(cuCtxSynchronize(), "cuCtxSynchronize");
    expect_failed(cuMemcpyDtoH(&number, memory, sizeof number), "cuMemcpyDtoH");
    expect_failed(cuMemsetD32Async(memory, 1, 1, NULL), "cuMemsetD32Async");
    return mtest_end();
}
