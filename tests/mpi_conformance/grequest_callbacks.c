/* SPDX-License-Identifier: BSD-3-Clause */
/* The callbacks of a generalized request are called at the right time, and their return value is the call's
 * error. */
#include "mtest.h"

struct calls {
    int n_query, n_free, n_cancel;
    int complete_at_cancel;
    int query_error, free_error, cancel_error;
};

static int query(void *extra_state, MPI_Status *status)
{
    struct calls *calls = extra_state;

    calls->n_query++;
    MPI_Status_set_cancelled(status, 0);
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    status->MPI_SOURCE = 3;
    status->MPI_TAG = 4;
    return calls->query_error;
}

static int free_state(void *extra_state)
{
    struct calls *calls = extra_state;

    calls->n_free++;
    return calls->free_error;
}

static int cancel(void *extra_state, int complete)
{
    struct calls *calls = extra_state;

    calls->n_cancel++;
    calls->complete_at_cancel = complete;
    return calls->cancel_error;
}

static MPI_Request start(struct calls *calls)
{
    MPI_Request request;

    MPI_Grequest_start(query, free_state, cancel, calls, &request);
    return request;
}

int main(int argc, char **argv)
{
    struct calls calls = {0};
    MPI_Request request;
    MPI_Status status;
    int flag;

    mtest_init(&argc, &argv, 1);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);

    request = start(&calls);
    MPI_Test(&request, &flag, &status);
    MTEST_CHECK(!flag && calls.n_query == 0 && calls.n_free == 0, "a test before completion calls nothing");
    MPI_Cancel(&request);
    MTEST_CHECK(calls.n_cancel == 1 && !calls.complete_at_cancel, "cancel of an active request");
    MPI_Grequest_complete(request);
    MPI_Cancel(&request);
    MTEST_CHECK(calls.n_cancel == 2 && calls.complete_at_cancel, "cancel of a complete request");
    MPI_Wait(&request, &status);
    MTEST_CHECK(calls.n_query == 1 && calls.n_free == 1 && request == MPI_REQUEST_NULL,
                "wait queries and frees");
    MTEST_CHECK(status.MPI_SOURCE == 3 && status.MPI_TAG == 4, "the status is the query's");

    calls = (struct calls){.query_error = MPI_ERR_OTHER};
    request = start(&calls);
    MPI_Grequest_complete(request);
    MTEST_CLASS(MPI_Wait(&request, &status), MPI_ERR_OTHER);
    MTEST_CHECK(calls.n_free == 1, "freed although the query failed");

    calls = (struct calls){.free_error = MPI_ERR_ARG};
    request = start(&calls);
    MPI_Grequest_complete(request);
    MTEST_CLASS(MPI_Wait(&request, &status), MPI_ERR_ARG);

    calls = (struct calls){.cancel_error = MPI_ERR_OTHER};
    request = start(&calls);
    MTEST_CLASS(MPI_Cancel(&request), MPI_ERR_OTHER);
    MPI_Grequest_complete(request);
    MTEST_CLASS(MPI_Wait(&request, &status), MPI_SUCCESS);

    calls = (struct calls){0};
    request = start(&calls);
    flag = 0;
    {
        MPI_Request kept = request;
        MPI_Request_free(&request);
        MTEST_CHECK(calls.n_free == 0, "a request that is freed while active lives until it completes");
        MPI_Grequest_complete(kept);
        MTEST_CHECK(calls.n_free == 1, "and is freed then");
    }

    status.MPI_ERROR = 77;
    MPI_Wait(&request, &status);
    MTEST_CHECK(status.MPI_ERROR == MPI_SUCCESS && status.MPI_SOURCE == MPI_ANY_SOURCE &&
                    status.MPI_TAG == MPI_ANY_TAG,
                "the empty status has MPI_SUCCESS in MPI_ERROR");
    return mtest_end();
}
