/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends the job in the way that its argument names; the testlist has the expected exit code. */
#include "mtest.h"

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "before") == 0)
        return 3; /* never called MPI_Init */
    mtest_init(&argc, &argv, 1);
    int last = mtest_rank == mtest_size - 1, never = 0;
    if (strcmp(how, "abort") == 0 && last)
        MPI_Abort(MPI_COMM_WORLD, 17);
    if (strcmp(how, "self") == 0 && last)
        MPI_Abort(MPI_COMM_SELF, 18);
    if (strcmp(how, "fatal") == 0 && last)
        MPI_Send(&never, 1, MPI_INT, mtest_size + 5, 0, MPI_COMM_WORLD); /* MPI_ERRORS_ARE_FATAL */
    if (strcmp(how, "exit") == 0) {                                      /* finalized, but not zero */
        MPI_Finalize();
        return last ? 21 : 0;
    }
    if (strcmp(how, "exit-call") == 0) {
        MPI_Finalize();
        exit(last ? 22 : 0);
    }
    /* The others wait for what never comes: the end of one must end them. */
    MPI_Recv(&never, 1, MPI_INT, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return mtest_end();
}
