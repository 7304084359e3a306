/* SPDX-License-Identifier: BSD-3-Clause */
/* A handle of a communicator that all members have freed is refused, however large the communicator was. */
#include "mtest.h"

#define NUM_COMMS 20

int main(int argc, char **argv)
{
    MPI_Comm stale[NUM_COMMS];
    int size, value = 1, sum;

    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    mtest_errors_return(MPI_COMM_SELF);
    for (int i = 0; i < NUM_COMMS; i++) {
        MPI_Comm comm;
        MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        MTEST_OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm));
        MTEST_CHECK(sum == mtest_size, "sum %d", sum);
        stale[i] = comm;
        MTEST_OK(MPI_Comm_free(&comm));
        MPI_Barrier(MPI_COMM_WORLD);
        MTEST_CLASS(MPI_Comm_size(stale[i], &size), MPI_ERR_COMM);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 0; i < NUM_COMMS; i++)
        MTEST_CLASS(MPI_Send(&value, 1, MPI_INT, 0, 0, stale[i]), MPI_ERR_COMM);
    MPI_Barrier(MPI_COMM_WORLD);
    return mtest_end();
}
