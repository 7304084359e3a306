/* SPDX-License-Identifier: BSD-3-Clause */
/* Request_get_status reports a request's state without completing it; null and inactive requests give the
 * empty status. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    int value = -1, flag = 0, count;
    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Request_get_status(request, &flag, &status));
    MTEST_CHECK(flag && status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG, "null request");
    MTEST_OK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &request));
    flag = 1;
    MTEST_OK(MPI_Request_get_status(request, &flag, &status));
    MTEST_CHECK(!flag, "done without a message");
    int mine = 33;
    MTEST_OK(MPI_Send(&mine, 1, MPI_INT, mtest_rank, 2, MPI_COMM_WORLD));
    for (int i = 0; i < 3; i++) {
        for (flag = 0; !flag;)
            MTEST_OK(MPI_Request_get_status(request, &flag, &status));
        MPI_Get_count(&status, MPI_INT, &count);
        MTEST_CHECK(value == 33 && status.MPI_SOURCE == mtest_rank && status.MPI_TAG == 2 && count == 1,
                    "look %d: value %d source %d tag %d", i, value, status.MPI_SOURCE, status.MPI_TAG);
        MTEST_CHECK(request != MPI_REQUEST_NULL, "Request_get_status frees the request");
    }
    memset(&status, 0x55, sizeof status);
    MTEST_OK(MPI_Wait(&request, &status));
    MTEST_CHECK(status.MPI_TAG == 2 && request == MPI_REQUEST_NULL, "Wait after the looks: tag %d",
                status.MPI_TAG);
    MTEST_OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
    return mtest_end();
}
