/* SPDX-License-Identifier: BSD-3-Clause */
/* Mprobe and Improbe take a message out of matching; only Mrecv or Imrecv of its handle receives it. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Message first, second;
    MPI_Status status;
    MPI_Request request;
    int flag, count, value;
    static unsigned char big[200000];
    mtest_init(&argc, &argv, 2);
    mtest_errors_return(MPI_COMM_WORLD);
    if (mtest_rank == 0) {
        for (int i = 0; i < 4; i++)
            MTEST_OK(MPI_Send(&i, 1, MPI_INT, 1, 5, MPI_COMM_WORLD));
        mtest_fill(big, sizeof big, 9);
        MTEST_OK(MPI_Send(big, sizeof big, MPI_BYTE, 1, 6, MPI_COMM_WORLD));
        MTEST_OK(MPI_Ssend(big, sizeof big, MPI_BYTE, 1, 7, MPI_COMM_WORLD));
        MPI_Send(big, 100, MPI_BYTE, 1, 8, MPI_COMM_WORLD);
    } else if (mtest_rank == 1) {
        flag = 1;
        MTEST_OK(MPI_Improbe(0, 4711, MPI_COMM_WORLD, &flag, &first, &status));
        MTEST_CHECK(!flag, "Improbe finds a message that nobody sent");
        MTEST_OK(MPI_Mprobe(0, 5, MPI_COMM_WORLD, &first, &status));
        MPI_Get_count(&status, MPI_INT, &count);
        MTEST_CHECK(status.MPI_SOURCE == 0 && status.MPI_TAG == 5 && count == 1, "Mprobe: wrong status");
        for (flag = 0; !flag;)
            MTEST_OK(MPI_Improbe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, &second, &status));
        MTEST_CHECK(first != second, "the same handle for two messages");
        /* An ordinary receive gets the third; then the two taken out, in the other order. */
        MTEST_OK(MPI_Recv(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &status));
        MTEST_CHECK(value == 2, "Recv beside two matched messages got %d", value);
        MTEST_OK(MPI_Imrecv(&value, 1, MPI_INT, &second, &request));
        MTEST_CHECK(second == MPI_MESSAGE_NULL, "Imrecv leaves the message handle");
        MTEST_OK(MPI_Wait(&request, &status));
        MTEST_CHECK(value == 1 && status.MPI_TAG == 5, "Imrecv got %d", value);
        MTEST_OK(MPI_Mrecv(&value, 1, MPI_INT, &first, &status));
        MTEST_CHECK(first == MPI_MESSAGE_NULL && value == 0, "Mrecv got %d", value);
        MTEST_OK(MPI_Recv(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &status));
        MTEST_CHECK(value == 3, "the last one is %d", value);
        for (int tag = 6; tag < 8; tag++) {
            memset(big, 0, sizeof big);
            MTEST_OK(MPI_Mprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &first, &status));
            MPI_Get_count(&status, MPI_BYTE, &count);
            MTEST_CHECK(count == (int)sizeof big, "Mprobe says %d bytes", count);
            if (tag == 6) {
                MTEST_OK(MPI_Mrecv(big, count, MPI_BYTE, &first, &status));
            } else {
                MTEST_OK(MPI_Imrecv(big, count, MPI_BYTE, &first, &request));
                MTEST_OK(MPI_Wait(&request, &status));
            }
            MTEST_CHECK(mtest_differs(big, sizeof big, 9) < 0, "wrong data in a large matched message");
        }
        memset(big, 0xcd, sizeof big);
        MTEST_OK(MPI_Mprobe(0, 8, MPI_COMM_WORLD, &first, &status));
        MTEST_CLASS(MPI_Mrecv(big, 60, MPI_BYTE, &first, &status), MPI_ERR_TRUNCATE);
        MTEST_CHECK(mtest_touched(big + 60, 100, 0xcd) < 0, "a truncated Mrecv writes past its buffer");
    }
    return mtest_end();
}
