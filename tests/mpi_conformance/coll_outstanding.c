/* SPDX-License-Identifier: BSD-3-Clause */
/* Many nonblocking collectives at once on one communicator, beside point-to-point with any tag, completed in
 * any order. */
#include "mtest.h"

enum { N = 40, LEN = 300 };

static int sums[N], bcasts[N][LEN], values[N], gathers[N][256];

int main(int argc, char **argv)
{
    MPI_Request requests[3 * N + 2];
    mtest_init(&argc, &argv, 1);
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size, got = -1;
    for (int round = 0; round < 3; round++) {
        MTEST_OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[3 * N]));
        for (int i = 0; i < N; i++) {
            values[i] = mtest_rank + i;
            for (int j = 0; j < LEN; j++)
                bcasts[i][j] = mtest_rank == i % mtest_size ? i + j : -1;
            MTEST_OK(
                MPI_Iallreduce(&values[i], &sums[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[3 * i]));
            MTEST_OK(
                MPI_Ibcast(bcasts[i], LEN, MPI_INT, i % mtest_size, MPI_COMM_WORLD, &requests[3 * i + 1]));
            MTEST_OK(MPI_Iallgather(&values[i], 1, MPI_INT, gathers[i], 1, MPI_INT, MPI_COMM_WORLD,
                                    &requests[3 * i + 2]));
        }
        MTEST_OK(MPI_Isend(&mtest_rank, 1, MPI_INT, next, 0, MPI_COMM_WORLD, &requests[3 * N + 1]));
        /* A blocking collective in the middle of them. */
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (round == 0) {
            MTEST_OK(MPI_Waitall(3 * N + 2, requests, MPI_STATUSES_IGNORE));
        } else if (round == 1) { /* every rank in another order */
            for (int i = 0; i < 3 * N + 2; i++)
                MTEST_OK(MPI_Wait(&requests[(i * 7 + mtest_rank * 5) % (3 * N + 2)], MPI_STATUS_IGNORE));
        } else {
            for (int index = 0; index != MPI_UNDEFINED;)
                MTEST_OK(MPI_Waitany(3 * N + 2, requests, &index, MPI_STATUS_IGNORE));
        }
        MTEST_CHECK(got == prev, "the message beside the collectives: %d", got);
        for (int i = 0; i < N; i++) {
            MTEST_CHECK(sums[i] == mtest_size * (mtest_size - 1) / 2 + mtest_size * i, "sum %d is %d", i,
                        sums[i]);
            for (int j = 0; j < LEN; j++)
                if (bcasts[i][j] != i + j) {
                    MTEST_CHECK(0, "bcast %d element %d is %d", i, j, bcasts[i][j]);
                    break;
                }
            for (int r = 0; r < mtest_size && r < 256; r++)
                MTEST_CHECK(gathers[i][r] == r + i, "allgather %d element %d is %d", i, r, gathers[i][r]);
        }
    }
    return mtest_end();
}
