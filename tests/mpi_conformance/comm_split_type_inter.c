/* SPDX-License-Identifier: BSD-3-Clause */
/* Comm_split_type of an intercommunicator: ranks of both groups that share memory get an intercommunicator;
 * ranks with MPI_UNDEFINED, and ranks without a partner on the other side, get none. */
#include "mtest.h"

static void check_exchange(MPI_Comm inter, int is_even)
{
    int remote, size, sum = 0, one = is_even ? 1 : 100;

    MTEST_OK(MPI_Comm_remote_size(inter, &remote));
    MTEST_OK(MPI_Comm_size(inter, &size));
    MTEST_CHECK(remote >= 1 && remote + size <= mtest_size, "%d and %d ranks", size, remote);
    MTEST_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter));
    MTEST_CHECK(sum == remote * (is_even ? 100 : 1), "the other group's sum is %d", sum);
}

int main(int argc, char **argv)
{
    MPI_Comm half, inter, comm;
    int is_even, flag;

    mtest_init(&argc, &argv, 2);
    is_even = mtest_rank % 2 == 0;
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, is_even, 0, &half));
    MTEST_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_even, 7, &inter));
    MTEST_OK(MPI_Comm_split_type(inter, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm));
    if (comm != MPI_COMM_NULL) { /* a node of its own has no other side */
        MTEST_OK(MPI_Comm_test_inter(comm, &flag));
        MTEST_CHECK(flag, "no intercommunicator");
        check_exchange(comm, is_even);
        MTEST_OK(MPI_Comm_free(&comm));
    }
    MTEST_OK(MPI_Comm_split_type(inter, MPI_UNDEFINED, 0, MPI_INFO_NULL, &comm));
    MTEST_CHECK(comm == MPI_COMM_NULL, "MPI_UNDEFINED everywhere");
    /* One group takes no part. */
    MTEST_OK(
        MPI_Comm_split_type(inter, is_even ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED, 0, MPI_INFO_NULL, &comm));
    MTEST_CHECK(comm == MPI_COMM_NULL, "nobody is on the other side");
    mtest_errors_return(inter);
    MTEST_CLASS(MPI_Comm_split_type(inter, MPI_COMM_TYPE_HW_UNGUIDED, 0, MPI_INFO_NULL, &comm), MPI_ERR_COMM);
    MTEST_OK(MPI_Comm_free(&inter));
    MTEST_OK(MPI_Comm_free(&half));
    return mtest_end();
}
