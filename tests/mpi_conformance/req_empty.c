/* SPDX-License-Identifier: BSD-3-Clause */
/* Null and inactive requests: every Wait and Test form returns at once, with the empty status that the
 * standard requires. */
#include "mtest.h"

static void soil(MPI_Status *statuses, int n)
{
    memset(statuses, 0x77, sizeof *statuses * (size_t)n);
    for (int i = 0; i < n; i++)
        statuses[i].MPI_ERROR = MPI_SUCCESS;
}

static void check(const MPI_Status *statuses, int n, const char *what)
{
    for (int i = 0; i < n; i++) {
        int count = -1, cancelled = -1;
        MPI_Get_count(&statuses[i], MPI_INT, &count);
        MPI_Test_cancelled(&statuses[i], &cancelled);
        MTEST_CHECK(statuses[i].MPI_SOURCE == MPI_ANY_SOURCE && statuses[i].MPI_TAG == MPI_ANY_TAG &&
                        count == 0 && cancelled == 0 && statuses[i].MPI_ERROR == MPI_SUCCESS,
                    "%s: status %d is source %d tag %d count %d cancelled %d error %d", what, i,
                    statuses[i].MPI_SOURCE, statuses[i].MPI_TAG, count, cancelled, statuses[i].MPI_ERROR);
    }
}

static void all_forms(MPI_Request *requests, int n, const char *what)
{
    MPI_Status statuses[3];
    int flag, index, outcount, indices[3];
    for (int i = 0; i < n; i++) {
        soil(statuses, 1);
        MTEST_OK(MPI_Wait(&requests[i], statuses));
        check(statuses, 1, what);
        soil(statuses, 1);
        flag = 0;
        MTEST_OK(MPI_Test(&requests[i], &flag, statuses));
        MTEST_CHECK(flag, "%s: Test says no", what);
        check(statuses, 1, what);
    }
    soil(statuses, 3);
    MTEST_OK(MPI_Waitall(n, requests, statuses));
    check(statuses, n, what);
    soil(statuses, 3);
    flag = 0;
    MTEST_OK(MPI_Testall(n, requests, &flag, statuses));
    MTEST_CHECK(flag, "%s: Testall says no", what);
    check(statuses, n, what);
    soil(statuses, 1);
    index = 5;
    MTEST_OK(MPI_Waitany(n, requests, &index, statuses));
    MTEST_CHECK(index == MPI_UNDEFINED, "%s: Waitany gives %d", what, index);
    check(statuses, 1, what);
    soil(statuses, 1);
    index = 5;
    flag = 0;
    MTEST_OK(MPI_Testany(n, requests, &index, &flag, statuses));
    MTEST_CHECK(flag && index == MPI_UNDEFINED, "%s: Testany gives %d %d", what, flag, index);
    check(statuses, 1, what);
    outcount = 5;
    MTEST_OK(MPI_Waitsome(n, requests, &outcount, indices, statuses));
    MTEST_CHECK(outcount == MPI_UNDEFINED, "%s: Waitsome gives %d", what, outcount);
    outcount = 5;
    MTEST_OK(MPI_Testsome(n, requests, &outcount, indices, statuses));
    MTEST_CHECK(outcount == MPI_UNDEFINED, "%s: Testsome gives %d", what, outcount);
    MTEST_OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    MTEST_OK(MPI_Waitsome(n, requests, &outcount, indices, MPI_STATUSES_IGNORE));
}

int main(int argc, char **argv)
{
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    mtest_init(&argc, &argv, 1);
    all_forms(requests, 3, "null requests");
    all_forms(requests, 0, "no requests");
    if (argc > 1 && strcmp(argv[1], "persistent") == 0) {
        int x = 1, y = 2;
        MTEST_OK(MPI_Send_init(&x, 1, MPI_INT, mtest_rank, 1, MPI_COMM_WORLD, &requests[0]));
        MTEST_OK(MPI_Recv_init(&y, 1, MPI_INT, mtest_rank, 1, MPI_COMM_WORLD, &requests[1]));
        all_forms(requests, 3, "inactive requests before use");
        MTEST_OK(MPI_Startall(2, requests));
        MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        all_forms(requests, 3, "inactive requests after use");
        MTEST_CHECK(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL,
                    "an inactive persistent request became null");
        MTEST_OK(MPI_Request_free(&requests[0]));
        MTEST_OK(MPI_Request_free(&requests[1]));
        MTEST_CHECK(requests[0] == MPI_REQUEST_NULL, "Request_free leaves the handle");
    }
    return mtest_end();
}
