/* SPDX-License-Identifier: BSD-3-Clause */
/* The root of a small reduction of two ranks that passes another count than the other rank gets MPI_ERR_COUNT, whoever comes
 * first, and the communicator works afterwards. */
#include "mtest.h"

#define MOST 200

/* first: the rank that starts the operation before the other one does. */
static void reduce(int root, int root_count, int count, int first)
{
    int in[MOST] = {1}, out[MOST], n = mtest_rank == root ? root_count : count, error;
    MPI_Request request;

    if (mtest_rank != first)
        MPI_Recv(NULL, 0, MPI_INT, first, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Ireduce(in, out, n, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD, &request);
    if (mtest_rank == first)
        MPI_Send(NULL, 0, MPI_INT, !first, 0, MPI_COMM_WORLD);
    error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (mtest_rank == root || error)
        MTEST_CLASS(error, MPI_ERR_COUNT);
}

int main(int argc, char **argv)
{
    static const int counts[][2] = {{MOST, 1}, {5, 4}, {0, 1}, {1, 4}, {7, 2}};
    int in = 1, sum;

    mtest_init(&argc, &argv, 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 20; i++)
        for (int k = 0; k < 4 * (int)(sizeof counts / sizeof *counts); k++) {
            reduce(k & 1, counts[k / 4][0], counts[k / 4][1], k >> 1 & 1);
            MPI_Allreduce(&in, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            MTEST_CHECK(sum == 2, "the sum is %d", sum);
        }
    return mtest_end();
}
