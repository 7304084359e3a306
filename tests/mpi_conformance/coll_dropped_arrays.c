/* SPDX-License-Identifier: BSD-3-Clause */
/* A vector collective that is nonblocking or persistent still works if the program frees its arrays after the
 * call, as real programs do (mpi4py among them), although the standard forbids it. */
#include "mtest.h"

enum { ALLGATHERV, REDUCE_SCATTER, ALLTOALLW, N_CALLS };

static int *counts, *displs, *blocks, *byte_displs;
static MPI_Datatype *types;
static int *recvbuf, *sums, *contribution, *swapped;
static int mine;

static void call_persistent(MPI_Request *requests)
{
    MPI_Allgatherv_init(&mine, 1, MPI_INT, recvbuf, counts, displs, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                        &requests[ALLGATHERV]);
    MPI_Reduce_scatter_init(contribution, sums, blocks, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                            &requests[REDUCE_SCATTER]);
    MPI_Alltoallw_init(contribution, blocks, byte_displs, types, swapped, blocks, byte_displs, types,
                       MPI_COMM_WORLD, MPI_INFO_NULL, &requests[ALLTOALLW]);
}

static void call_nonblocking(MPI_Request *requests)
{
    MPI_Iallgatherv(&mine, 1, MPI_INT, recvbuf, counts, displs, MPI_INT, MPI_COMM_WORLD,
                    &requests[ALLGATHERV]);
    MPI_Ireduce_scatter(contribution, sums, blocks, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                        &requests[REDUCE_SCATTER]);
    MPI_Ialltoallw(contribution, blocks, byte_displs, types, swapped, blocks, byte_displs, types,
                   MPI_COMM_WORLD, &requests[ALLTOALLW]);
}

static void *array(size_t each_bytes)
{
    return calloc((size_t)mtest_size, each_bytes);
}

static void fill_arrays(void)
{
    for (int i = 0; i < mtest_size; i++) {
        counts[i] = blocks[i] = 1;
        displs[i] = mtest_size - 1 - i;
        byte_displs[i] = i * (int)sizeof(int);
        types[i] = MPI_INT;
    }
}

static void spoil_arrays(void)
{
    memset(counts, 0x55, (size_t)mtest_size * sizeof *counts);
    memset(displs, 0x55, (size_t)mtest_size * sizeof *displs);
    memset(blocks, 0x55, (size_t)mtest_size * sizeof *blocks);
    memset(byte_displs, 0x55, (size_t)mtest_size * sizeof *byte_displs);
    memset(types, 0x55, (size_t)mtest_size * sizeof *types);
}

static void check_results(int round)
{
    for (int i = 0; i < mtest_size; i++) {
        MTEST_CHECK(recvbuf[mtest_size - 1 - i] == 10 * i, "round %d: block %d is %d", round, i,
                    recvbuf[mtest_size - 1 - i]);
        MTEST_CHECK(swapped[i] == mtest_rank + i, "round %d: %d from rank %d", round, swapped[i], i);
    }
    MTEST_CHECK(*sums == mtest_size * (mtest_size - 1) / 2 + mtest_size * mtest_rank,
                "round %d: the sum is %d", round, *sums);
}

int main(int argc, char **argv)
{
    MPI_Request requests[N_CALLS];
    int is_persistent;

    mtest_init(&argc, &argv, 1);
    is_persistent = argc > 1 && strcmp(argv[1], "persistent") == 0;
    counts = array(sizeof *counts);
    displs = array(sizeof *displs);
    blocks = array(sizeof *blocks);
    byte_displs = array(sizeof *byte_displs);
    types = array(sizeof *types);
    recvbuf = array(sizeof *recvbuf);
    contribution = array(sizeof *contribution);
    swapped = array(sizeof *swapped);
    sums = array(sizeof *sums);
    mine = 10 * mtest_rank;
    for (int i = 0; i < mtest_size; i++)
        contribution[i] = mtest_rank + i;
    if (is_persistent) {
        fill_arrays();
        call_persistent(requests);
        spoil_arrays();
    }
    for (int round = 0; round < 3; round++) {
        if (is_persistent) {
            MPI_Startall(N_CALLS, requests);
        } else {
            fill_arrays();
            call_nonblocking(requests);
            spoil_arrays();
        }
        MPI_Waitall(N_CALLS, requests, MPI_STATUSES_IGNORE);
        check_results(round);
        memset(recvbuf, 0, (size_t)mtest_size * sizeof *recvbuf);
        memset(swapped, 0, (size_t)mtest_size * sizeof *swapped);
        *sums = 0;
        MPI_Barrier(MPI_COMM_WORLD); /* the others have checked, too */
    }
    for (int i = 0; i < N_CALLS && is_persistent; i++)
        MPI_Request_free(&requests[i]);
    return mtest_end();
}
