/* SPDX-License-Identifier: BSD-3-Clause */
/* Comm_create and Comm_create_group create communicators from groups; other ranks get MPI_COMM_NULL or need
 * not call. */
#include "mtest.h"

static void ring(MPI_Comm comm, int first_value)
{
    int rank, size, sum = 0, value;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    value = first_value + rank;
    MTEST_OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm));
    MTEST_CHECK(sum == size * first_value + size * (size - 1) / 2, "sum is %d", sum);
}

int main(int argc, char **argv)
{
    MPI_Group world, odd, half;
    MPI_Comm comm;
    int rank;
    mtest_init(&argc, &argv, 2);
    MTEST_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    MTEST_OK(MPI_Group_range_incl(
        world, 1, (int[1][3]){{mtest_size % 2 ? mtest_size - 2 : mtest_size - 1, 1, -2}}, &odd));
    MTEST_OK(MPI_Comm_create(MPI_COMM_WORLD, odd, &comm));
    if (mtest_rank % 2) {
        MPI_Comm_rank(comm, &rank);
        MTEST_CHECK(rank == mtest_size / 2 - 1 - mtest_rank / 2, "rank %d in the reversed group", rank);
        ring(comm, 10);
        MTEST_OK(MPI_Comm_free(&comm));
    } else {
        MTEST_CHECK(comm == MPI_COMM_NULL, "a rank outside the group got a communicator");
    }
    /* Disjoint groups in one call. */
    int low = mtest_rank < mtest_size / 2;
    MTEST_OK(MPI_Group_range_incl(world, 1,
                                  low ? (int[1][3]){{0, mtest_size / 2 - 1, 1}}
                                      : (int[1][3]){{mtest_size / 2, mtest_size - 1, 1}},
                                  &half));
    MTEST_OK(MPI_Comm_create(MPI_COMM_WORLD, half, &comm));
    MTEST_CHECK(comm != MPI_COMM_NULL, "no communicator for a half");
    ring(comm, 100);
    MTEST_OK(MPI_Comm_free(&comm));
    /* Only the members call; twice with different tags. */
    if (low) {
        for (int tag = 0; tag < 2; tag++) {
            MTEST_OK(MPI_Comm_create_group(MPI_COMM_WORLD, half, tag, &comm));
            ring(comm, 1000);
            MTEST_OK(MPI_Comm_free(&comm));
        }
    }
    MTEST_OK(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &comm));
    MTEST_CHECK(comm == MPI_COMM_NULL, "the empty group got a communicator");
    MTEST_OK(MPI_Group_free(&odd));
    MTEST_OK(MPI_Group_free(&half));
    MTEST_OK(MPI_Group_free(&world));
    return mtest_end();
}
