/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows the life of a request: a rank that waits for several is woken once, when enough of them are complete;
 * an abandoned one is freed at completion; a part notifies its parent; a persistent one becomes inactive;
 * memory is reused; a second thread cannot wait for it, or free it.
 */
#include "ampi/p2p/request.h"
#include "mpi_job.h"

static int n_released;
static void release(struct ampi_request *request)
{
    n_released++;
}
static const struct ampi_request_kind kind = {.name = "test", .release = release};
static struct ampi_request *requests[6];

/* Rank 1 completes rank 0's requests, one at a time, and sees whether that makes rank 0 ready. */
static void await(struct ampi_rank *self)
{
    struct ampi_rank *waiter = &ampi_job.ranks[0];

    if (self == waiter) {
        for (int i = 0; i < 6; i++)
            requests[i] = ampi_request_create(self, &kind, NULL, false);
        ampi_request_await(requests[0]);
        ULT_CHECK(requests[0]->state == AMPI_REQUEST_COMPLETE && ampi_request_is_active(requests[1]));
        ampi_request_await(requests[0]);                 /* complete: does not block */
        ULT_CHECK(ampi_request_await_n(requests, 6, 3)); /* one of the six is complete already */
        ULT_CHECK(!ampi_request_is_active(requests[3]) && ampi_request_is_active(requests[4]));
        for (int i = 0; i < 6; i++)
            ULT_CHECK(!requests[i]->awaited_by);
        ULT_CHECK(ampi_request_await_n(requests, 6, 6)); /* more than are left */
        ULT_CHECK(ampi_request_await_n(requests, 6, 1)); /* none is left */
        for (int i = 0; i < 6; i++)
            ampi_request_destroy(requests[i]);
        ULT_CHECK(n_released == 6);
        return;
    }
    for (int i = 0; i < 6; i++) {
        while (waiter->ult.state != ULT_BLOCKED)
            ult_yield();
        ampi_request_complete(requests[i]);
        /* The waits end with the 1st, the 4th and the 6th completion. */
        ULT_CHECK((waiter->ult.state == ULT_READY) == (i == 0 || i == 3 || i == 5));
    }
}

START_TEST(woken_when_enough_are_complete)
{
    n_released = 0;
    mpi_job_start(2, 1, await);
}
END_TEST

static int n_told;
static void told(struct ampi_request *part, struct ampi_request *whole)
{
    n_told++;
    ULT_CHECK(whole == requests[0]);
    ampi_request_destroy(part);
}

static int query(struct ampi_request *request, MPI_Status *status)
{
    status->MPI_TAG = 77;
    return MPI_ERR_OTHER;
}
static const struct ampi_request_kind queried = {.name = "test", .query = query};

static void life(struct ampi_rank *self)
{
    struct ampi_request *request, *again;
    MPI_Request handle;
    MPI_Status status;

    /* Memory. */
    request = ampi_request_create(self, &kind, self->world, false);
    ULT_CHECK(request->magic == AMPI_MAGIC_REQUEST && ampi_request_is_active(request));
    ULT_CHECK(ampi_request_of((MPI_Request)request) == request && self->world->n_pending == 1);
    ampi_request_complete(request);
    ampi_request_destroy(request);
    ULT_CHECK(request->magic == AMPI_MAGIC_DEAD && self->world->n_pending == 0);
    ULT_CHECK(ampi_request_of((MPI_Request)request) == NULL && ampi_request_of(MPI_REQUEST_NULL) == NULL);
    again = ampi_request_create(self, &kind, NULL, false);
    ULT_CHECK(again == request);

    /* Abandoned: goes at completion. */
    n_released = 0;
    ampi_request_abandon(again);
    ampi_request_complete(again);
    ULT_CHECK(n_released == 1 && again->magic == AMPI_MAGIC_DEAD);

    /* Parts: one that completes later, one that has completed. */
    n_told = 0;
    requests[0] = ampi_request_create(self, &kind, NULL, false);
    for (int i = 0; i < 2; i++) {
        request = ampi_request_create(self, &kind, NULL, false);
        if (i == 1)
            ampi_request_complete(request);
        ampi_request_attach(requests[0], request, told);
        ULT_CHECK(n_told == 2 * i);
        if (i == 0)
            ampi_request_complete(request);
        ULT_CHECK(n_told == i + 1);
    }
    ampi_request_complete(requests[0]);
    ampi_request_destroy(requests[0]);

    /* Retired: the handle is gone, the status and the result are what the operation said. */
    request = ampi_request_create(self, &queried, NULL, false);
    handle = (MPI_Request)request;
    ampi_request_complete(request);
    ULT_CHECK(ampi_request_retire(&handle, request, &status) == MPI_ERR_OTHER);
    ULT_CHECK(handle == MPI_REQUEST_NULL && status.MPI_TAG == 77 && request->magic == AMPI_MAGIC_DEAD);
    request = ampi_request_create(self, &kind, NULL, true);
    handle = (MPI_Request)request;
    ULT_CHECK(request->state == AMPI_REQUEST_INACTIVE);
    request->state = AMPI_REQUEST_ACTIVE;
    ampi_request_complete(request);
    ULT_CHECK(ampi_request_retire(&handle, request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    ULT_CHECK(handle == (MPI_Request)request && request->state == AMPI_REQUEST_INACTIVE);
    ampi_request_destroy(request);

    /* The one that stands for all sends that were complete at once. */
    ampi_request_destroy(&ampi_request_done);
    ULT_CHECK(ampi_request_done.magic == AMPI_MAGIC_REQUEST &&
              ampi_request_done.state == AMPI_REQUEST_COMPLETE);
}

/* Another thread waits for the second of two requests. */
static void await_taken(struct ampi_rank *self)
{
    struct ampi_request *own = ampi_request_create(self, &kind, NULL, false);
    struct ampi_request *taken = ampi_request_create(self, &kind, NULL, false);
    MPI_Request handles[2] = {(MPI_Request)own, (MPI_Request)taken}, twice[2] = {handles[0], handles[0]};
    struct ult other = {0};
    int index, n, indices[2];

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    taken->awaited_by = &other;
    ULT_CHECK(MPI_Wait(&handles[1], MPI_STATUS_IGNORE) == MPI_ERR_REQUEST);
    ULT_CHECK(MPI_Waitall(2, handles, MPI_STATUSES_IGNORE) == MPI_ERR_REQUEST);
    ULT_CHECK(MPI_Waitany(2, handles, &index, MPI_STATUS_IGNORE) == MPI_ERR_REQUEST);
    ULT_CHECK(MPI_Waitsome(2, handles, &n, indices, MPI_STATUSES_IGNORE) == MPI_ERR_REQUEST);
    ULT_CHECK(MPI_Request_free(&handles[1]) == MPI_ERR_REQUEST);
    ULT_CHECK(MPI_Waitall(2, twice, MPI_STATUSES_IGNORE) == MPI_ERR_REQUEST);
    ULT_CHECK(!own->awaited_by && taken->awaited_by == &other && handles[1] == (MPI_Request)taken);
    taken->awaited_by = NULL;
    ampi_request_complete(own);
    ampi_request_complete(taken);
    ULT_CHECK(MPI_Waitall(2, handles, MPI_STATUSES_IGNORE) == MPI_SUCCESS);

    /* Twice in the array, and complete: it ends once. */
    own = ampi_request_create(self, &kind, NULL, false);
    twice[0] = twice[1] = (MPI_Request)own;
    ampi_request_complete(own);
    ULT_CHECK(MPI_Waitall(2, twice, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    own = ampi_request_create(self, &kind, NULL, false);
    taken = ampi_request_create(self, &kind, NULL, false);
    ULT_CHECK(own != taken);
    ampi_request_destroy(own);
    ampi_request_destroy(taken);
}

START_TEST(one_thread_waits_for_a_request)
{
    mpi_job_start(1, 1, await_taken);
}
END_TEST

START_TEST(from_creation_to_retirement)
{
    mpi_job_start(1, 1, life);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("request");
    TCase *tcase = tcase_create("request");

    tcase_add_test(tcase, woken_when_enough_are_complete);
    tcase_add_test(tcase, one_thread_waits_for_a_request);
    tcase_add_test(tcase, from_creation_to_retirement);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
