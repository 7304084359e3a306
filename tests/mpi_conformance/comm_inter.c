/* SPDX-License-Identifier: BSD-3-Clause */
/* Intercommunicators: create, remote size and group, messages by remote rank, collectives, merge in both
 * orders. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Comm local, inter, dup, merged;
    MPI_Group remote;
    int rank, size, flag, remote_size, value, result;
    MPI_Status status;
    mtest_init(&argc, &argv, 2);
    int side = mtest_rank % 2, evens = (mtest_size + 1) / 2, odds = mtest_size / 2;
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, side, mtest_rank, &local));
    MPI_Comm_rank(local, &rank);
    MTEST_OK(MPI_Comm_test_inter(local, &flag));
    MTEST_CHECK(!flag, "a split is called an intercommunicator");
    MTEST_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 1 - side, 12, &inter));
    MTEST_OK(MPI_Comm_test_inter(inter, &flag));
    MTEST_CHECK(flag, "not an intercommunicator");
    MTEST_OK(MPI_Comm_size(inter, &size));
    MTEST_OK(MPI_Comm_remote_size(inter, &remote_size));
    MTEST_CHECK(size == (side ? odds : evens) && remote_size == (side ? evens : odds), "sizes %d and %d",
                size, remote_size);
    MTEST_OK(MPI_Comm_remote_group(inter, &remote));
    MTEST_OK(MPI_Group_size(remote, &value));
    MTEST_CHECK(value == remote_size, "remote group of %d", value);
    MTEST_OK(MPI_Group_free(&remote));
    MTEST_OK(MPI_Comm_compare(inter, local, &result));
    MTEST_CHECK(result == MPI_UNEQUAL, "inter and intra compare as %d", result);

    /* All ranks to all ranks of the other side; the numbers are ranks of the other side. */
    for (int round = 0; round < 2; round++) {
        MPI_Comm comm = inter;
        if (round)
            MTEST_OK(MPI_Comm_dup(inter, &dup));
        if (round)
            comm = dup;
        MPI_Request *requests = mtest_alloc((size_t)remote_size * sizeof *requests);
        for (int i = 0; i < remote_size; i++)
            MTEST_OK(MPI_Isend(&mtest_rank, 1, MPI_INT, i, 3, comm, &requests[i]));
        for (int i = 0; i < remote_size; i++) {
            MTEST_OK(MPI_Recv(&value, 1, MPI_INT, round ? MPI_ANY_SOURCE : i, 3, comm, &status));
            MTEST_CHECK(value == status.MPI_SOURCE * 2 + 1 - side, "source %d is world rank %d",
                        status.MPI_SOURCE, value);
        }
        MTEST_OK(MPI_Waitall(remote_size, requests, MPI_STATUSES_IGNORE));
        free(requests);
        MTEST_OK(MPI_Barrier(comm));
        int sum = 0, want = 0;
        MTEST_OK(MPI_Allreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, comm));
        for (int i = 1 - side; i < mtest_size; i += 2)
            want += i;
        MTEST_CHECK(sum == want, "Allreduce brings %d, the other side's sum is %d", sum, want);
        value = side == 0 && rank == 0 ? 99 : -1;
        MTEST_OK(MPI_Bcast(&value, 1, MPI_INT, side == 0 ? (rank == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0, comm));
        MTEST_CHECK(value == (side == 1 || rank == 0 ? 99 : -1), "Bcast brings %d", value);
        if (round)
            MTEST_OK(MPI_Comm_free(&dup));
    }
    for (int high = 0; high < 2; high++) {
        MTEST_OK(MPI_Intercomm_merge(inter, side == high, &merged));
        MPI_Comm_size(merged, &size);
        MPI_Comm_rank(merged, &value);
        /* The side that says "high" comes second. */
        int want = rank + (side == high ? (side ? evens : odds) : 0);
        MTEST_CHECK(size == mtest_size && value == want, "merged: rank %d of %d, expected %d", value, size,
                    want);
        MTEST_OK(MPI_Barrier(merged));
        MTEST_OK(MPI_Comm_free(&merged));
    }
    mtest_errors_return(inter);
    MTEST_CLASS(MPI_Send(&value, 1, MPI_INT, remote_size, 0, inter), MPI_ERR_RANK);
    MTEST_OK(MPI_Comm_free(&inter));
    MTEST_OK(MPI_Comm_free(&local));
    return mtest_end();
}
