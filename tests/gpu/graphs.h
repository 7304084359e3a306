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

/* ---- Halos ---- */

enum halo { RECVS_FIRST, SENDS_FIRST, MIXED, BLOCKING, HALOS };

/* Messages with both neighbors on a ring of ranks; the order is that of the calls. */
static inline void halo_exchange(struct etest *test, enum halo order, CUdeviceptr own, CUdeviceptr from_left,
                                 CUdeviceptr from_right, unsigned n)
{
    int left = (mtest_rank + mtest_size - 1) % mtest_size, right = (mtest_rank + 1) % mtest_size;
    MPI_Request requests[5] = {[4] = MPI_REQUEST_NULL};
    int is_odd = order == MIXED && mtest_rank % 2;

    for (int turn = 0; turn < 2; turn++)
        if ((turn == 0) == (order == SENDS_FIRST || is_odd)) {
            MTEST_OK(
                MPIX_Isend_enqueue((void *)own, (int)n, MPI_UNSIGNED, left, 2, test->comm, &requests[2]));
            MTEST_OK(MPIX_Isend_enqueue_c((void *)own, n, MPI_UNSIGNED, right, 1, test->comm, &requests[3]));
        } else {
            MTEST_OK(MPIX_Irecv_enqueue((void *)from_left, (int)n, MPI_UNSIGNED, left, 1, test->comm,
                                        &requests[0]));
            MTEST_OK(MPIX_Irecv_enqueue_c((void *)from_right, n, MPI_UNSIGNED, right, 2, test->comm,
                                          &requests[1]));
        }
    if (order == MIXED) {
        MTEST_OK(MPIX_Wait_enqueue(&requests[3], MPI_STATUS_IGNORE));
        MTEST_OK(MPIX_Wait_enqueue(&requests[0], MPI_STATUS_IGNORE));
    }
    MTEST_OK(MPIX_Waitall_enqueue(5, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 5; i++)
        MTEST_CHECK(requests[i] == MPI_REQUEST_NULL, "the graph waits, but the program has request %d", i);
}

/* A step of an iteration: a kernel, the messages, and kernels that use what came. */
static inline void halo_step(struct etest *test, enum halo order, CUdeviceptr own, CUdeviceptr from_left,
                             CUdeviceptr from_right, unsigned n)
{
    gtest_launch_update(own, n, 3, (unsigned)mtest_rank + 1, test->cuda);
    halo_exchange(test, order, own, from_left, from_right, n);
    gtest_launch_mix(own, from_left, n, test->cuda);
    gtest_launch_mix(own, from_right, n, test->cuda);
}

/* The value of this rank after some halo_steps. */
static inline unsigned halo_expected(int n_steps)
{
    unsigned *values = mtest_alloc((size_t)mtest_size * sizeof *values), value;

    memset(values, 0, (size_t)mtest_size * sizeof *values);
    for (int step = 0; step < n_steps; step++) {
        etest_halo_step(values);
    }
    value = values[mtest_rank];
    free(values);
    return value;
}

#endif
