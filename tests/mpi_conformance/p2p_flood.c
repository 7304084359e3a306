/* SPDX-License-Identifier: BSD-3-Clause */
/* 100,000 unexpected messages are kept in order, and can be received from both ends of the tags. */
#include "mtest.h"

enum { DEFAULT = 100000 };

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    int n = argc > 1 ? atoi(argv[1]) : DEFAULT, token = 0;
    for (int round = 0; round < 2; round++) {
        if (mtest_rank == 0) {
            for (int i = 0; i < n; i++)
                MTEST_OK(MPI_Send(&i, 1, MPI_INT, 1, round ? i % 100 : 7, MPI_COMM_WORLD));
            MTEST_OK(MPI_Send(&token, 1, MPI_INT, 1, 1000, MPI_COMM_WORLD));
            MTEST_OK(MPI_Recv(&token, 1, MPI_INT, 1, 1001, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else if (mtest_rank == 1) {
            int got = -1;
            MTEST_OK(MPI_Recv(&token, 1, MPI_INT, 0, 1000, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (int i = 0; i < n; i++) {
                int expected = i;
                if (round) { /* tag 99 first, its messages in order, then tag 98 ... */
                    int per_tag = n / 100, tag = 99 - i / per_tag;
                    expected = i % per_tag * 100 + tag;
                    MTEST_OK(MPI_Recv(&got, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                } else {
                    MTEST_OK(MPI_Recv(&got, 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : 0, i % 3 ? 7 : MPI_ANY_TAG,
                                      MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                }
                MTEST_CHECK(got == expected, "round %d: got %d, expected %d", round, got, expected);
            }
            MTEST_OK(MPI_Send(&token, 1, MPI_INT, 0, 1001, MPI_COMM_WORLD));
        }
    }
    return mtest_end();
}
