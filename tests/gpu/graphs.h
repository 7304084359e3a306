/* SPDX-License-Identifier: BSD-3-Clause
 *
 * graphs.h: CUDA graphs of messages, for the tests of captured operations.
 */
#ifndef GPU_TEST_GRAPHS_H
#define GPU_TEST_GRAPHS_H

#include "enqueue.h"

static inline void graph_begin(struct etest *test)
{
    GTEST_CU(cuStreamBeginCapture(test->cuda, (CUstreamCaptureMode)(mtest_rank % 3)));
}

static inline CUgraph graph_end(struct etest *test)
{
    CUgraph graph = NULL;

    GTEST_CU(cuStreamEndCapture(test->cuda, &graph));
    return graph;
}

static inline CUgraphExec graph_make(CUgraph graph)
{
    CUgraphExec exec = NULL;

    GTEST_CU(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static inline CUgraphExec graph_end_and_make(struct etest *test)
{
    CUgraph graph = graph_end(test);
    CUgraphExec exec = graph_make(graph);

    GTEST_CU(cuGraphDestroy(graph));
    return exec;
}

/* Nobody launches before all ranks' graphs are made, and with that on the GPU. */
static inline CUgraphExec graph_end_and_make_all(struct etest *test)
{
    CUgraphExec exec = graph_end_and_make(test);

    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return exec;
}

static inline void graph_launch(struct etest *test, CUgraphExec exec, int n)
{
    for (int i = 0; i < n; i++)
        GTEST_CU(cuGraphLaunch(exec, test->cuda));
}

#endif
