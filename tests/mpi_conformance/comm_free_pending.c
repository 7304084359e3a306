/* SPDX-License-Identifier: BSD-3-Clause */
/* Comm_free only marks: operations that are pending on the communicator still complete. */
#include "mtest.h"

int main(int argc, char **argv)
{
    enum { LEN = 200000 };
    static int out[LEN], in[LEN];
    MPI_Comm comm;
    MPI_Request requests[2];
    mtest_init(&argc, &argv, 1);
    int next = (mtest_rank + 1) % mtest_size, prev = (mtest_rank + mtest_size - 1) % mtest_size;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < LEN; i++)
            out[i] = mtest_rank + i + round;
        MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        MTEST_OK(MPI_Irecv(in, LEN, MPI_INT, prev, 0, comm, &requests[0]));
        MTEST_OK(MPI_Isend(out, LEN, MPI_INT, next, 0, comm, &requests[1]));
        MTEST_OK(MPI_Comm_free(&comm));
        MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < LEN; i++)
            if (in[i] != prev + i + round) {
                MTEST_CHECK(0, "round %d element %d is %d", round, i, in[i]);
                break;
            }
    }
    return mtest_end();
}
