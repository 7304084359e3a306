/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program's sizes do not agree, so that some processes vote on NCCL and others do not: the job ends with a
 * message that says so, it does not hang. Which process comes later is the argument.
 */
#include "nccl.h"

int main(int argc, char **argv)
{
    struct gtest_buffer recv;

    mtest_init(&argc, &argv, 2);
    nccl_init(0);
    recv = gtest_alloc(nccl_place, 160000, NULL);
    if (argc > 1 && nccl_proc == atoi(argv[1]))
        usleep(50000);
    MTEST_OK(
        MPI_Allreduce(MPI_IN_PLACE, recv.data, nccl_proc ? 40000 : 1000, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    return mtest_end();
}
