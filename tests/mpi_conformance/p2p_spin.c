/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that spins on Test, Testany, Testsome, Testall, Iprobe or Improbe lets other ranks progress. */
#include "mtest.h"

static int token;

/* A token goes around the ring; everyone waits for it by spinning, in a different way in each round. */
static void spin_receive(int from, int way)
{
    MPI_Request request;
    MPI_Message message;
    int flag = 0, index, outcount = 0, indices[1];
    MPI_Status status;
    switch (way) {
    case 0:
        MTEST_OK(MPI_Irecv(&token, 1, MPI_INT, from, way, MPI_COMM_WORLD, &request));
        while (!flag)
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        break;
    case 1:
        MTEST_OK(MPI_Irecv(&token, 1, MPI_INT, from, way, MPI_COMM_WORLD, &request));
        while (!flag)
            MPI_Testany(1, &request, &index, &flag, &status);
        break;
    case 2:
        MTEST_OK(MPI_Irecv(&token, 1, MPI_INT, from, way, MPI_COMM_WORLD, &request));
        while (outcount == 0)
            MPI_Testsome(1, &request, &outcount, indices, &status);
        break;
    case 3:
        MTEST_OK(MPI_Irecv(&token, 1, MPI_INT, from, way, MPI_COMM_WORLD, &request));
        while (!flag)
            MPI_Testall(1, &request, &flag, &status);
        break;
    case 4:
        while (!flag)
            MPI_Iprobe(from, way, MPI_COMM_WORLD, &flag, &status);
        MTEST_OK(MPI_Recv(&token, 1, MPI_INT, from, way, MPI_COMM_WORLD, &status));
        break;
    case 5:
        while (!flag)
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
        MTEST_OK(MPI_Recv(&token, 1, MPI_INT, from, way, MPI_COMM_WORLD, &status));
        break;
    case 6:
        MTEST_OK(MPI_Irecv(&token, 1, MPI_INT, from, way, MPI_COMM_WORLD, &request));
        while (!flag)
            MPI_Request_get_status(request, &flag, &status);
        MTEST_OK(MPI_Wait(&request, &status));
        break;
    case 7:
        while (!flag)
            MPI_Improbe(from, way, MPI_COMM_WORLD, &flag, &message, &status);
        MTEST_OK(MPI_Mrecv(&token, 1, MPI_INT, &message, &status));
        break;
    }
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    int ways = argc > 1 ? atoi(argv[1]) : 6; /* the last two are not part of the foundation */
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    for (int way = 0; way < ways; way++) {
        if (mtest_rank == 0) {
            token = 1000 * way;
            MTEST_OK(MPI_Send(&token, 1, MPI_INT, next, way, MPI_COMM_WORLD));
            spin_receive(prev, way);
            MTEST_CHECK(token == 1000 * way + mtest_size - 1, "way %d: the token came back as %d", way,
                        token);
        } else {
            spin_receive(prev, way);
            MTEST_CHECK(token == 1000 * way + mtest_rank - 1, "way %d: the token is %d", way, token);
            token++;
            MTEST_OK(MPI_Send(&token, 1, MPI_INT, next, way, MPI_COMM_WORLD));
        }
        /* Large synchronous messages with both ends spinning on several requests. */
        enum { BIG = 60000 };
        static int out[BIG], in[BIG];
        MPI_Request requests[2];
        int flag = 0;
        for (int i = 0; i < BIG; i++)
            out[i] = mtest_rank * BIG + i;
        MTEST_OK(MPI_Issend(out, BIG, MPI_INT, next, 77, MPI_COMM_WORLD, &requests[0]));
        MTEST_OK(MPI_Irecv(in, BIG, MPI_INT, prev, 77, MPI_COMM_WORLD, &requests[1]));
        while (!flag)
            MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
        for (int i = 0; i < BIG; i++)
            if (in[i] != prev * BIG + i) {
                MTEST_CHECK(0, "way %d: element %d is %d", way, i, in[i]);
                break;
            }
    }
    return mtest_end();
}
