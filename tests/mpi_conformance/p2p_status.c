/* SPDX-License-Identifier: BSD-3-Clause */
/* Statuses: Get_count in other types, MPI_UNDEFINED for a fraction, MPI_ERROR untouched by single
 * completions. */
#include "mtest.h"

int main(int argc, char **argv)
{
    static char buf[64];
    MPI_Status status;
    MPI_Request request;
    int count;
    mtest_init(&argc, &argv, 1);
    for (int len = 0; len <= 24; len++) {
        memset(&status, 0, sizeof status);
        status.MPI_ERROR = -4711;
        MTEST_OK(MPI_Isend(buf, len, MPI_BYTE, mtest_rank, 1, MPI_COMM_WORLD, &request));
        MTEST_OK(MPI_Recv(buf + 32, 32, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        MTEST_CHECK(status.MPI_ERROR == -4711, "Recv sets MPI_ERROR to %d", status.MPI_ERROR);
        MTEST_OK(MPI_Get_count(&status, MPI_INT, &count));
        MTEST_CHECK(count == (len % 4 ? MPI_UNDEFINED : len / 4), "%d bytes are %d ints", len, count);
        MTEST_OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
        MTEST_CHECK(count == (len % 8 ? MPI_UNDEFINED : len / 8), "%d bytes are %d doubles", len, count);
        status.MPI_ERROR = -4712;
        MTEST_OK(MPI_Wait(&request, &status));
        MTEST_CHECK(status.MPI_ERROR == -4712, "Wait sets MPI_ERROR to %d", status.MPI_ERROR);
    }
    return mtest_end();
}
