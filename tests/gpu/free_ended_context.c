/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank destroys a context while another rank's stream waits for a message that it sends afterwards, for which CUDA would wait,
 * and cannot destroy it again.
 * Memory that was freed in that context is not given back a second time, after later memory has got its address.
 */
#include "enqueue.h"

#define N_BYTES ((size_t)2 << 20)
#define PLACE ((uintptr_t)0x4f0000000000) /* nothing is mapped there */

/* Memory at the place, once that is free. */
static CUdeviceptr allocate_there(void)
{
    CUdeviceptr made;
    CUresult result;

    do {
        if (fakecuda_is_here())
            fakecuda_place_next(PLACE);
        result = cuMemAlloc(&made, N_BYTES);
        MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &(int){0}, MPI_STATUS_IGNORE));
    } while (fakecuda_is_here() && result == CUDA_ERROR_OUT_OF_MEMORY);
    GTEST_CU(result);
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

static void end_context(void)
{
    CUcontext own;
    CUresult result;

    GTEST_CU(cuCtxCreate(&own, NULL, 0, 0));
    free_while_capturing(allocate_there());
    GTEST_CU(cuCtxDestroy(own));
    result = cuCtxDestroy(own);
    MTEST_CHECK(result == CUDA_ERROR_INVALID_CONTEXT, "a destroyed context was destroyed: %d", (int)result);
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
}

int main(int argc, char **argv)
{
    struct etest test;
    CUdeviceptr data, later;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    test = etest_begin(0, 0);
    data = etest_alloc(1);
    if (mtest_rank == 0)
        MTEST_OK(MPIX_Recv_enqueue((void *)data, 1, MPI_INT, 1, 0, test.comm, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 1) {
        end_context();
        MTEST_OK(MPIX_Send_enqueue((void *)data, 1, MPI_INT, 0, 0, test.comm));
        later = allocate_there();
        GTEST_CU(cuMemsetD8(later, 1, N_BYTES));
        GTEST_CU(cuMemFree(later));
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
    return mtest_end();
}
