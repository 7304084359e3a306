/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments that other MPIs accept (negative colours, predefined keyvals, counts of Allreduce) are refused. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Comm comm = MPI_COMM_WORLD, cart, out;
    int buf[1] = {1}, to[1], coords[1], own_class, got;
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_CLASS(MPI_Comm_split(MPI_COMM_WORLD, -5, 0, &out), MPI_ERR_ARG);
    MTEST_CLASS(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID, NULL), MPI_ERR_KEYVAL);
    MTEST_CLASS2(MPI_Comm_delete_attr(MPI_COMM_WORLD, MPI_TAG_UB), MPI_ERR_KEYVAL, MPI_ERR_ARG);
    MTEST_CLASS2(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, NULL), MPI_ERR_KEYVAL, MPI_ERR_ARG);
    MTEST_CLASS(MPI_Allreduce(buf, to, -1, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT);
    MTEST_CLASS(MPI_Allreduce(buf, to, 1, MPI_DATATYPE_NULL, MPI_SUM, comm), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Scan(buf, to, -1, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT);
    MTEST_OK(MPI_Cart_create(comm, 1, &mtest_size, (int[]){1}, 0, &cart));
    mtest_errors_return(cart);
    MTEST_CLASS(MPI_Cart_coords(cart, mtest_size, 1, coords), MPI_ERR_RANK);
    MTEST_OK(MPI_Comm_free(&cart));
    MTEST_OK(MPI_Add_error_class(&own_class));
    MTEST_OK(MPI_Error_class(own_class, &got)); /* a class is also a code, of itself */
    MTEST_CHECK(got == own_class, "the class of class %d is %d", own_class, got);
    MTEST_OK(MPI_Barrier(comm));
    return mtest_end();
}
