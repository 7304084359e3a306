/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the only rank of a process did before its first operation in a stream stays valid: its stack of contexts, primary contexts
 * that it has retained, captures, and pointers to CUDA's functions, whose waits end although they are not intercepted.
 */
#include "enqueue.h"

#define N 100000
#define ROUNDS 3

static CUresult(CUDAAPI *kept_synchronize)(CUstream);
static CUresult(CUDAAPI *kept_free)(CUdeviceptr);

static void check_pop(CUcontext expected)
{
    CUcontext popped = NULL, current = NULL;

    GTEST_CU(cuCtxGetCurrent(&current));
    MTEST_CHECK(current == expected, "another context is current");
    GTEST_CU(cuCtxPopCurrent(&popped));
    MTEST_CHECK(popped == expected, "another context was popped");
}

/* In the stream, to the rank itself. */
static void enqueue_messages(CUdeviceptr memory, MPI_Comm comm)
{
    MPI_Request request;

    MTEST_OK(MPIX_Isend_enqueue((void *)memory, N, MPI_UNSIGNED, 0, 0, comm, &request));
    MTEST_OK(MPIX_Recv_enqueue((void *)(memory + N * sizeof(unsigned)), N, MPI_UNSIGNED, 0, 0, comm,
                               MPI_STATUS_IGNORE));
    MTEST_OK(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
}

static void check_kept(CUdeviceptr memory, CUstream stream, MPI_Comm comm)
{
    CUdeviceptr other;

    for (int i = 0; i < ROUNDS; i++) {
        GTEST_CU(cuMemAlloc(&other, 1000));
        enqueue_messages(memory, comm);
        GTEST_CU(kept_free(other));
        enqueue_messages(memory, comm);
        GTEST_CU(kept_synchronize(stream));
    }
}

static void end_capture(CUstream captured)
{
    CUgraph graph;
    CUgraphExec exec;

    GTEST_CU(cuStreamEndCapture(captured, &graph));
    GTEST_CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    GTEST_CU(cuGraphLaunch(exec, captured));
    GTEST_CU(cuStreamSynchronize(captured));
    GTEST_CU(cuGraphExecDestroy(exec));
    GTEST_CU(cuGraphDestroy(graph));
    GTEST_CU(cuStreamDestroy(captured));
}

int main(int argc, char **argv)
{
    CUcontext primary, first, second, third, popped;
    CUstream stream, captured;
    CUdeviceptr memory;
    MPI_Comm comm;
    CUdevice device;

    mtest_init(&argc, &argv, 1);
    gtest_init();
    kept_synchronize = cuStreamSynchronize;
    kept_free = cuMemFree;
    GTEST_CU(cuDeviceGet(&device, 0));
    primary = gtest_contexts[0];
    GTEST_CU(cuCtxCreate(&first, NULL, 0, device));
    GTEST_CU(cuCtxCreate(&second, NULL, 0, device));
    GTEST_CU(cuCtxPushCurrent(primary));
    memory = etest_alloc(2 * N);
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    GTEST_CU(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    GTEST_CU(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    GTEST_CU(cuMemsetD32Async(memory, 1, N, captured));
    MTEST_OK(MPIX_Stream_comm_create(MPI_COMM_SELF, etest_stream(stream), &comm));
    enqueue_messages(memory, comm);
    end_capture(captured);
    check_kept(memory, stream, comm);
    check_pop(primary);
    GTEST_CU(cuCtxCreate(&third, NULL, 0, device));
    check_pop(third);
    check_pop(second);
    check_pop(first);
    check_pop(primary);
    MTEST_CHECK(cuCtxPopCurrent(&popped) == CUDA_ERROR_INVALID_CONTEXT, "the stack is not empty");
    GTEST_CU(cuCtxDestroy(third));
    GTEST_CU(cuCtxDestroy(second));
    GTEST_CU(cuCtxDestroy(first));
    GTEST_CU(cuCtxPushCurrent(primary));
    GTEST_CU(cuStreamDestroy(stream));
    GTEST_CU(cuMemFree(memory));
    MTEST_OK(MPI_Comm_free(&comm));
    GTEST_CU(cuDevicePrimaryCtxRelease(device));
    return mtest_end();
}
