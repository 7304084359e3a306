/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Streams that are destroyed with unfinished work leave nothing behind when that is done, also if the default stream is
 * never used; and cuCtxSynchronize waits for their work.
 */
#include "kernels.h"

#define ROUNDS 200

static int n_events(void)
{
    return fakecuda_is_here() ? fakecuda_calls("cuEventCreate") - fakecuda_calls("cuEventDestroy") : 0;
}

/* The flag is set by the work itself: the previous stream's, so that some streams are done and some are not. */
int main(int argc, char **argv)
{
    CUdeviceptr sum;
    CUstream stream;
    unsigned got = 0;
    int before;

    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    GTEST_CU(cuMemAlloc(&sum, 64));
    GTEST_CU(cuMemsetD32(sum, 0, 16));
    GTEST_CU(cuCtxSynchronize());
    before = n_events();
    for (int i = 0; i < ROUNDS; i++) {
        GTEST_CU(cuStreamCreate(&stream, i % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
        gtest_launch_update(sum, 1, 1, 1, stream);
        GTEST_CU(cuStreamDestroy(stream));
        if (i % 4 == 3)
            GTEST_CU(cuCtxSynchronize());
    }
    MTEST_CHECK(n_events() - before < ROUNDS * mtest_size / 4, "%d events are left", n_events() - before);
    GTEST_CU(cuMemcpyDtoH(&got, sum, sizeof got));
    MTEST_CHECK(got > 0 && got <= ROUNDS, "%u additions", got);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return mtest_end();
}
