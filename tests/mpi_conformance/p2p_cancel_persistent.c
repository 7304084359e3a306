/* SPDX-License-Identifier: BSD-3-Clause */
/* Cancelling a started persistent receive ends that start only: the request can be started again. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Request request;
    MPI_Status status;
    int value = -1, flag;
    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Recv_init(&value, 1, MPI_INT, mtest_rank, 3, MPI_COMM_WORLD, &request));
    for (int round = 0; round < 3; round++) {
        MTEST_OK(MPI_Start(&request));
        MTEST_OK(MPI_Cancel(&request));
        MTEST_OK(MPI_Wait(&request, &status));
        MTEST_OK(MPI_Test_cancelled(&status, &flag));
        MTEST_CHECK(flag, "not cancelled");
        MTEST_CHECK(request != MPI_REQUEST_NULL, "the persistent request is gone");
        MTEST_OK(MPI_Start(&request));
        MTEST_OK(MPI_Send(&round, 1, MPI_INT, mtest_rank, 3, MPI_COMM_WORLD));
        MTEST_OK(MPI_Wait(&request, &status));
        MTEST_OK(MPI_Test_cancelled(&status, &flag));
        MTEST_CHECK(!flag && value == round, "round %d: cancelled %d, value %d", round, flag, value);
    }
    MTEST_OK(MPI_Request_free(&request));
    return mtest_end();
}
