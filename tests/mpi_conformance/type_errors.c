/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrong arguments of datatype constructors and queries return the right class and create no type. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    int size;
    MPI_Aint lb, extent;
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_CLASS(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT);
    MTEST_CLASS(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &type), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Type_vector(-1, 1, 1, MPI_INT, &type), MPI_ERR_COUNT);
    MTEST_CLASS2(MPI_Type_vector(1, -1, 1, MPI_INT, &type), MPI_ERR_ARG, MPI_ERR_COUNT);
    MTEST_CLASS(MPI_Type_vector(1, 1, 1, MPI_DATATYPE_NULL, &type), MPI_ERR_TYPE);
    int len = -1, zero = 0;
    MTEST_CLASS(MPI_Type_indexed(-1, &zero, &zero, MPI_INT, &type), MPI_ERR_COUNT);
    MTEST_CLASS2(MPI_Type_indexed(1, &len, &zero, MPI_INT, &type), MPI_ERR_ARG, MPI_ERR_COUNT);
    MTEST_CLASS(MPI_Type_size(MPI_DATATYPE_NULL, &size), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Type_get_extent(MPI_DATATYPE_NULL, &lb, &extent), MPI_ERR_TYPE);
    type = MPI_DATATYPE_NULL;
    MTEST_CLASS(MPI_Type_commit(&type), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_Type_free(&type), MPI_ERR_TYPE);
    type = MPI_INT;
    MTEST_CLASS(MPI_Type_free(&type), MPI_ERR_TYPE);
    MTEST_CHECK(type == MPI_INT, "a refused Type_free changed the handle");
    /* Committing twice is allowed. */
    MTEST_OK(MPI_Type_contiguous(2, MPI_INT, &type));
    MTEST_OK(MPI_Type_commit(&type));
    MTEST_OK(MPI_Type_commit(&type));
    MTEST_OK(MPI_Type_free(&type));
    type = MPI_INT;
    MTEST_OK(MPI_Type_commit(&type));
    return mtest_end();
}
