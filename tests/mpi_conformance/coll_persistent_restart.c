/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent collectives are started many times, several at once, each time with the buffer's current
 * contents. */
#include "mtest.h"

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
#if MPI_VERSION >= 4
    static int value[2], sum[2], all[256], mine;
    MPI_Request requests[4];
    MPI_Comm comm;
    int total = mtest_size * (mtest_size - 1) / 2;
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MTEST_OK(MPI_Allreduce_init(value, sum, 2, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[0]));
    MTEST_OK(MPI_Allgather_init(&mine, 1, MPI_INT, all, 1, MPI_INT, comm, MPI_INFO_NULL, &requests[1]));
    static int word;
    MTEST_OK(MPI_Bcast_init(&word, 1, MPI_INT, mtest_size - 1, comm, MPI_INFO_NULL, &requests[2]));
    MTEST_OK(MPI_Barrier_init(comm, MPI_INFO_NULL, &requests[3]));
    for (int round = 0; round < 30; round++) {
        value[0] = mtest_rank + round;
        value[1] = round;
        mine = mtest_rank * 100 + round;
        word = mtest_rank == mtest_size - 1 ? round * round : -1;
        if (round % 2) {
            MTEST_OK(MPI_Startall(4, requests));
        } else {
            for (int i = 0; i < 4; i++)
                MTEST_OK(MPI_Start(&requests[i]));
        }
        MTEST_OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
        MTEST_CHECK(sum[0] == total + round * mtest_size && sum[1] == round * mtest_size,
                    "round %d: sums %d %d", round, sum[0], sum[1]);
        for (int r = 0; r < mtest_size && r < 256; r++)
            MTEST_CHECK(all[r] == r * 100 + round, "round %d: block %d is %d", round, r, all[r]);
        MTEST_CHECK(word == round * round, "round %d: bcast %d", round, word);
    }
    for (int i = 0; i < 4; i++)
        MTEST_OK(MPI_Request_free(&requests[i]));
    MTEST_OK(MPI_Comm_free(&comm));
#else
    mtest_skip("persistent collectives need MPI 4");
#endif
    return mtest_end();
}
