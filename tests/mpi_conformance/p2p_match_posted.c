/* SPDX-License-Identifier: BSD-3-Clause */
/* A message goes to the receive that was posted first among those that match, wildcard or not, in all
 * orders. */
#include "mtest.h"

enum { RECVS = 4, MESSAGES = 4 };

/* Four kinds of receives in every order; all messages come from one rank, with tag 3. */
static int source_of(int kind)
{
    return kind & 1 ? MPI_ANY_SOURCE : 0;
}

static int tag_of(int kind)
{
    return kind & 2 ? MPI_ANY_TAG : 3;
}

static void receive_in_order(const int *kinds)
{
    MPI_Request requests[RECVS];
    int got[RECVS];
    for (int i = 0; i < RECVS; i++) {
        got[i] = -1;
        MTEST_OK(MPI_Irecv(&got[i], 1, MPI_INT, source_of(kinds[i]), tag_of(kinds[i]), MPI_COMM_WORLD,
                           &requests[i]));
    }
    MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD));
    MTEST_OK(MPI_Waitall(RECVS, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < RECVS; i++)
        MTEST_CHECK(got[i] == i, "receive %d (kind %d of order %d%d%d%d) got message %d", i, kinds[i],
                    kinds[0], kinds[1], kinds[2], kinds[3], got[i]);
}

/* Specific receives that do not match are passed over, and stay. */
static void receive_selected(void)
{
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int got[4] = {-1, -1, -1, -1};
    MTEST_OK(MPI_Irecv(&got[0], 1, MPI_INT, 0, 10, MPI_COMM_WORLD, &requests[0]));
    MTEST_OK(MPI_Irecv(&got[1], 1, MPI_INT, MPI_ANY_SOURCE, 11, MPI_COMM_WORLD, &requests[1]));
    MTEST_OK(MPI_Irecv(&got[2], 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[2]));
    MTEST_OK(MPI_Irecv(&got[3], 1, MPI_INT, 0, 11, MPI_COMM_WORLD, &requests[3]));
    MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD));
    MTEST_OK(MPI_Waitall(4, requests, statuses));
    /* Sent: tag 12 -> third, 11 -> second, 11 -> fourth, 10 -> first. */
    MTEST_CHECK(got[2] == 100 && statuses[2].MPI_TAG == 12, "ANY_TAG got %d, tag %d", got[2],
                statuses[2].MPI_TAG);
    MTEST_CHECK(got[1] == 101, "ANY_SOURCE with tag 11 got %d", got[1]);
    MTEST_CHECK(got[3] == 102, "the later receive of tag 11 got %d", got[3]);
    MTEST_CHECK(got[0] == 103, "tag 10 got %d", got[0]);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    for (int code = 0; code < 256 && mtest_rank < 2; code++) {
        int kinds[RECVS] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6 & 3};
        if (mtest_rank == 1) {
            receive_in_order(kinds);
        } else {
            MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (int i = 0; i < MESSAGES; i++)
                MTEST_OK(MPI_Send(&i, 1, MPI_INT, 1, 3, MPI_COMM_WORLD));
        }
    }
    if (mtest_rank == 1) {
        receive_selected();
    } else if (mtest_rank == 0) {
        static const int tags[] = {12, 11, 11, 10};
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < 4; i++) {
            int number = 100 + i;
            MTEST_OK(MPI_Send(&number, 1, MPI_INT, 1, tags[i], MPI_COMM_WORLD));
        }
    }
    return mtest_end();
}
