/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A graph with operations of MPI cannot be instantiated for launches by kernels, nor as a part of another one; a graph without
 * them can.
 */
#include "enqueue.h"

#define N 10

static struct etest test;
static CUdeviceptr data;

static CUgraph capture(int has_operation)
{
    CUgraph graph;

    GTEST_CU(cuStreamBeginCapture(test.cuda, CU_STREAM_CAPTURE_MODE_RELAXED));
    GTEST_CU(cuMemsetD32Async(data, 1, N, test.cuda));
    if (has_operation)
        MTEST_OK(MPIX_Allreduce_enqueue(MPI_IN_PLACE, (void *)data, N, MPI_INT, MPI_SUM, test.comm));
    GTEST_CU(cuStreamEndCapture(test.cuda, &graph));
    return graph;
}

static CUgraph around(CUgraph child)
{
    CUgraphNode node;
    CUgraph graph;

    GTEST_CU(cuGraphCreate(&graph, 0));
    GTEST_CU(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
    return graph;
}

static void check(CUgraph graph, CUresult expected, const char *what)
{
    CUgraphExec exec;
    CUresult result = cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);

    MTEST_CHECK(result == expected, "%s: %d", what, (int)result);
    if (result == CUDA_SUCCESS)
        GTEST_CU(cuGraphExecDestroy(exec));
    GTEST_CU(cuGraphInstantiate(&exec, graph, 0));
    GTEST_CU(cuGraphExecDestroy(exec));
}

int main(int argc, char **argv)
{
    CUgraph with, without, outer, outer_without;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    test = etest_begin(0, 0);
    data = etest_alloc(N);
    with = capture(1);
    without = capture(0);
    outer = around(with);
    outer_without = around(without);
    check(with, CUDA_ERROR_NOT_SUPPORTED, "a graph with an operation");
    check(outer, CUDA_ERROR_NOT_SUPPORTED, "a graph with a part that has an operation");
    if (fakecuda_is_here()) { /* CUDA refuses more: these have to be uploaded before */
        check(without, CUDA_SUCCESS, "a graph without an operation");
        check(outer_without, CUDA_SUCCESS, "a graph with a part that has none");
    }
    GTEST_CU(cuGraphDestroy(outer_without));
    GTEST_CU(cuGraphDestroy(outer));
    GTEST_CU(cuGraphDestroy(without));
    GTEST_CU(cuGraphDestroy(with));
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
    return mtest_end();
}
