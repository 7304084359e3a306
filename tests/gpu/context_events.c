/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Events of a whole context (cuCtxRecordEvent and cuCtxWaitEvent) affect only the streams of the calling
 * rank, even if other ranks run kernels in the context: such an event completes with the previous work of all
 * the rank's streams; all its streams wait for an event, including streams created later, and other ranks'
 * streams do not.
 */
#include "kernels.h"

#define N 100

static CUcontext context;
static CUstream streams[4];
static CUdeviceptr memory;
static CUevent event, behind;
static volatile unsigned *flag;

static void expect(CUresult result, CUresult wanted, const char *what)
{
    MTEST_CHECK(result == wanted, "%s: %d instead of %d", what, (int)result, (int)wanted);
}

/* In turn, one rank has a kernel that runs, in one of its streams, while the others have none. */
static void record(int busy_rank, CUstream stream)
{
    if (mtest_rank == busy_rank) {
        *flag = 0;
        gtest_launch_spin((CUdeviceptr)flag, stream);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuCtxRecordEvent(context, event));
    if (mtest_rank == busy_rank)
        expect(cuEventQuery(event), CUDA_ERROR_NOT_READY, "the event of a rank whose kernel runs");
    else
        GTEST_CU(cuEventSynchronize(event));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    *flag = 1;
    GTEST_CU(cuEventSynchronize(event));
    GTEST_CU(cuCtxSynchronize());
}

static unsigned first_of(CUdeviceptr where)
{
    unsigned value;

    GTEST_CU(cuMemcpyDtoH(&value, where, sizeof value));
    return value;
}

/* The kernel runs in a stream that the others do not wait for by themselves. */
static void wait_for_event(int busy_rank)
{
    CUstream later;

    GTEST_CU(cuMemsetD32(memory, 1, 5 * N));
    GTEST_CU(cuCtxSynchronize());
    if (mtest_rank == busy_rank) {
        *flag = 0;
        gtest_launch_spin((CUdeviceptr)flag, streams[2]);
        GTEST_CU(cuEventRecord(behind, streams[2]));
        GTEST_CU(cuCtxWaitEvent(context, behind));
    }
    for (int i = 0; i < 4; i++)
        gtest_launch_update(memory + (CUdeviceptr)i * N * 4, N, 2, 1, streams[i]);
    GTEST_CU(cuStreamCreate(&later, CU_STREAM_NON_BLOCKING));
    gtest_launch_update(memory + (CUdeviceptr)4 * N * 4, N, 2, 1, later);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank != busy_rank) {
        GTEST_CU(cuCtxSynchronize());
    } else {
        for (int i = 0; i < 4; i++)
            expect(cuStreamQuery(streams[i]), CUDA_ERROR_NOT_READY, "a stream that waits");
        expect(cuStreamQuery(later), CUDA_ERROR_NOT_READY, "a stream that was made later");
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    *flag = 1;
    GTEST_CU(cuCtxSynchronize());
    for (int i = 0; i < 5; i++)
        MTEST_CHECK(first_of(memory + (CUdeviceptr)i * N * 4) == 3, "stream %d: not done", i);
    GTEST_CU(cuStreamDestroy(later));
}

static void captured(void)
{
    CUgraph graph;

    GTEST_CU(cuStreamBeginCapture(streams[2], CU_STREAM_CAPTURE_MODE_GLOBAL));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    expect(cuCtxRecordEvent(context, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuCtxRecordEvent");
    expect(cuStreamEndCapture(streams[2], &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
           "the capture's end");
    GTEST_CU(cuCtxRecordEvent(context, event));
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    context = gtest_contexts[0];
    flag = gtest_flag();
    GTEST_CU(cuStreamCreate(&streams[1], CU_STREAM_DEFAULT));
    GTEST_CU(cuStreamCreate(&streams[2], CU_STREAM_NON_BLOCKING));
    streams[3] = CU_STREAM_PER_THREAD;
    GTEST_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    GTEST_CU(cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING));
    GTEST_CU(cuMemAlloc(&memory, 5 * N * sizeof(unsigned)));
    for (int i = 0; i < 4; i++)
        gtest_launch_update(memory, 1, 1, 1, streams[i]);
    GTEST_CU(cuCtxSynchronize());
    for (int busy = 0; busy < mtest_size; busy++)
        for (int i = 0; i < 4; i++)
            record(busy, streams[i]);
    for (int busy = 0; busy < mtest_size; busy++)
        wait_for_event(busy);
    captured();
    return mtest_end();
}
