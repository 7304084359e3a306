/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Each rank has its own default streams and contexts: while kernels of the even ranks run in any kind of
 * stream, the odd ranks of the same PE and GPU launch, copy and wait in any kind of stream, and finish. With
 * the argument "reset", they finally reset or release the device. The driver's own default stream, which all
 * ranks share, gets no work.
 */
#include "kernels.h"

#define N 100

enum { OF_NULL, OF_LEGACY, OF_BLOCKING, OF_NON_BLOCKING, OF_THREAD, N_STREAMS };
static const char *const names[] = {"NULL", "legacy", "blocking", "non-blocking", "per-thread"};
static CUstream streams[N_STREAMS];

static void make_streams(void)
{
    streams[OF_NULL] = NULL;
    streams[OF_LEGACY] = CU_STREAM_LEGACY;
    GTEST_CU(cuStreamCreate(&streams[OF_BLOCKING], CU_STREAM_DEFAULT));
    GTEST_CU(cuStreamCreate(&streams[OF_NON_BLOCKING], CU_STREAM_NON_BLOCKING));
    streams[OF_THREAD] = CU_STREAM_PER_THREAD;
}

static void check_numbers(CUdeviceptr memory, unsigned expected, const char *busy, const char *used)
{
    unsigned numbers[N];

    GTEST_CU(cuMemcpyDtoH(numbers, memory, sizeof numbers));
    MTEST_CHECK(numbers[0] == expected && numbers[N - 1] == expected, "%s beside %s: %u and %u instead of %u",
                used, busy, numbers[0], numbers[N - 1], expected);
}

/* All that a rank does with a stream, and waits for. */
static void work(CUstream stream, CUdeviceptr memory, const char *busy, const char *used)
{
    CUevent event;

    GTEST_CU(cuEventCreate(&event, 0));
    GTEST_CU(cuMemsetD32Async(memory, 3, N, stream));
    gtest_launch_update(memory, N, 2, 1, stream);
    GTEST_CU(cuStreamSynchronize(stream));
    check_numbers(memory, 7, busy, used);
    gtest_launch_update(memory, N, 2, 1, stream);
    GTEST_CU(cuEventRecord(event, stream));
    GTEST_CU(cuEventSynchronize(event));
    gtest_launch_update(memory, N, 2, 1, stream);
    GTEST_CU(cuCtxSynchronize());
    GTEST_CU(cuStreamQuery(stream));
    check_numbers(memory, 31, busy, used);
    GTEST_CU(cuEventDestroy(event));
}

static void beside_a_kernel(int busy, volatile unsigned *flag, CUdeviceptr memory)
{
    if (mtest_rank % 2 == 0 && mtest_rank + 1 < mtest_size) {
        *flag = 0;
        GTEST_CU(cuMemsetD32Async(memory, 1, N, streams[busy]));
        gtest_launch_spin((CUdeviceptr)flag, streams[busy]);
        gtest_launch_update(memory, N, 2, 1, streams[busy]);
        gtest_send_flag(flag, mtest_rank + 1);
        GTEST_CU(cuStreamSynchronize(streams[busy]));
        MTEST_CHECK(*flag == 1, "%s: has not waited", names[busy]);
        check_numbers(memory, 3, names[busy], "the kernel");
    } else if (mtest_rank % 2 == 1) {
        volatile unsigned *other = gtest_recv_flag(mtest_rank - 1);
        for (int used = 0; used < N_STREAMS; used++)
            work(streams[used], memory, names[busy], names[used]);
        MTEST_CHECK(*other == 0, "the other rank's kernel is over");
        *other = 1;
    }
}

/* The odd ranks give the device up while kernels of the even ones run; these go on. */
static void reset_beside_a_kernel(volatile unsigned *flag, CUdeviceptr memory)
{
    CUdevice device = 0;

    if (mtest_rank % 2 == 0 && mtest_rank + 1 < mtest_size) {
        beside_a_kernel(OF_NULL, flag, memory);
    } else if (mtest_rank % 2 == 1) {
        volatile unsigned *other = gtest_recv_flag(mtest_rank - 1);
        GTEST_CU(mtest_rank % 4 == 1 ? cuDevicePrimaryCtxReset(device) : cuDevicePrimaryCtxRelease(device));
        *other = 1;
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank % 2 == 0)
        work(NULL, memory, "a reset", "NULL");
}

int main(int argc, char **argv)
{
    bool is_reset = argc > 1 && strcmp(argv[1], "reset") == 0;
    volatile unsigned *flag;
    CUdeviceptr memory;
    int n_legacy;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    make_streams();
    flag = gtest_flag();
    GTEST_CU(cuMemAlloc(&memory, N * sizeof(unsigned)));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    n_legacy = fakecuda_is_here() ? fakecuda_works(FAKECUDA_LEGACY) : 0;
    for (int busy = 0; busy < N_STREAMS; busy++)
        beside_a_kernel(busy, flag, memory);
    if (fakecuda_is_here())
        MTEST_CHECK(fakecuda_works(FAKECUDA_LEGACY) == n_legacy, "the driver's own default stream was used");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (is_reset)
        reset_beside_a_kernel(flag, memory);
    return mtest_end();
}
