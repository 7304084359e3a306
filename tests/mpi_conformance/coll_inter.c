/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on an intercommunicator: gather, scatter, allgather, alltoall, reduce, reduce_scatter between
 * groups. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Comm local, inter;
    int rank, size, remote, in[512], out[512], want = 0;
    mtest_init(&argc, &argv, 2);
    int side = mtest_rank % 2;
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, side, mtest_rank, &local));
    MTEST_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 1 - side, 1, &inter));
    MPI_Comm_rank(inter, &rank);
    MPI_Comm_size(inter, &size);
    MPI_Comm_remote_size(inter, &remote);
    /* Rank i of the other side is world rank 2 i + other. */
    int other = 1 - side, to_zero = side == 1 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    for (int i = 0; i < 512; i++)
        in[i] = -1;
    MTEST_OK(MPI_Gather(&mtest_rank, 1, MPI_INT, in, 1, MPI_INT, to_zero, inter));
    for (int i = 0; to_zero == MPI_ROOT && i < remote; i++)
        MTEST_CHECK(in[i] == 2 * i + 1, "gather: %d from %d", in[i], i);
    for (int i = 0; i < remote; i++)
        out[i] = 100 + i;
    in[0] = -1;
    MTEST_OK(MPI_Scatter(out, 1, MPI_INT, in, 1, MPI_INT, to_zero, inter));
    MTEST_CHECK(side == 0 || in[0] == 100 + rank, "scatter: %d", in[0]);
    MTEST_OK(MPI_Allgather(&mtest_rank, 1, MPI_INT, in, 1, MPI_INT, inter));
    for (int i = 0; i < remote; i++) {
        MTEST_CHECK(in[i] == 2 * i + other, "allgather: %d from %d", in[i], i);
        out[i] = mtest_rank * 1000 + i;
        want += 2 * i + other;
    }
    MTEST_OK(MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, inter));
    for (int i = 0; i < remote; i++)
        MTEST_CHECK(in[i] == (2 * i + other) * 1000 + rank, "alltoall: %d from %d", in[i], i);
    in[0] = -1;
    MTEST_OK(MPI_Reduce(&mtest_rank, in, 1, MPI_INT, MPI_SUM, to_zero, inter));
    MTEST_CHECK(to_zero != MPI_ROOT || in[0] == want, "reduce: %d, expected %d", in[0], want);
    /* The sum over one side is spread over the other: both sides need the same number of elements. */
    int per_rank = remote, total = size * remote;
    for (int i = 0; i < total && i < 512; i++)
        out[i] = mtest_rank + i;
    if (total <= 512) {
        MTEST_OK(MPI_Reduce_scatter_block(out, in, per_rank, MPI_INT, MPI_SUM, inter));
        for (int i = 0; i < per_rank; i++)
            MTEST_CHECK(in[i] == want + remote * (rank * per_rank + i),
                        "reduce_scatter_block: element %d is %d", i, in[i]);
    }
    MTEST_OK(MPI_Comm_free(&inter));
    MTEST_OK(MPI_Comm_free(&local));
    return mtest_end();
}
