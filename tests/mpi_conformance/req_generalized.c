/* SPDX-License-Identifier: BSD-3-Clause */
/* Generalized requests complete at MPI_Grequest_complete, call query, free and cancel as specified, and mix
 * with others in Wait forms. */
#include "mtest.h"

static int queries, frees, cancels, last_complete = -1;

static int query(void *extra, MPI_Status *status)
{
    int *state = extra;
    queries++;
    MPI_Status_set_elements(status, MPI_INT, *state);
    MPI_Status_set_cancelled(status, *state == 99);
    status->MPI_SOURCE = 12;
    status->MPI_TAG = 34;
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    (void)extra;
    frees++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    int *state = extra;
    cancels++;
    last_complete = complete;
    if (!complete)
        *state = 99;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    MPI_Request request, pair[2];
    MPI_Status status, statuses[2];
    int state = 3, flag, count, value = -1;
    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Grequest_start(query, release, cancel, &state, &request));
    flag = 1;
    MTEST_OK(MPI_Test(&request, &flag, &status));
    MTEST_CHECK(!flag && queries == 0 && frees == 0, "complete before MPI_Grequest_complete");
    MTEST_OK(MPI_Grequest_complete(request));
    MTEST_CHECK(request != MPI_REQUEST_NULL && frees == 0, "Grequest_complete freed the request");
    MTEST_OK(MPI_Wait(&request, &status));
    MPI_Get_count(&status, MPI_INT, &count);
    MTEST_OK(MPI_Test_cancelled(&status, &flag));
    MTEST_CHECK(status.MPI_SOURCE == 12 && status.MPI_TAG == 34 && count == 3 && !flag,
                "status of the query: %d %d %d", status.MPI_SOURCE, status.MPI_TAG, count);
    MTEST_CHECK(queries == 1 && frees == 1 && request == MPI_REQUEST_NULL, "query %d times, free %d times",
                queries, frees);

    /* Cancel of an active one. */
    MTEST_OK(MPI_Grequest_start(query, release, cancel, &state, &request));
    MTEST_OK(MPI_Cancel(&request));
    MTEST_CHECK(cancels == 1 && last_complete == 0, "cancel called %d times, complete %d", cancels,
                last_complete);
    MTEST_OK(MPI_Grequest_complete(request));
    MTEST_OK(MPI_Wait(&request, &status));
    MTEST_OK(MPI_Test_cancelled(&status, &flag));
    MTEST_CHECK(flag, "the cancelled one does not say so");

    /* Beside a receive, in Waitall; free before completion. */
    state = 5;
    MTEST_OK(MPI_Grequest_start(query, release, cancel, &state, &pair[0]));
    MTEST_OK(MPI_Irecv(&value, 1, MPI_INT, mtest_rank, 1, MPI_COMM_WORLD, &pair[1]));
    MTEST_OK(MPI_Send(&state, 1, MPI_INT, mtest_rank, 1, MPI_COMM_WORLD));
    int index = -1;
    MTEST_OK(MPI_Waitany(2, pair, &index, &status));
    MTEST_CHECK(index == 1 && value == 5, "Waitany gives %d", index);
    MTEST_OK(MPI_Grequest_complete(pair[0]));
    MTEST_OK(MPI_Waitall(2, pair, statuses));
    MPI_Get_count(&statuses[0], MPI_INT, &count);
    MTEST_CHECK(count == 5 && statuses[1].MPI_SOURCE == MPI_ANY_SOURCE, "Waitall: count %d", count);
    int frees_before = frees;
    MTEST_OK(MPI_Grequest_start(query, release, cancel, &state, &request));
    MPI_Request copy = request;
    MTEST_OK(MPI_Request_free(&request));
    MTEST_OK(MPI_Grequest_complete(copy));
    MTEST_CHECK(frees == frees_before + 1, "a freed and completed request: free called %d times",
                frees - frees_before);
    return mtest_end();
}
