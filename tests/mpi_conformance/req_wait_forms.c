/* SPDX-License-Identifier: BSD-3-Clause */
/* Waitall, Waitany and Waitsome complete every active request exactly once, among null ones, with the right
 * statuses. */
#include "mtest.h"

enum { N = 24 };

static int in[N], seen[N];
static MPI_Request requests[N];

/* Receives at all even places, the odd ones stay null; the peer sends in a scrambled order of tags. */
static void post(int peer)
{
    for (int i = 0; i < N; i++) {
        in[i] = -1;
        seen[i] = 0;
        requests[i] = MPI_REQUEST_NULL;
        if (i % 2 == 0)
            MTEST_OK(MPI_Irecv(&in[i], 1, MPI_INT, peer, i, MPI_COMM_WORLD, &requests[i]));
    }
    MTEST_OK(MPI_Send(NULL, 0, MPI_INT, peer, 500, MPI_COMM_WORLD));
}

static void serve(int peer)
{
    MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, peer, 500, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < N / 2; i++) {
        int tag = i % 2 ? N - 1 - i : i; /* from both ends in turn */
        int value = tag * tag;
        MTEST_OK(MPI_Send(&value, 1, MPI_INT, peer, tag, MPI_COMM_WORLD));
    }
}

static void ended(int i, const MPI_Status *status, int peer, const char *how)
{
    int count;
    MTEST_CHECK(i >= 0 && i < N && i % 2 == 0, "%s: index %d", how, i);
    if (i < 0 || i >= N)
        return;
    MPI_Get_count(status, MPI_INT, &count);
    MTEST_CHECK(!seen[i], "%s: request %d ended twice", how, i);
    seen[i] = 1;
    MTEST_CHECK(in[i] == i * i && status->MPI_TAG == i && status->MPI_SOURCE == peer && count == 1,
                "%s: request %d has value %d, tag %d, source %d, count %d", how, i, in[i], status->MPI_TAG,
                status->MPI_SOURCE, count);
    MTEST_CHECK(requests[i] == MPI_REQUEST_NULL, "%s: request %d is not null", how, i);
}

int main(int argc, char **argv)
{
    MPI_Status statuses[N];
    int index, outcount, indices[N];
    mtest_init(&argc, &argv, 2);
    int peer = mtest_rank ^ 1;
    for (int round = 0; round < 3 && peer < mtest_size; round++) {
        if (mtest_rank & 1) {
            serve(peer);
            continue;
        }
        post(peer);
        if (round == 0) {
            MTEST_OK(MPI_Waitall(N, requests, statuses));
            for (int i = 0; i < N; i += 2)
                ended(i, &statuses[i], peer, "Waitall");
            MTEST_CHECK(statuses[1].MPI_SOURCE == MPI_ANY_SOURCE && statuses[1].MPI_TAG == MPI_ANY_TAG,
                        "Waitall: no empty status for a null request");
        } else if (round == 1) {
            for (int i = 0; i < N / 2; i++) {
                MTEST_OK(MPI_Waitany(N, requests, &index, &statuses[0]));
                ended(index, &statuses[0], peer, "Waitany");
            }
            MTEST_OK(MPI_Waitany(N, requests, &index, &statuses[0]));
            MTEST_CHECK(index == MPI_UNDEFINED, "Waitany after the last: %d", index);
        } else {
            for (int done = 0; done < N / 2; done += outcount) {
                MTEST_OK(MPI_Waitsome(N, requests, &outcount, indices, statuses));
                MTEST_CHECK(outcount >= 1 && outcount <= N / 2 - done, "Waitsome: outcount %d", outcount);
                if (outcount < 1)
                    break;
                for (int i = 0; i < outcount; i++)
                    ended(indices[i], &statuses[i], peer, "Waitsome");
            }
            MTEST_OK(MPI_Waitsome(N, requests, &outcount, indices, statuses));
            MTEST_CHECK(outcount == MPI_UNDEFINED, "Waitsome after the last: %d", outcount);
        }
    }
    return mtest_end();
}
