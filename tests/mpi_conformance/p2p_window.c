/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of 64 nonblocking messages between all pairs at once, completed by Waitall, for many rounds. */
#include "mtest.h"

enum { WINDOW = 64, ROUNDS = 30 };

static int out[WINDOW], in[WINDOW];

int main(int argc, char **argv)
{
    MPI_Request requests[2 * WINDOW];
    mtest_init(&argc, &argv, 2);
    for (int round = 0; round < ROUNDS; round++) {
        int shift = 1 + round % (mtest_size - 1);
        int to = (mtest_rank + shift) % mtest_size, from = (mtest_rank + mtest_size - shift) % mtest_size;
        for (int i = 0; i < WINDOW; i++) {
            in[i] = -1;
            out[i] = (mtest_rank * ROUNDS + round) * WINDOW + i;
            MTEST_OK(MPI_Irecv(&in[i], 1, MPI_INT, from, round, MPI_COMM_WORLD, &requests[i]));
        }
        for (int i = 0; i < WINDOW; i++)
            MTEST_OK(MPI_Isend(&out[i], 1, MPI_INT, to, round, MPI_COMM_WORLD, &requests[WINDOW + i]));
        MTEST_OK(MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < WINDOW; i++)
            MTEST_CHECK(in[i] == (from * ROUNDS + round) * WINDOW + i, "round %d message %d: %d", round, i,
                        in[i]);
    }
    return mtest_end();
}
