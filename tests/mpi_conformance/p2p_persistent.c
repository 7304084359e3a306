/* SPDX-License-Identifier: BSD-3-Clause */
/* Persistent sends (all modes) and receives can be restarted any number of times, with the buffer's current
 * contents. */
#include "mtest.h"

enum { ROUNDS = 20, LEN = 12000 };

static int out[4][LEN], in[4][LEN];
static char buffer_space[LEN * sizeof(int) + MPI_BSEND_OVERHEAD];

int main(int argc, char **argv)
{
    MPI_Request requests[8];
    MPI_Status statuses[8];
    mtest_init(&argc, &argv, 1);
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    MTEST_OK(MPI_Buffer_attach(buffer_space, sizeof buffer_space));
    for (int i = 0; i < 4; i++)
        MTEST_OK(MPI_Recv_init(in[i], LEN, MPI_INT, i % 2 ? MPI_ANY_SOURCE : prev, i, MPI_COMM_WORLD,
                               &requests[i]));
    MTEST_OK(MPI_Send_init(out[0], LEN, MPI_INT, next, 0, MPI_COMM_WORLD, &requests[4]));
    MTEST_OK(MPI_Ssend_init(out[1], 10, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[5]));
    if (argc > 1 && strcmp(argv[1], "bsend") == 0)
        MTEST_OK(MPI_Bsend_init(out[2], LEN, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[6]));
    else
        MTEST_OK(MPI_Send_init(out[2], LEN, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[6]));
    MTEST_OK(MPI_Rsend_init(out[3], LEN, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[7]));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < LEN; j++) {
                out[i][j] = round * 100003 + mtest_rank * 1009 + i + j;
                in[i][j] = -1;
            }
        if (round % 2) {
            MTEST_OK(MPI_Startall(4, requests));
        } else {
            for (int i = 3; i >= 0; i--)
                MTEST_OK(MPI_Start(&requests[i]));
        }
        /* The ready send needs its receive posted. */
        MTEST_OK(MPI_Sendrecv(NULL, 0, MPI_INT, prev, 9, NULL, 0, MPI_INT, next, 9, MPI_COMM_WORLD,
                              MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Startall(4, requests + 4));
        if (round % 3 == 0) {
            MTEST_OK(MPI_Waitall(8, requests, statuses));
        } else if (round % 3 == 1) {
            for (int done = 0; done < 8; done++) {
                int index;
                MTEST_OK(MPI_Waitany(8, requests, &index, &statuses[7]));
                MTEST_CHECK(index >= 0 && index < 8, "Waitany: index %d", index);
                if (index >= 0 && index < 4)
                    statuses[index] = statuses[7];
            }
        } else {
            for (int flag = 0; !flag;)
                MTEST_OK(MPI_Testall(8, requests, &flag, statuses));
        }
        for (int i = 0; i < 4; i++) {
            int count, expected = i == 1 ? 10 : LEN;
            MPI_Get_count(&statuses[i], MPI_INT, &count);
            MTEST_CHECK(count == expected && statuses[i].MPI_SOURCE == prev,
                        "round %d receive %d: count %d source %d", round, i, count, statuses[i].MPI_SOURCE);
            MTEST_CHECK(requests[i] != MPI_REQUEST_NULL, "a persistent request became null");
            for (int j = 0; j < LEN; j++) {
                int value = j < expected ? round * 100003 + prev * 1009 + i + j : -1;
                if (in[i][j] != value) {
                    MTEST_CHECK(0, "round %d receive %d element %d: %d, expected %d", round, i, j, in[i][j],
                                value);
                    break;
                }
            }
        }
    }
    for (int i = 0; i < 8; i++)
        MTEST_OK(MPI_Request_free(&requests[i]));
    void *addr;
    int size;
    MTEST_OK(MPI_Buffer_detach(&addr, &size));
    return mtest_end();
}
