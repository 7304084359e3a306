/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A small message whose receiver is about to receive it is copied straight from buffer to buffer: on one PE,
 * ready ranks run before the data is fetched into host memory. Counted on the fake driver.
 */
#include "device.h"
#include "fakecuda.h"

#define N_BYTES 64
#define ROUNDS 10

static int count_copies(void)
{
    return fakecuda_calls("cuMemcpyAsync") + fakecuda_calls("cuMemcpyDtoDAsync");
}

int main(int argc, char **argv)
{
    struct gtest_buffer buffer;
    char image[N_BYTES];
    int before = 0, go = 1;
    long differs;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    buffer = gtest_alloc(mtest_rank % 2 ? GTEST_GPU1 : GTEST_GPU0, N_BYTES, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        mtest_fill(image, N_BYTES, (unsigned)round);
        if (mtest_rank == 0)
            gtest_set(&buffer, image);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (mtest_rank == 0 && fakecuda_is_here())
            before = count_copies();
        if (mtest_rank == 0) {
            MPI_Request request;
            MTEST_OK(MPI_Isend(buffer.data, N_BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request));
            MTEST_OK(MPI_Send(&go, 1, MPI_INT, 1, 1, MPI_COMM_WORLD));
            MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            if (fakecuda_is_here() && gtest_n_devices > 1)
                MTEST_CHECK(count_copies() - before == 1, "%d copies for one message",
                            count_copies() - before);
        } else if (mtest_rank == 1) {
            MTEST_OK(MPI_Recv(&go, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_OK(MPI_Recv(buffer.data, N_BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            differs = gtest_differs(&buffer, image);
            MTEST_CHECK(differs == -1, "round %d: wrong at byte %ld", round, differs);
        }
    }
    gtest_free(&buffer);
    return mtest_end();
}
