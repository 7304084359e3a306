/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI 4: Isendrecv and Isendrecv_replace exchange in the background; the status is that of the receive. */
#include "mtest.h"

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
#if MPI_VERSION >= 4
    enum { LEN = 30000 };
    static int out[LEN], in[LEN];
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size, count;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    static int swap[LEN];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < LEN; i++) {
            out[i] = mtest_rank + i + round;
            swap[i] = mtest_rank - i - round;
            in[i] = -1;
        }
        MTEST_OK(MPI_Isendrecv(out, LEN, MPI_INT, next, 1, in, LEN, MPI_INT, prev, 1, MPI_COMM_WORLD,
                               &requests[0]));
        MTEST_OK(MPI_Isendrecv_replace(swap, LEN, MPI_INT, prev, 2, next, 2, MPI_COMM_WORLD, &requests[1]));
        MTEST_OK(MPI_Waitall(2, requests, statuses));
        MPI_Get_count(&statuses[0], MPI_INT, &count);
        MTEST_CHECK(statuses[0].MPI_SOURCE == prev && statuses[0].MPI_TAG == 1 && count == LEN,
                    "source %d tag %d count %d", statuses[0].MPI_SOURCE, statuses[0].MPI_TAG, count);
        MTEST_CHECK(statuses[1].MPI_SOURCE == next && statuses[1].MPI_TAG == 2, "replace: source %d tag %d",
                    statuses[1].MPI_SOURCE, statuses[1].MPI_TAG);
        for (int i = 0; i < LEN; i++)
            if (in[i] != prev + i + round || swap[i] != next - i - round) {
                MTEST_CHECK(0, "element %d: %d and %d", i, in[i], swap[i]);
                break;
            }
    }
    MTEST_OK(MPI_Isendrecv(out, 1, MPI_INT, MPI_PROC_NULL, 1, in, 1, MPI_INT, MPI_PROC_NULL, 1,
                           MPI_COMM_WORLD, &requests[0]));
    MTEST_OK(MPI_Wait(&requests[0], &statuses[0]));
    MTEST_CHECK(statuses[0].MPI_SOURCE == MPI_PROC_NULL, "source %d, expected MPI_PROC_NULL",
                statuses[0].MPI_SOURCE);
#else
    mtest_skip("MPI_Isendrecv needs MPI 4");
#endif
    return mtest_end();
}
