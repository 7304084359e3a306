/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of collectives are never cancelled, and not freed before they are complete: the call returns
 * MPI_ERR_REQUEST, and the operation continues. */
#include "mtest.h"

static void check_active(MPI_Request *request)
{
    MPI_Request copy = *request;

    MTEST_CLASS(MPI_Cancel(&copy), MPI_ERR_REQUEST);
    MTEST_CLASS(MPI_Request_free(&copy), MPI_ERR_REQUEST);
    MTEST_CHECK(copy == *request, "the handle has changed");
}

static void free_complete(MPI_Request *request)
{
    int flag = 0;

    while (!flag)
        MTEST_OK(MPI_Request_get_status(*request, &flag, MPI_STATUS_IGNORE));
    MTEST_CLASS(MPI_Cancel(request), MPI_ERR_REQUEST);
    MTEST_OK(MPI_Request_free(request));
    MTEST_CHECK(*request == MPI_REQUEST_NULL, "the handle is still there");
}

int main(int argc, char **argv)
{
    MPI_Request request;
    MPI_Comm dup = MPI_COMM_NULL;
    int sum = 0, late = 0, size;

    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    /* The last rank joins when the others have looked at their requests. */
    for (int form = 0; form < 3; form++) {
        if (form == 1)
            MTEST_OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        if (form == 1)
            MTEST_CLASS(MPI_Cancel(&request), MPI_ERR_REQUEST);
        if (mtest_rank == mtest_size - 1)
            for (int i = 0; i < mtest_size - 1; i++)
                MTEST_OK(MPI_Recv(&late, 1, MPI_INT, i, form, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (form == 0)
            MTEST_OK(MPI_Iallreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
        else if (form == 1)
            MTEST_OK(MPI_Start(&request));
        else
            MTEST_OK(MPI_Comm_idup(MPI_COMM_WORLD, &dup, &request));
        if (mtest_rank < mtest_size - 1) {
            check_active(&request);
            MTEST_OK(MPI_Send(&late, 1, MPI_INT, mtest_size - 1, form, MPI_COMM_WORLD));
        }
        free_complete(&request);
    }
    MTEST_CHECK(sum == mtest_size * (mtest_size - 1) / 2, "sum %d", sum);
    MTEST_OK(MPI_Comm_size(dup, &size)); /* the duplicate exists although no rank waited */
    MTEST_CHECK(size == mtest_size, "the duplicate has %d ranks", size);
    MTEST_OK(MPI_Comm_free(&dup));
    MTEST_OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    MTEST_OK(MPI_Request_free(&request)); /* not started */
    return mtest_end();
}
