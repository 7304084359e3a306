/* SPDX-License-Identifier: BSD-3-Clause
 *
 * With +gpu service:1000: small messages between ranks arrive while another rank, on the same PE or another,
 * repeatedly waits for the device, and allocates and frees its memory, and is served each time. The fake
 * driver also shows that the messages took no driver call.
 */
#include "device.h"
#include "fakecuda.h"

#define N_BYTES 2000
#define WAITS 30

static int copies_so_far(void)
{
    return fakecuda_is_here() ? fakecuda_calls("cuMemcpyAsync") + fakecuda_calls("cuMemcpyDtoDAsync") : 0;
}

/* Ranks 0 and 1, until rank 2 says that it is enough. */
static void exchange(void)
{
    struct gtest_buffer buffer = gtest_alloc(GTEST_GPU0, N_BYTES, NULL);
    int partner = 1 - mtest_rank, n_served = 0, is_over = 0, has_come = 0;
    char image[N_BYTES];

    for (int round = 0; !is_over; round++) {
        int before = copies_so_far();
        if (mtest_rank == 0) {
            if (round % 100 == 0) {
                mtest_fill(image, N_BYTES, (unsigned)round);
                gtest_set(&buffer, image);
            }
            MTEST_OK(MPI_Send(buffer.data, N_BYTES, MPI_BYTE, partner, 0, MPI_COMM_WORLD));
            MTEST_OK(MPI_Recv(buffer.data, N_BYTES, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else {
            MTEST_OK(MPI_Recv(buffer.data, N_BYTES, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_OK(MPI_Send(buffer.data, N_BYTES, MPI_BYTE, partner, 0, MPI_COMM_WORLD));
        }
        n_served += copies_so_far() == before;
        if (round % 100 != 99)
            continue;
        if (mtest_rank == 0) {
            long differs = gtest_differs(&buffer, image);
            MTEST_CHECK(differs == -1, "round %d: wrong at byte %ld", round, differs);
            if (!has_come)
                MTEST_OK(MPI_Iprobe(2, 1, MPI_COMM_WORLD, &has_come, MPI_STATUS_IGNORE));
            is_over = has_come && (!fakecuda_is_here() || n_served > 0);
        }
        MTEST_OK(mtest_rank == 0 ? MPI_Send(&is_over, 1, MPI_INT, 1, 1, MPI_COMM_WORLD)
                                 : MPI_Recv(&is_over, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    if (mtest_rank == 0)
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 2, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    gtest_free(&buffer);
}

static void wait_again_and_again(void)
{
    for (int i = 0; i < WAITS; i++) {
        CUdeviceptr memory = 0;
        int is_there;
        GTEST_CU(cuMemAlloc(&memory, (size_t)4 << 20));
        GTEST_CU(cuMemsetD8(memory, 1, 1000));
        GTEST_CU(cuCtxSynchronize());
        GTEST_CU(cuMemFree(memory));
        /* Lets the others run where all share a PE. */
        for (int j = 0; j < 100; j++)
            MTEST_OK(MPI_Iprobe(0, 7, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE));
    }
    MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 3);
    gtest_init();
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
    if (mtest_rank < 2)
        exchange();
    else if (mtest_rank == 2)
        wait_again_and_again();
    return mtest_end();
}
