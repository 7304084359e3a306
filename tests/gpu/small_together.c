/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Small messages that start together are one launch although the resident kernel is on, and do not call it. On the
 * fake driver, which counts, on one PE.
 */
#include "device.h"
#include "fakecuda.h"

#define N_BYTES 512
#define MESSAGES 8
#define ROUNDS 50

static int copies_so_far(void)
{
    return fakecuda_calls("cuMemcpyAsync") + fakecuda_calls("cuMemcpyDtoDAsync");
}

int main(int argc, char **argv)
{
    struct gtest_buffer out, in;
    char image[MESSAGES * N_BYTES];
    int partner, copies, launches;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    if (!fakecuda_is_here())
        mtest_skip("only the fake driver counts launches");
    partner = mtest_rank ^ 1;
    out = gtest_alloc(GTEST_GPU0, sizeof image, NULL);
    in = gtest_alloc(GTEST_GPU0, sizeof image, NULL);
    mtest_fill(image, sizeof image, 7);
    gtest_set(&out, image);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    copies = copies_so_far();
    launches = fakecuda_calls("cuLaunchKernel");
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[2 * MESSAGES];
        for (int i = 0; i < MESSAGES; i++) {
            MTEST_OK(MPI_Irecv((char *)in.data + i * N_BYTES, N_BYTES, MPI_BYTE, partner, i, MPI_COMM_WORLD,
                               &requests[2 * i]));
            MTEST_OK(MPI_Isend((char *)out.data + i * N_BYTES, N_BYTES, MPI_BYTE, partner, i, MPI_COMM_WORLD,
                               &requests[2 * i + 1]));
        }
        MTEST_OK(MPI_Waitall(2 * MESSAGES, requests, MPI_STATUSES_IGNORE));
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    copies = copies_so_far() - copies;
    launches = fakecuda_calls("cuLaunchKernel") - launches;
    MTEST_CHECK(copies <= MESSAGES && launches <= 2 * ROUNDS, "%d copies and %d launches", copies, launches);
    MTEST_CHECK(gtest_differs(&in, image) == -1, "wrong data");
    gtest_free(&out);
    gtest_free(&in);
    return mtest_end();
}
