/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The first memory of a pool that MPI is given makes it wait for synchronous calls of all ranks that have returned early. It
 * does not wait for one behind a launch of a graph that waits for this rank's launch. "updated": the graph was one of kernels before.
 */
#include "enqueue.h"

#define N 1000

static struct etest test;
static CUdeviceptr memory;

/* A barrier, or a message from rank 1 to rank 0. */
static CUgraph capture(CUstream stream, CUdeviceptr message)
{
    CUgraph graph;

    GTEST_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (!message)
        MTEST_OK(MPIX_Barrier_enqueue(test.comm));
    else if (mtest_rank == 0)
        MTEST_OK(MPIX_Recv_enqueue((void *)message, 1, MPI_INT, 1, 0, test.comm, MPI_STATUS_IGNORE));
    else if (mtest_rank == 1)
        MTEST_OK(MPIX_Send_enqueue((void *)message, 1, MPI_INT, 0, 0, test.comm));
    GTEST_CU(cuStreamEndCapture(stream, &graph));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return graph;
}

static CUgraph capture_kernel(CUstream stream, CUdeviceptr message)
{
    CUgraph graph;

    GTEST_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    gtest_launch_update(message, 1, 1, 1, stream);
    GTEST_CU(cuStreamEndCapture(stream, &graph));
    return graph;
}

static CUgraphExec make(CUgraph graph)
{
    CUgraphExec exec;

    GTEST_CU(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

/* A message is one kernel as a rule; otherwise it is no update of a graph with a kernel. */
static CUgraphExec update(CUgraphExec exec, CUgraph graph, CUstream stream)
{
    CUgraphExecUpdateResultInfo info;

    if (cuGraphExecUpdate(exec, graph, &info) != CUDA_SUCCESS) {
        GTEST_CU(cuGraphExecDestroy(exec));
        return make(graph);
    }
    GTEST_CU(cuGraphUpload(exec, stream));
    GTEST_CU(cuStreamSynchronize(stream));
    return exec;
}

static CUgraphExec make_exec(CUstream stream, CUdeviceptr message)
{
    CUgraph before = message ? capture_kernel(stream, message) : NULL;
    CUgraphExec exec = before ? make(before) : NULL;
    CUgraph graph = capture(stream, message);

    exec = exec ? update(exec, graph, stream) : make(graph);
    if (before)
        GTEST_CU(cuGraphDestroy(before));
    GTEST_CU(cuGraphDestroy(graph));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return exec;
}

static void set_behind_launch(CUgraphExec exec)
{
    unsigned got[N];

    GTEST_CU(cuGraphLaunch(exec, test.cuda));
    GTEST_CU(cuMemsetD32(memory, 42, N)); /* in the default stream, which waits for the launch */
    MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD));
    GTEST_CU(cuMemcpyDtoH(got, memory, sizeof got));
    MTEST_CHECK(got[0] == 42 && got[N - 1] == 42, "%u and %u instead of 42", got[0], got[N - 1]);
}

static void show_pool_memory(CUgraphExec exec)
{
    CUdeviceptr fresh;
    unsigned got = 0;

    GTEST_CU(cuMemAllocAsync(&fresh, sizeof got, CU_STREAM_PER_THREAD));
    GTEST_CU(cuMemsetD32Async(fresh, 43, 1, CU_STREAM_PER_THREAD));
    GTEST_CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Sendrecv((void *)fresh, 1, MPI_UNSIGNED, 0, 0, &got, 1, MPI_UNSIGNED, 0, 0, MPI_COMM_SELF,
                          MPI_STATUS_IGNORE));
    MTEST_CHECK(got == 43, "%u instead of 43", got);
    GTEST_CU(cuGraphLaunch(exec, test.cuda));
    GTEST_CU(cuMemFreeAsync(fresh, CU_STREAM_PER_THREAD));
}

int main(int argc, char **argv)
{
    CUstream stream;
    CUdeviceptr message;
    CUgraphExec exec;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    memory = etest_alloc(N);
    message = etest_alloc(1);
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    test.cuda = stream;
    test.stream = etest_stream(stream);
    MTEST_OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, test.stream, &test.comm));
    exec = make_exec(stream, argc > 1 ? message : 0);
    if (mtest_rank == 0)
        set_behind_launch(exec);
    else if (mtest_rank == 1)
        show_pool_memory(exec);
    GTEST_CU(cuStreamSynchronize(stream));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphExecDestroy(exec));
    GTEST_CU(cuMemFree(memory));
    GTEST_CU(cuMemFree(message));
    MTEST_OK(MPI_Comm_free(&test.comm));
    MTEST_OK(MPIX_Stream_free(&test.stream));
    return mtest_end();
}
