/* SPDX-License-Identifier: BSD-3-Clause */
/* ANY_SOURCE receives take messages of all ranks, each rank's in order and each exactly once. */
#include "mtest.h"

enum { PER_RANK = 200 };

static int next_of[4096]; /* the number expected next from each rank */

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    /* Rank 0 is flooded by all, itself included; then the same with ANY_TAG and different tags. */
    for (int round = 0; round < 2; round++) {
        MPI_Request requests[PER_RANK];
        int numbers[PER_RANK][2];
        for (int i = 0; i < PER_RANK; i++) {
            numbers[i][0] = mtest_rank;
            numbers[i][1] = i;
            MTEST_OK(MPI_Isend(numbers[i], 2, MPI_INT, 0, round ? i % 5 : 9, MPI_COMM_WORLD, &requests[i]));
        }
        if (mtest_rank == 0) {
            memset(next_of, 0, sizeof next_of);
            for (int i = 0; i < PER_RANK * mtest_size; i++) {
                int got[2] = {-1, -1};
                MPI_Status status;
                MTEST_OK(MPI_Recv(got, 2, MPI_INT, MPI_ANY_SOURCE, round ? MPI_ANY_TAG : 9, MPI_COMM_WORLD,
                                  &status));
                MTEST_CHECK(got[0] == status.MPI_SOURCE, "status says source %d, data says %d",
                            status.MPI_SOURCE, got[0]);
                MTEST_CHECK(got[0] >= 0 && got[0] < mtest_size && got[1] == next_of[got[0]],
                            "message %d of rank %d out of order", got[1], got[0]);
                if (got[0] >= 0 && got[0] < mtest_size)
                    next_of[got[0]]++;
                MTEST_CHECK(status.MPI_TAG == (round ? got[1] % 5 : 9), "tag %d of message %d",
                            status.MPI_TAG, got[1]);
            }
        }
        MTEST_OK(MPI_Waitall(PER_RANK, requests, MPI_STATUSES_IGNORE));
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    /* Nothing may be left. */
    int flag = 1;
    MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    MTEST_CHECK(!flag, "a message too many");
    return mtest_end();
}
