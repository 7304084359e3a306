/* SPDX-License-Identifier: BSD-3-Clause */
/* Thousands of collectives that wait for earlier ones start and end on a stack of the smallest size. */
#include "mtest.h"

enum { N = 3000, ROUNDS = 3 };

static int values[N], sums[N];
static MPI_Request requests[2 * N];

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++) {
            values[i] = mtest_rank == i % mtest_size ? i : -1;
            MTEST_OK(MPI_Ibcast(&values[i], 1, MPI_INT, i % mtest_size, MPI_COMM_WORLD, &requests[2 * i]));
            MTEST_OK(MPI_Iallreduce(&mtest_rank, &sums[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                                    &requests[2 * i + 1]));
        }
        MTEST_OK(MPI_Waitall(2 * N, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < N; i++)
            MTEST_CHECK(values[i] == i && sums[i] == mtest_size * (mtest_size - 1) / 2,
                        "operation %d of round %d: %d, %d", i, round, values[i], sums[i]);
    }
    return mtest_end();
}
