/* SPDX-License-Identifier: BSD-3-Clause */
/* An operation's function that waits in MPI ends the job with a line that names the function and its call. */
#include "mtest.h"

static void receive_in_op(void *in, void *inout, int *len, MPI_Datatype *type)
{
    int never;

    (void)in;
    (void)inout;
    (void)len;
    (void)type;
    MPI_Recv(&never, 1, MPI_INT, mtest_rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int number = 1;
    MPI_Op op;

    mtest_init(&argc, &argv, 1);
    MPI_Op_create(receive_in_op, 1, &op);
    MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_INT, op, MPI_COMM_WORLD);
    return mtest_end();
}
