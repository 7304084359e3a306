/* SPDX-License-Identifier: BSD-3-Clause */
/* Comm_split_type: ranks that share memory get one communicator, by key; MPI_UNDEFINED gets none. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Comm comm;
    int rank, size, sum = 0, one = 1;
    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -mtest_rank, MPI_INFO_NULL, &comm));
    MTEST_CHECK(comm != MPI_COMM_NULL, "no communicator");
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    MTEST_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    MTEST_CHECK(sum == size && size >= 1 && size <= mtest_size, "size %d, sum %d", size, sum);
    if (size == mtest_size)
        MTEST_CHECK(rank == mtest_size - 1 - mtest_rank, "the key is not obeyed: rank %d", rank);
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_OK(MPI_Comm_split_type(MPI_COMM_WORLD, mtest_rank ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, 0,
                                 MPI_INFO_NULL, &comm));
    MTEST_CHECK((comm == MPI_COMM_NULL) == (mtest_rank != 0), "MPI_UNDEFINED");
    if (comm != MPI_COMM_NULL)
        MTEST_OK(MPI_Comm_free(&comm));
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_CLASS(MPI_Comm_split_type(MPI_COMM_WORLD, -4711, 0, MPI_INFO_NULL, &comm), MPI_ERR_ARG);
    return mtest_end();
}
