/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A host function in a stream receives a message, and cudaMemset is behind it. MPI on another rank, which is given memory of a pool for
 * the first time and sends that message next, does not wait for the cudaMemset. "graph": a launch of a graph calls the function.
 */
#include "enqueue.h"

#define N 1000

static int received = -1;

static void CUDA_CB receive(void *unused)
{
    (void)unused;
    if (MPI_Recv(&received, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        received = -2;
}

static CUgraphExec capture_function(CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec;

    GTEST_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    GTEST_CU(cuLaunchHostFunc(stream, receive, NULL));
    GTEST_CU(cuStreamEndCapture(stream, &graph));
    GTEST_CU(cuGraphInstantiate(&exec, graph, 0));
    GTEST_CU(cuGraphDestroy(graph));
    return exec;
}

static void set_behind_function(int is_graph)
{
    CUdeviceptr memory = etest_alloc(N);
    CUgraphExec exec = NULL;
    unsigned got[N];
    CUstream stream;

    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    if (is_graph) {
        exec = capture_function(stream);
        GTEST_CU(cuGraphLaunch(exec, stream));
    } else {
        GTEST_CU(cuLaunchHostFunc(stream, receive, NULL));
    }
    GTEST_CU(cuMemsetD32(memory, 42, N)); /* in the default stream, which waits for the function */
    MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD));
    GTEST_CU(cuMemcpyDtoH(got, memory, sizeof got));
    MTEST_CHECK(got[0] == 42 && got[N - 1] == 42, "%u and %u instead of 42", got[0], got[N - 1]);
    MTEST_CHECK(received == 7, "the function has received %d instead of 7", received);
    GTEST_CU(cuStreamSynchronize(stream));
    if (exec)
        GTEST_CU(cuGraphExecDestroy(exec));
    GTEST_CU(cuStreamDestroy(stream));
    GTEST_CU(cuMemFree(memory));
}

static void show_pool_memory(void)
{
    CUdeviceptr fresh;
    unsigned got = 0;
    int number = 7;

    GTEST_CU(cuMemAllocAsync(&fresh, sizeof got, CU_STREAM_PER_THREAD));
    GTEST_CU(cuMemsetD32Async(fresh, 43, 1, CU_STREAM_PER_THREAD));
    GTEST_CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Sendrecv((void *)fresh, 1, MPI_UNSIGNED, 0, 0, &got, 1, MPI_UNSIGNED, 0, 0, MPI_COMM_SELF,
                          MPI_STATUS_IGNORE));
    MTEST_CHECK(got == 43, "%u instead of 43", got);
    MTEST_OK(MPI_Send(&number, 1, MPI_INT, 0, 3, MPI_COMM_WORLD));
    GTEST_CU(cuMemFreeAsync(fresh, CU_STREAM_PER_THREAD));
}

int main(int argc, char **argv)
{
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mtest_learn_world(2);
    gtest_init();
    if (mtest_rank == 0)
        set_behind_function(argc > 1);
    else if (mtest_rank == 1)
        show_pool_memory();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return mtest_end();
}
