/* SPDX-License-Identifier: BSD-3-Clause */
/* A cancelled receive ends as cancelled and takes no message; one that has matched completes normally. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Request request, later;
    MPI_Status status;
    int value = -1, other = -1, flag;
    mtest_init(&argc, &argv, 1);
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int round = 0; round < 4; round++) {
        int source = round & 1 ? MPI_ANY_SOURCE : prev, tag = round & 2 ? MPI_ANY_TAG : 6;
        MTEST_OK(MPI_Irecv(&value, 1, MPI_INT, source, tag, MPI_COMM_WORLD, &request));
        MTEST_OK(MPI_Irecv(&other, 1, MPI_INT, prev, 6, MPI_COMM_WORLD, &later));
        MTEST_OK(MPI_Cancel(&request));
        MTEST_CHECK(request != MPI_REQUEST_NULL, "Cancel frees the request");
        MTEST_OK(MPI_Wait(&request, &status));
        flag = 0;
        MTEST_OK(MPI_Test_cancelled(&status, &flag));
        MTEST_CHECK(flag, "round %d: not cancelled", round);
        MTEST_CHECK(request == MPI_REQUEST_NULL, "Wait leaves the cancelled request");
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD)); /* no rank sends before all have cancelled */
        int mine = 10 * mtest_rank + round;
        MTEST_OK(MPI_Send(&mine, 1, MPI_INT, next, 6, MPI_COMM_WORLD));
        MTEST_OK(MPI_Wait(&later, &status));
        MTEST_OK(MPI_Test_cancelled(&status, &flag));
        MTEST_CHECK(!flag && other == 10 * prev + round, "round %d: the receive behind got %d", round, other);
        MTEST_CHECK(value == -1, "the cancelled receive got %d", value);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    /* Too late: the message is there already. Either way exactly one receive gets it. */
    int mine = 5;
    MTEST_OK(MPI_Irecv(&value, 1, MPI_INT, mtest_rank, 8, MPI_COMM_WORLD, &request));
    MTEST_OK(MPI_Send(&mine, 1, MPI_INT, mtest_rank, 8, MPI_COMM_WORLD));
    MTEST_OK(MPI_Cancel(&request));
    MTEST_OK(MPI_Wait(&request, &status));
    MTEST_OK(MPI_Test_cancelled(&status, &flag));
    if (flag)
        MTEST_OK(MPI_Recv(&value, 1, MPI_INT, mtest_rank, 8, MPI_COMM_WORLD, &status));
    MTEST_CHECK(value == 5, "the message was lost: %d", value);
    return mtest_end();
}
