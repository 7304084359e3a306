/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of one sender do not overtake each other on a communicator that their receiver is still creating.
 * The argument is the number of communicators. */
#include "mtest.h"

enum { MESSAGES = 40 };

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    int num_rounds = argc > 1 ? atoi(argv[1]) : 1500;
    int peer = (mtest_rank + mtest_size / 2) % mtest_size;
    int from = (mtest_rank + mtest_size - mtest_size / 2) % mtest_size;
    for (int round = 0; round < num_rounds; round++) {
        MPI_Request requests[MESSAGES];
        int sent[MESSAGES], got = -1;
        MPI_Comm comm;
        MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        for (int i = 0; i < MESSAGES; i++) {
            sent[i] = round * MESSAGES + i;
            MTEST_OK(MPI_Isend(&sent[i], 1, MPI_INT, peer, 5, comm, &requests[i]));
        }
        for (int i = 0; i < MESSAGES; i++) {
            MTEST_OK(MPI_Recv(&got, 1, MPI_INT, from, 5, comm, MPI_STATUS_IGNORE));
            MTEST_CHECK(got == sent[i], "round %d: message %d arrived as number %d", round,
                        got - round * MESSAGES, i);
        }
        MTEST_OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
        MTEST_OK(MPI_Comm_free(&comm));
    }
    return mtest_end();
}
