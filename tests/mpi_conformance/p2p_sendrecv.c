/* SPDX-License-Identifier: BSD-3-Clause */
/* Sendrecv and Sendrecv_replace exchange around rings without deadlock, with different sizes, types and
 * tags. */
#include "mtest.h"

static int out[100000], in[100000];

int main(int argc, char **argv)
{
    static const int counts[] = {0, 1, 50, 3000, 100000};
    MPI_Status status;
    int count;
    mtest_init(&argc, &argv, 1);
    for (int shift = 1; shift <= mtest_size; shift++) {
        int to = (mtest_rank + shift) % mtest_size, from = (mtest_rank + mtest_size * 2 - shift) % mtest_size;
        for (int i = 0; i < 5; i++) {
            /* Every rank sends another length. */
            int mine = counts[(i + mtest_rank) % 5], theirs = counts[(i + from) % 5];
            for (int j = 0; j < mine; j++)
                out[j] = mtest_rank * 7 + j;
            memset(in, 0xff, sizeof in);
            MTEST_OK(MPI_Sendrecv(out, mine, MPI_INT, to, mtest_rank, in, 100000, MPI_INT, from, from,
                                  MPI_COMM_WORLD, &status));
            MPI_Get_count(&status, MPI_INT, &count);
            MTEST_CHECK(status.MPI_SOURCE == from && status.MPI_TAG == from && count == theirs,
                        "source %d tag %d count %d, expected %d %d %d", status.MPI_SOURCE, status.MPI_TAG,
                        count, from, from, theirs);
            for (int j = 0; j < 100000; j++)
                if (in[j] != (j < theirs ? from * 7 + j : -1)) {
                    MTEST_CHECK(0, "element %d is %d", j, in[j]);
                    break;
                }
            /* The same in place: everybody uses the same length. */
            for (int j = 0; j < counts[i]; j++)
                out[j] = mtest_rank * 11 + j;
            MTEST_OK(MPI_Sendrecv_replace(out, counts[i], MPI_INT, to, 5, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD,
                                          &status));
            MPI_Get_count(&status, MPI_INT, &count);
            MTEST_CHECK(status.MPI_SOURCE == from && count == counts[i], "replace: source %d count %d",
                        status.MPI_SOURCE, count);
            for (int j = 0; j < counts[i]; j++)
                if (out[j] != from * 11 + j) {
                    MTEST_CHECK(0, "replace: element %d is %d", j, out[j]);
                    break;
                }
            /* An any-source receive of the next round must not see this round's message of another
             * distance. */
            MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        }
    }
    /* Send to one side, receive from another, and mix with plain calls on the far side. */
    if (mtest_size >= 2) {
        int a = mtest_rank, b = -1;
        if (mtest_rank == 0) {
            MTEST_OK(MPI_Sendrecv(&a, 1, MPI_INT, 1, 1, &b, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &status));
            MTEST_CHECK(b == 1, "got %d", b);
        } else if (mtest_rank == 1) {
            MTEST_OK(MPI_Recv(&b, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &status));
            MTEST_OK(MPI_Send(&a, 1, MPI_INT, 0, 2, MPI_COMM_WORLD));
            MTEST_CHECK(b == 0, "got %d", b);
        }
    }
    return mtest_end();
}
