/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The sizes of a collective disagree, so that some processes vote on NCCL and others do not: the job ends
 * with a message instead of hanging. The argument is the process that arrives later.
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
