/* SPDX-License-Identifier: BSD-3-Clause */
/* Comm_idup works in the background, several at once, and beside other messages. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Comm dups[4];
    MPI_Request requests[4];
    int value;
    mtest_init(&argc, &argv, 1);
    for (int i = 0; i < 4; i++)
        MTEST_OK(MPI_Comm_idup(MPI_COMM_WORLD, &dups[i], &requests[i]));
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    MTEST_OK(MPI_Sendrecv(&mtest_rank, 1, MPI_INT, next, 0, &value, 1, MPI_INT, prev, 0, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
    MTEST_CHECK(value == prev, "got %d", value);
    MTEST_OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 4; i++) {
        int result, sum;
        MTEST_OK(MPI_Comm_compare(MPI_COMM_WORLD, dups[i], &result));
        MTEST_CHECK(result == MPI_CONGRUENT, "dup %d: %d", i, result);
        MTEST_OK(MPI_Allreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, dups[i]));
        MTEST_CHECK(sum == mtest_size * (mtest_size - 1) / 2, "sum %d on dup %d", sum, i);
        MTEST_OK(MPI_Comm_free(&dups[i]));
    }
    return mtest_end();
}
