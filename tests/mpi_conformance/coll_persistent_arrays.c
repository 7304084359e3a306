/* SPDX-License-Identifier: BSD-3-Clause */
/* A persistent vector collective still works when the program has dropped its arrays after the init call, as
 * real programs do. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Request requests[2];
    int *counts, *displs, *blocks;
    int *recvbuf, *sums, *contribution;
    int mine;

    mtest_init(&argc, &argv, 1);
    counts = malloc((size_t)mtest_size * sizeof *counts);
    displs = malloc((size_t)mtest_size * sizeof *displs);
    blocks = malloc((size_t)mtest_size * sizeof *blocks);
    recvbuf = calloc((size_t)mtest_size, sizeof *recvbuf);
    contribution = malloc((size_t)mtest_size * sizeof *contribution);
    sums = calloc(1, sizeof *sums);
    for (int i = 0; i < mtest_size; i++) {
        counts[i] = blocks[i] = 1;
        displs[i] = mtest_size - 1 - i;
        contribution[i] = mtest_rank + i;
    }
    mine = 10 * mtest_rank;
    MPI_Allgatherv_init(&mine, 1, MPI_INT, recvbuf, counts, displs, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                        &requests[0]);
    MPI_Reduce_scatter_init(contribution, sums, blocks, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                            &requests[1]);
    memset(counts, 0x55, (size_t)mtest_size * sizeof *counts);
    memset(displs, 0x55, (size_t)mtest_size * sizeof *displs);
    memset(blocks, 0x55, (size_t)mtest_size * sizeof *blocks);
    for (int round = 0; round < 3; round++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < mtest_size; i++)
            MTEST_CHECK(recvbuf[mtest_size - 1 - i] == 10 * i, "round %d: block %d is %d", round, i,
                        recvbuf[mtest_size - 1 - i]);
        MTEST_CHECK(*sums == mtest_size * (mtest_size - 1) / 2 + mtest_size * mtest_rank,
                    "round %d: the sum is %d", round, *sums);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    return mtest_end();
}
