/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks' output is complete, line by line, also if only the normal exit flushes it. */
#include "mtest.h"

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    /* In turn, so that the testlist can ask for the whole text of the last rank. */
    for (int turn = 0; turn < mtest_size; turn++) {
        if (turn == mtest_rank) {
            printf("rank %d of %d was here\n", mtest_rank, mtest_size);
            fflush(stdout);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (mtest_rank == mtest_size - 1) {
        fprintf(stderr, "last words\n");
        printf("not flushed by the program");
        printf(", but complete\n");
    }
    return mtest_end();
}
