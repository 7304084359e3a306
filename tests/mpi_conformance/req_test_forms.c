/* SPDX-License-Identifier: BSD-3-Clause */
/* Test forms: nothing changes while the flag is false; Testall changes no request before all are complete. */
#include "mtest.h"

enum { N = 6 };

static int in[N];

static void go(int peer, int what)
{
    MTEST_OK(MPI_Send(&what, 1, MPI_INT, peer, 100, MPI_COMM_WORLD));
}

/* Rank 0 asks for message `what`; -1 ends. */
static void serve(int peer)
{
    for (;;) {
        int what;
        MTEST_OK(MPI_Recv(&what, 1, MPI_INT, peer, 100, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (what < 0)
            return;
        int value = 10 * what;
        MTEST_OK(MPI_Send(&value, 1, MPI_INT, peer, what, MPI_COMM_WORLD));
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, peer, 101, MPI_COMM_WORLD));
    }
}

static void delivered(int peer)
{
    MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, peer, 101, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    MPI_Request requests[N], before[N];
    MPI_Status statuses[N];
    int flag, index, outcount, indices[N];
    mtest_init(&argc, &argv, 2);
    int peer = mtest_rank ^ 1;
    if (peer < mtest_size && (mtest_rank & 1)) {
        serve(peer);
    } else if (peer < mtest_size) {
        for (int i = 0; i < N; i++)
            MTEST_OK(MPI_Irecv(&in[i], 1, MPI_INT, peer, i, MPI_COMM_WORLD, &requests[i]));
        memcpy(before, requests, sizeof before);
        flag = 1;
        MTEST_OK(MPI_Test(&requests[0], &flag, statuses));
        MTEST_CHECK(!flag && requests[0] == before[0], "Test: done without a message");
        flag = 1;
        MTEST_OK(MPI_Testany(N, requests, &index, &flag, statuses));
        MTEST_CHECK(!flag && index == MPI_UNDEFINED, "Testany: flag %d index %d without a message", flag,
                    index);
        MTEST_OK(MPI_Testsome(N, requests, &outcount, indices, statuses));
        MTEST_CHECK(outcount == 0, "Testsome: outcount %d without a message", outcount);
        flag = 1;
        MTEST_OK(MPI_Testall(N, requests, &flag, statuses));
        MTEST_CHECK(!flag, "Testall: done without a message");

        go(peer, 3);
        delivered(peer);
        for (int i = 0; i < 100; i++) {
            MTEST_OK(MPI_Testall(N, requests, &flag, statuses));
            MTEST_CHECK(!flag, "Testall: done after one of %d", N);
        }
        MTEST_CHECK(memcmp(before, requests, sizeof before) == 0,
                    "Testall changed a request with flag false");
        flag = 0;
        for (int i = 0; i < 100000 && !flag; i++)
            MTEST_OK(MPI_Testany(N, requests, &index, &flag, statuses));
        MTEST_CHECK(flag && index == 3 && in[3] == 30 && statuses[0].MPI_TAG == 3 &&
                        requests[3] == MPI_REQUEST_NULL,
                    "Testany: flag %d index %d", flag, index);

        go(peer, 1);
        delivered(peer);
        go(peer, 5);
        delivered(peer);
        int got = 0;
        for (int i = 0; i < 100000 && got < 2; i++) {
            MTEST_OK(MPI_Testsome(N, requests, &outcount, indices, statuses));
            for (int j = 0; j < outcount; j++) {
                MTEST_CHECK(indices[j] == 1 || indices[j] == 5, "Testsome: index %d", indices[j]);
                MTEST_CHECK(statuses[j].MPI_TAG == indices[j], "Testsome: status %d has tag %d", j,
                            statuses[j].MPI_TAG);
                got++;
            }
        }
        MTEST_CHECK(got == 2, "Testsome found %d of 2", got);

        go(peer, 4);
        delivered(peer);
        flag = 0;
        for (int i = 0; i < 100000 && !flag; i++)
            MTEST_OK(MPI_Test(&requests[4], &flag, statuses));
        MTEST_CHECK(flag && in[4] == 40 && requests[4] == MPI_REQUEST_NULL, "Test: flag %d value %d", flag,
                    in[4]);

        go(peer, 0);
        delivered(peer);
        go(peer, 2);
        delivered(peer);
        flag = 0;
        for (int i = 0; i < 100000 && !flag; i++)
            MTEST_OK(MPI_Testall(N, requests, &flag, statuses));
        MTEST_CHECK(flag && in[0] == 0 && in[2] == 20, "Testall: flag %d, values %d %d", flag, in[0], in[2]);
        MTEST_CHECK(statuses[2].MPI_TAG == 2 && statuses[3].MPI_TAG == MPI_ANY_TAG,
                    "Testall: wrong statuses");
        go(peer, -1);
    }
    return mtest_end();
}
