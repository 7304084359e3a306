/* SPDX-License-Identifier: BSD-3-Clause */
/* A freed group handle is refused, although communicators and other handles still use the group. */
#include "mtest.h"

int main(int argc, char **argv)
{
    MPI_Group group, copy, stale, other;
    int size, result;

    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    MTEST_OK(MPI_Comm_group(MPI_COMM_WORLD, &copy));
    stale = group;
    MTEST_OK(MPI_Group_free(&group));
    MTEST_CHECK(group == MPI_GROUP_NULL, "the handle is not null");
    MTEST_CLASS(MPI_Group_size(stale, &size), MPI_ERR_GROUP);
    MTEST_CLASS(MPI_Group_free(&stale), MPI_ERR_GROUP);
    MTEST_CLASS(MPI_Group_compare(copy, stale, &result), MPI_ERR_GROUP);
    MTEST_OK(MPI_Group_size(copy, &size));
    MTEST_CHECK(size == mtest_size, "the other handle's group has %d ranks", size);
    MTEST_OK(MPI_Comm_group(MPI_COMM_WORLD, &other));
    MTEST_OK(MPI_Group_compare(copy, other, &result));
    MTEST_CHECK(result == MPI_IDENT, "compared: %d", result);
    MTEST_OK(MPI_Group_free(&other));
    MTEST_OK(MPI_Group_free(&copy));
    MTEST_CLASS(MPI_Group_free(&copy), MPI_ERR_GROUP);
    return mtest_end();
}
