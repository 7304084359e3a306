/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrong arguments of communicator, attribute and collective calls return the right class and change
 * nothing. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Comm comm = MPI_COMM_WORLD, out;
    MPI_Datatype loose;
    int buf[8] = {1, 2, 3, 4, 5, 6, 7, 8}, to[8] = {0}, rank, size, result;
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(comm);
    MTEST_OK(MPI_Type_contiguous(2, MPI_INT, &loose));
    MTEST_CLASS(MPI_Comm_rank(MPI_COMM_NULL, &rank), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Comm_size(MPI_COMM_NULL, &size), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Comm_dup(MPI_COMM_NULL, &out), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Comm_split(MPI_COMM_NULL, 0, 0, &out), MPI_ERR_COMM);
    out = MPI_COMM_NULL;
    MTEST_CLASS(MPI_Comm_free(&out), MPI_ERR_COMM);
    out = MPI_COMM_WORLD;
    MTEST_CLASS(MPI_Comm_free(&out), MPI_ERR_COMM);
    MTEST_CHECK(out == MPI_COMM_WORLD, "a refused Comm_free changed the handle");
    MTEST_CLASS(MPI_Comm_compare(comm, MPI_COMM_NULL, &result), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM);
    MTEST_CLASS(MPI_Bcast(buf, 1, MPI_INT, mtest_size, comm), MPI_ERR_ROOT);
    MTEST_CLASS(MPI_Bcast(buf, 1, MPI_INT, -1, comm), MPI_ERR_ROOT);
    MTEST_CLASS(MPI_Bcast(buf, -1, MPI_INT, 0, comm), MPI_ERR_COUNT);
    MTEST_CLASS(MPI_Bcast(buf, 1, MPI_DATATYPE_NULL, 0, comm), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Bcast(buf, 1, loose, 0, comm), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Reduce(buf, to, 1, MPI_INT, MPI_SUM, mtest_size, comm), MPI_ERR_ROOT);
    MTEST_CLASS(MPI_Reduce(buf, to, 1, MPI_INT, MPI_OP_NULL, 0, comm), MPI_ERR_OP);
    MTEST_CLASS(MPI_Allreduce(buf, to, 1, MPI_INT, MPI_OP_NULL, comm), MPI_ERR_OP);
    MTEST_CLASS2(MPI_Allreduce(buf, to, 1, MPI_DOUBLE, MPI_BAND, comm), MPI_ERR_OP, MPI_ERR_TYPE);
    MTEST_CLASS2(MPI_Allreduce(buf, to, 1, MPI_INT, MPI_MAXLOC, comm), MPI_ERR_OP, MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Scan(buf, to, 1, MPI_INT, MPI_OP_NULL, comm), MPI_ERR_OP);
    MTEST_CLASS(MPI_Gather(buf, 1, MPI_INT, to, 1, MPI_INT, mtest_size, comm), MPI_ERR_ROOT);
    MTEST_CLASS(MPI_Gather(buf, -1, MPI_INT, to, 1, MPI_INT, 0, MPI_COMM_SELF), MPI_ERR_COUNT);
    MTEST_CLASS(MPI_Scatter(buf, 1, MPI_INT, to, 1, MPI_INT, -1, comm), MPI_ERR_ROOT);
    MTEST_CLASS(MPI_Allgather(buf, -1, MPI_INT, to, 1, MPI_INT, comm), MPI_ERR_COUNT);
    MTEST_CLASS(MPI_Allgather(buf, 1, MPI_DATATYPE_NULL, to, 1, MPI_INT, comm), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Alltoall(buf, 1, MPI_INT, to, -1, MPI_INT, comm), MPI_ERR_COUNT);
    for (int i = 0; i < 8; i++)
        MTEST_CHECK(to[i] == 0, "a refused call wrote to[%d]", i);
    MTEST_OK(MPI_Type_free(&loose));
    /* After all that the communicator works. */
    int one = 1, sum = 0;
    MTEST_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    MTEST_CHECK(sum == mtest_size, "sum %d", sum);
    return mtest_end();
}
