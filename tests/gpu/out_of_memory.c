/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Without pinned memory a message between host and GPU is MPI_ERR_NO_MEM at both ends; the same message
 * arrives when memory is available again. On the fake driver.
 */
#include "device.h"
#include "fakecuda.h"

#define N_BYTES 100000

int main(int argc, char **argv)
{
    struct gtest_buffer buffer;
    static char image[N_BYTES];

    mtest_init(&argc, &argv, 2);
    gtest_init();
    if (!fakecuda_is_here())
        mtest_skip("this needs the fake driver");
    mtest_errors_return(MPI_COMM_WORLD);
    mtest_fill(image, N_BYTES, 4);
    buffer = gtest_alloc(GTEST_GPU0, N_BYTES, NULL);
    for (int fails = 1; fails >= 0; fails--) {
        int expected = fails ? MPI_ERR_NO_MEM : MPI_SUCCESS, got = MPI_SUCCESS;
        if (mtest_rank == 0 && fails)
            fakecuda_fail("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (mtest_rank == 0)
            got = MPI_Send(image, N_BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        else if (mtest_rank == 1)
            got = MPI_Recv(buffer.data, N_BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (mtest_rank < 2)
            MTEST_CHECK(mtest_class(got) == expected, "class %d, expected %d", mtest_class(got), expected);
    }
    if (mtest_rank == 1)
        MTEST_CHECK(gtest_differs(&buffer, image) == -1, "wrong data");
    gtest_free(&buffer);
    return mtest_end();
}
