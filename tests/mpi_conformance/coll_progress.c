/* SPDX-License-Identifier: BSD-3-Clause */
/* A nonblocking collective progresses while its ranks do other MPI work, and completes although some start it
 * late. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Request request;
    int flag, sum, token;
    mtest_init(&argc, &argv, 2);
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    for (int round = 0; round < 10; round++) {
        int late = round % mtest_size, total = mtest_size * (mtest_size - 1) / 2;
        /* The late rank starts after a token has gone around, which the others pass with the collective
         * pending. */
        if (mtest_rank != late)
            MTEST_OK(MPI_Iallreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
        if (mtest_rank == late) {
            token = round;
            MTEST_OK(MPI_Send(&token, 1, MPI_INT, next, 1, MPI_COMM_WORLD));
            MTEST_OK(MPI_Recv(&token, 1, MPI_INT, prev, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_CHECK(token == round + mtest_size - 1, "the token is %d", token);
            MTEST_OK(MPI_Iallreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
        } else {
            MTEST_OK(MPI_Recv(&token, 1, MPI_INT, prev, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
            MTEST_CHECK(!flag, "done before rank %d has started it", late);
            token++;
            MTEST_OK(MPI_Send(&token, 1, MPI_INT, next, 1, MPI_COMM_WORLD));
        }
        if (round % 2) {
            for (flag = 0; !flag;)
                MTEST_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        } else {
            MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        MTEST_CHECK(sum == total, "sum %d, expected %d", sum, total);
    }
    return mtest_end();
}
