/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank frees memory of GPU 1, while another rank makes a stream of GPU 1 wait for an event behind an operation of GPU 0, whose context
 * is current. Both go on. FAKECUDA_CALL_US lets the free take its time, and FAKECUDA_LOCKS keeps launches out meanwhile.
 */
#include "enqueue.h"

#define N 3000
#define FREES 100

static void free_often(void)
{
    CUdeviceptr memory;

    gtest_select(GTEST_GPU1);
    for (int i = 0; i < FREES; i++) {
        GTEST_CU(cuMemAlloc(&memory, 4096));
        GTEST_CU(cuMemFree(memory));
    }
    MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD));
}

static void join_until_told(CUstream behind, CUevent event)
{
    struct etest test = {.stream = MPIX_STREAM_NULL};
    CUdeviceptr from = etest_alloc(N), to = etest_alloc(N);
    MPI_Request request;
    int is_over = 0;

    GTEST_CU(cuStreamCreate(&test.cuda, CU_STREAM_NON_BLOCKING));
    test.stream = etest_stream(test.cuda);
    MTEST_OK(MPIX_Stream_comm_create(MPI_COMM_SELF, test.stream, &test.comm));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_OK(MPI_Irecv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, &request));
    while (!is_over) {
        MTEST_OK(MPIX_Allreduce_enqueue((void *)from, (void *)to, N, MPI_UNSIGNED, MPI_SUM, test.comm));
        GTEST_CU(cuEventRecord(event, test.cuda));
        GTEST_CU(cuStreamWaitEvent(behind, event, 0));
        GTEST_CU(cuStreamSynchronize(test.cuda));
        MTEST_OK(MPI_Test(&request, &is_over, MPI_STATUS_IGNORE));
    }
    MTEST_OK(MPI_Comm_free(&test.comm));
    MTEST_OK(MPIX_Stream_free(&test.stream));
    GTEST_CU(cuStreamDestroy(test.cuda));
    GTEST_CU(cuMemFree(from));
    GTEST_CU(cuMemFree(to));
}

int main(int argc, char **argv)
{
    CUstream behind;
    CUevent event;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    if (gtest_n_devices < 2)
        mtest_skip("needs two GPUs");
    gtest_select(GTEST_GPU1);
    GTEST_CU(cuStreamCreate(&behind, CU_STREAM_NON_BLOCKING));
    gtest_select(GTEST_GPU0);
    GTEST_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    if (mtest_rank == 1) {
        join_until_told(behind, event);
    } else {
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (mtest_rank == 0)
            free_often();
    }
    GTEST_CU(cuEventDestroy(event));
    GTEST_CU(cuStreamDestroy(behind));
    return mtest_end();
}
