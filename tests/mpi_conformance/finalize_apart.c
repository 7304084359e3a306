/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks call MPI_Finalize at different times: ranks in it do not disturb the others' messages. */
#include "mtest.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    /* Rank k leaves after k turns; in each turn those that are left pass a message around. */
    for (int turn = 0; turn < mtest_rank; turn++) {
        int next = mtest_rank + 1 < mtest_size ? mtest_rank + 1 : turn + 1;
        int last = mtest_rank > turn + 1 ? mtest_rank - 1 : mtest_size - 1;
        int got = -1;
        usleep(20000);
        MTEST_OK(MPI_Sendrecv(&turn, 1, MPI_INT, next, turn, &got, 1, MPI_INT, last, turn, MPI_COMM_WORLD,
                              MPI_STATUS_IGNORE));
        MTEST_CHECK(got == turn, "in turn %d rank %d sent %d", turn, last, got);
    }
    return mtest_end();
}
