/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of one sender do not overtake each other, with all sizes, modes and ways to receive. */
#include "mtest.h"

enum { MESSAGES = 120, MOST = 100000 };

/* Small, large, empty-ish ones in turn, so that different protocols race. */
static int length_of(int i)
{
    static const int lens[] = {4, 70000, 8, 12, 4096, 4, MOST, 16, 9000, 64};
    return lens[i % 10];
}

static void check(const int *buf, const MPI_Status *status, int i, const char *how)
{
    int count;
    MPI_Get_count(status, MPI_BYTE, &count);
    MTEST_CHECK(buf[0] == i, "%s: message %d arrived as number %d", how, buf[0], i);
    MTEST_CHECK(count == length_of(i), "%s: message %d has %d bytes, expected %d", how, i, count,
                length_of(i));
}

int main(int argc, char **argv)
{
    static int buf[MOST / 4];
    static const char *const how[] = {"same tag", "any tag", "any source and tag", "posted before"};
    mtest_init(&argc, &argv, 2);
    int peer = mtest_rank ^ 1;
    for (int round = 0; round < 4 && peer < mtest_size; round++) {
        if (mtest_rank & 1) {
            MPI_Request requests[MESSAGES];
            int *bufs[MESSAGES];
            MPI_Status status;
            if (round == 3) {
                for (int i = 0; i < MESSAGES; i++) {
                    bufs[i] = mtest_alloc(MOST);
                    MTEST_OK(MPI_Irecv(bufs[i], MOST, MPI_BYTE, i % 2 ? MPI_ANY_SOURCE : peer,
                                       i % 3 ? MPI_ANY_TAG : 7, MPI_COMM_WORLD, &requests[i]));
                }
            }
            MTEST_OK(MPI_Send(NULL, 0, MPI_BYTE, peer, 1, MPI_COMM_WORLD));
            for (int i = 0; i < MESSAGES; i++) {
                if (round == 3) {
                    MTEST_OK(MPI_Wait(&requests[i], &status));
                    check(bufs[i], &status, i, how[round]);
                    free(bufs[i]);
                } else {
                    MTEST_OK(MPI_Recv(buf, MOST, MPI_BYTE, round == 2 ? MPI_ANY_SOURCE : peer,
                                      round >= 1 ? MPI_ANY_TAG : 7, MPI_COMM_WORLD, &status));
                    check(buf, &status, i, how[round]);
                    MTEST_CHECK(status.MPI_SOURCE == peer && status.MPI_TAG == 7, "wrong envelope %d %d",
                                status.MPI_SOURCE, status.MPI_TAG);
                }
            }
        } else {
            MPI_Request requests[MESSAGES];
            int *bufs[MESSAGES];
            MTEST_OK(MPI_Recv(NULL, 0, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (int i = 0; i < MESSAGES; i++) {
                bufs[i] = mtest_alloc(MOST);
                bufs[i][0] = i;
                if (i % 4 == 3)
                    MTEST_OK(
                        MPI_Issend(bufs[i], length_of(i), MPI_BYTE, peer, 7, MPI_COMM_WORLD, &requests[i]));
                else
                    MTEST_OK(
                        MPI_Isend(bufs[i], length_of(i), MPI_BYTE, peer, 7, MPI_COMM_WORLD, &requests[i]));
            }
            MTEST_OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
            for (int i = 0; i < MESSAGES; i++)
                free(bufs[i]);
        }
    }
    return mtest_end();
}
