/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that was freed while another rank waits for a message, in a context that was destroyed then: later memory at the same
 * address is not taken for it.
 */
#include "enqueue.h"

#define N_BYTES ((size_t)2 << 20)
#define PLACE ((uintptr_t)0x4f0000000000) /* nothing is mapped there */

static CUdeviceptr allocate_there(void)
{
    CUdeviceptr made;

    if (fakecuda_is_here())
        fakecuda_place_next(PLACE);
    GTEST_CU(cuMemAlloc(&made, N_BYTES));
    return made;
}

/* A rank that captures cannot wait for its work, so its free is put off. */
static void free_while_capturing(CUdeviceptr memory)
{
    CUstream stream;
    CUgraph graph;

    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    GTEST_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    GTEST_CU(cuMemFree(memory));
    GTEST_CU(cuStreamEndCapture(stream, &graph));
    GTEST_CU(cuGraphDestroy(graph));
    GTEST_CU(cuStreamDestroy(stream));
}

static void free_beside_wait(void)
{
    CUcontext own;

    GTEST_CU(cuCtxCreate(&own, NULL, 0, 0));
    free_while_capturing(allocate_there());
    GTEST_CU(cuCtxDestroy(own));
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
    GTEST_CU(cuMemFree(allocate_there()));
}

int main(int argc, char **argv)
{
    struct etest test;
    CUdeviceptr data;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    test = etest_begin(0, 0);
    data = etest_alloc(1);
    if (mtest_rank == 0)
        MTEST_OK(MPIX_Recv_enqueue((void *)data, 1, MPI_INT, 1, 0, test.comm, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 1) {
        free_beside_wait();
        MTEST_OK(MPIX_Send_enqueue((void *)data, 1, MPI_INT, 0, 0, test.comm));
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
    return mtest_end();
}
