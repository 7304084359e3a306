/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The resident kernel is on by default, but not if several processes share a GPU ("unused"). On the fake
 * driver, launches are counted: small messages need no other kernel.
 */
#include <string.h>

#include "device.h"
#include "fakecuda.h"

#define N_BYTES 1000
#define ROUNDS 300
#define WAIT_S 100

/* One message at a time, and one pair at a time: copies that start together are one launch. */
static void trip(void *buffer)
{
    for (int first = 0; first + 1 < mtest_size; first += 2) {
        for (int from = first; from < first + 2; from++)
            if (mtest_rank == from)
                MTEST_OK(MPI_Send(buffer, N_BYTES, MPI_BYTE, from ^ 1, 0, MPI_COMM_WORLD));
            else if (mtest_rank == (from ^ 1))
                MTEST_OK(MPI_Recv(buffer, N_BYTES, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
}

int main(int argc, char **argv)
{
    struct gtest_buffer buffer;
    int is_used = 1;
    double until_s;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    if (!fakecuda_is_here())
        mtest_skip("only the fake driver counts launches");
    is_used = argc < 2 || strcmp(argv[1], "unused") != 0;
    buffer = gtest_alloc(GTEST_GPU0, N_BYTES, NULL);
    until_s = MPI_Wtime() + WAIT_S;
    for (int round = 0, is_over = 0; !is_over; round++) {
        trip(buffer.data);
        /* On a machine under load it takes some time until two follow each other soon enough. */
        is_over =
            round >= ROUNDS && (!is_used || fakecuda_calls("cuLaunchKernel") > 0 || MPI_Wtime() > until_s);
        MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, &is_over, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    }
    MTEST_CHECK((fakecuda_calls("cuLaunchKernel") > 0) == is_used, "%d launches",
                fakecuda_calls("cuLaunchKernel"));
    gtest_free(&buffer);
    return mtest_end();
}
