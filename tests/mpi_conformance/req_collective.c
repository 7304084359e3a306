/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of collectives are neither cancelled nor freed while they are started: MPI_ERR_REQUEST, and the
 * operation goes on. */
#include "mtest.h"

static void check_request(MPI_Request *request)
{
    MPI_Request copy = *request;

    MTEST_CLASS(MPI_Cancel(&copy), MPI_ERR_REQUEST);
    MTEST_CLASS(MPI_Request_free(&copy), MPI_ERR_REQUEST);
    MTEST_CHECK(copy == *request, "the handle has changed");
}

int main(int argc, char **argv)
{
    MPI_Request request;
    MPI_Comm dup;
    int sum = 0, flag = 0;

    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_OK(MPI_Iallreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    check_request(&request);
    while (!flag)
        MTEST_OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
    check_request(&request); /* complete, but not waited for */
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_CHECK(sum == mtest_size * (mtest_size - 1) / 2, "sum %d", sum);
    MTEST_OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    MTEST_CLASS(MPI_Cancel(&request), MPI_ERR_REQUEST);
    MTEST_OK(MPI_Start(&request));
    check_request(&request);
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Request_free(&request)); /* not started: allowed */
    MTEST_OK(MPI_Comm_idup(MPI_COMM_WORLD, &dup, &request));
    check_request(&request);
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Comm_free(&dup));
    return mtest_end();
}
