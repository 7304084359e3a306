/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receives of a stream that wait on the host, since there are few connections to the GPU, are put into the stream for a call that
 * cannot wait for them: the upload of a graph. If the driver refuses one, the rank's current context stays, all messages arrive, and later ones wait again.
 */
#include "enqueue.h"

#define COUNT 50000
#define N 3

static struct etest test;
static CUdeviceptr data[N];

static void receive(void)
{
    for (int i = 0; i < N; i++)
        MTEST_OK(MPIX_Recv_enqueue((void *)data[i], COUNT, MPI_UNSIGNED, 0, i, test.comm, MPI_STATUS_IGNORE));
}

static void send(unsigned value)
{
    for (unsigned i = 0; i < N; i++) {
        gtest_launch_update(data[i], COUNT, 0, value + i, test.cuda);
        MTEST_OK(MPIX_Send_enqueue((void *)data[i], COUNT, MPI_UNSIGNED, 1, (int)i, test.comm));
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
}

/* From another context than the stream's. */
static void upload(int nth_fails)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS wanted = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
                                            .hUploadStream = test.cuda};
    CUcontext now = NULL;
    CUgraphExec exec;
    CUgraph graph;

    GTEST_CU(cuGraphCreate(&graph, 0));
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[gtest_n_devices - 1]));
    if (nth_fails > 0)
        fakecuda_fail("cuStreamBatchMemOp", nth_fails, CUDA_ERROR_OUT_OF_MEMORY);
    GTEST_CU(cuGraphInstantiateWithParams(&exec, graph, &wanted));
    GTEST_CU(cuCtxGetCurrent(&now));
    MTEST_CHECK(now == gtest_contexts[gtest_n_devices - 1], "operation %d failed: another context is current",
                nth_fails);
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
    MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 9, MPI_COMM_WORLD));
    GTEST_CU(cuStreamSynchronize(test.cuda));
    GTEST_CU(cuGraphExecDestroy(exec));
    GTEST_CU(cuGraphDestroy(graph));
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    gtest_init();
    if (!fakecuda_is_here())
        mtest_skip("needs the fake driver");
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
    gtest_load_kernels();
    for (int i = 0; i < N; i++)
        data[i] = etest_alloc(COUNT);
    test = etest_begin(0, 0);
    for (int nth_fails = 3; nth_fails >= 0; nth_fails--) {
        if (mtest_rank == 1) {
            receive();
            upload(nth_fails);
            for (unsigned i = 0; i < N && nth_fails == 0; i++)
                etest_expect(data[i], COUNT, 40 + i, "received");
        } else if (mtest_rank == 0) {
            MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            send(40 + (unsigned)nth_fails);
        }
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    etest_end(&test);
    return mtest_end();
}
