/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that captures frees memory while another launches a graph that waits for this rank's launch: the free does not wait
 * for it. FAKECUDA_CALL_US makes the driver's free begin after the launch.
 */
#include "enqueue.h"

static struct etest test;

static CUgraphExec capture_barrier(void)
{
    CUgraph graph;
    CUgraphExec exec;

    GTEST_CU(cuStreamBeginCapture(test.cuda, CU_STREAM_CAPTURE_MODE_RELAXED));
    MTEST_OK(MPIX_Barrier_enqueue(test.comm));
    GTEST_CU(cuStreamEndCapture(test.cuda, &graph));
    GTEST_CU(cuGraphInstantiate(&exec, graph, 0));
    GTEST_CU(cuGraphDestroy(graph));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return exec;
}

static void free_while_capturing(CUstream stream)
{
    CUdeviceptr memory;
    CUgraph graph;

    GTEST_CU(cuMemAlloc(&memory, 4096));
    GTEST_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD));
    GTEST_CU(cuMemFree(memory));
    GTEST_CU(cuStreamEndCapture(stream, &graph));
    GTEST_CU(cuGraphDestroy(graph));
}

int main(int argc, char **argv)
{
    CUgraphExec exec;
    CUstream stream;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    test = etest_begin(0, 0);
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    exec = capture_barrier();
    if (mtest_rank == 0)
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    else if (mtest_rank == 1)
        free_while_capturing(stream);
    GTEST_CU(cuGraphLaunch(exec, test.cuda));
    GTEST_CU(cuStreamSynchronize(test.cuda));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphExecDestroy(exec));
    GTEST_CU(cuStreamDestroy(stream));
    etest_end(&test);
    return mtest_end();
}
