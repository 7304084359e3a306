/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wait.c: all forms of Wait and Test (MPI 5.0, sections 3.7.3 and 3.7.5).
 *
 * A Test first polls for the PE; if it finds nothing it lets the other ranks of the PE run before it
 * returns, so that loops around it make progress.
 */
#include <stdlib.h>
#include <string.h>

#include "ampi/datatype/buffer.h"
#include "ampi/p2p/p2p_watch.h"
#include "ampi/p2p/request_set.h"

/* True if retiring a complete request cannot return an error. */
static inline bool is_fine(const struct ampi_request *request)
{
    return request->status.MPI_ERROR == MPI_SUCCESS && !request->kind->query && !request->kind->finish;
}

/* ampi_request_retire of such a request, in line. */
static inline int retire_fine(MPI_Request *handle, struct ampi_request *request, MPI_Status *status)
{
    ampi_status_hand_out(status, &request->status);
    if (request->is_persistent) {
        request->state = AMPI_REQUEST_INACTIVE;
    } else {
        ampi_request_destroy(request);
        *handle = MPI_REQUEST_NULL;
    }
    return MPI_SUCCESS;
}

/* Retires a complete request and keeps its communicator for the error handler, although the request may be
 * the last to hold it. The caller drops *comm_out, unless it is NULL: the request has none. */
static BASE_COLD int retire_keeping_comm(MPI_Request *handle, struct ampi_request *request,
                                         MPI_Status *status, struct ampi_comm **comm_out)
{
    *comm_out = request->comm;
    if (request->comm)
        request->comm->n_pending++;
    return ampi_request_retire(handle, request, status);
}

static void drop_comm(struct ampi_comm *comm)
{
    if (comm)
        ampi_comm_drop_pending(comm);
}

/* The first of several requests that failed. */
struct failure {
    int error;              /* MPI_SUCCESS: none failed */
    struct ampi_comm *comm; /* its communicator, counted as pending; NULL: it has none */
    bool is_raised;         /* it has called an error handler already */
    char *text;             /* why, malloc'ed; NULL: not known */
};

static BASE_COLD void drop_failure(const struct failure *failure)
{
    free(failure->text);
    drop_comm(failure->comm);
}

/* Why an operation failed, malloc'ed; NULL: not known. Once for each, in order. */
static BASE_COLD char *describe(const struct ampi_comm *comm, const MPI_Status *status)
{
    char text[900];

    return ampi_p2p_describe_truncated(comm, status, text, sizeof text) ? strdup(text) : NULL;
}

/* Retires one of several complete requests; returns its error. */
static inline int retire_one_of(MPI_Request *handle, struct ampi_request *request, MPI_Status *status,
                                struct failure *failure)
{
    bool is_raised = request->kind->raises_itself;
    struct ampi_comm *comm;
    MPI_Status result;
    int error;

    if (BASE_LIKELY(is_fine(request)))
        return retire_fine(handle, request, status);
    result = request->status;
    error = retire_keeping_comm(handle, request, status, &comm);
    if (error && !failure->error) {
        *failure = (struct failure){error, comm, is_raised, describe(comm, &result)};
        return error;
    }
    if (error)
        free(describe(comm, &result));
    drop_comm(comm);
    return error;
}

/* Raises that some of several requests have failed, on the communicator of the first of these; on
 * MPI_COMM_SELF if it has none. */
static BASE_COLD int raise_in_status(const struct failure *failure)
{
    const char *gpu_text = ampi_device_error_text(ampi_self(), MPI_ERR_OTHER);
    const char *text = gpu_text ? gpu_text : failure->text;
    const char *join = gpu_text ? ". Data on a GPU could not be moved: " : text ? ": " : "";
    int error;

    if (failure->is_raised) {
        free(failure->text);
        return MPI_ERR_IN_STATUS;
    }
    error = ampi_raise_on_comm(failure->comm, MPI_ERR_IN_STATUS, "an operation failed; see the statuses%s%s",
                               join, text ? text : "");
    free(failure->text);
    drop_comm(failure->comm);
    return error;
}

/* Retires one complete request of a call that returns its error itself, and raises that. */
static int retire_one(MPI_Request *handle, struct ampi_request *request, MPI_Status *status)
{
    bool is_raised = request->kind->raises_itself;
    struct ampi_comm *comm;
    MPI_Status result;
    int error;

    if (BASE_LIKELY(is_fine(request)))
        return retire_fine(handle, request, status);
    result = request->status;
    result.MPI_ERROR = retire_keeping_comm(handle, request, status, &comm);
    error = is_raised ? result.MPI_ERROR : ampi_p2p_result(comm, &result);
    drop_comm(comm);
    return error;
}

/* ---- One request ---- */

AMPI_EXPORT(Wait);
ULT_JUMPS_BACK BASE_FLATTEN int PMPI_Wait(MPI_Request *request, MPI_Status *status)
{
    struct ampi_request *object;

    ampi_enter("MPI_Wait");
    if (BASE_UNLIKELY(!request))
        return ampi_raise_self(MPI_ERR_REQUEST, "the address of the request is NULL");
    object = ampi_request_of(*request);
    if (BASE_UNLIKELY(!object && *request != MPI_REQUEST_NULL))
        return ampi_request_raise_invalid(*request);
    if (!is_live(object)) {
        set_status_empty(status);
        return MPI_SUCCESS;
    }
    if (!is_complete(object)) {
        if (BASE_UNLIKELY(object->awaited_by != NULL))
            return ampi_request_raise_awaited();
        ampi_request_await(object);
    }
    return retire_one(request, object, status);
}

AMPI_EXPORT(Test);
ULT_JUMPS_BACK int PMPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    struct ampi_request *object;

    ampi_enter("MPI_Test");
    if (BASE_UNLIKELY(!request || !flag))
        return ampi_raise_self(request ? MPI_ERR_ARG : MPI_ERR_REQUEST, "the address of the %s is NULL",
                               request ? "flag" : "request");
    object = ampi_request_of(*request);
    if (BASE_UNLIKELY(!object && *request != MPI_REQUEST_NULL))
        return ampi_request_raise_invalid(*request);
    *flag = 1;
    if (!is_live(object)) {
        set_status_empty(status);
        return MPI_SUCCESS;
    }
    *flag = poll_one(object);
    if (*flag)
        return retire_one(request, object, status);
    ult_yield();
    return MPI_SUCCESS;
}

/* ---- All ---- */

/* The first n requests have not failed, but another one has. */
static BASE_COLD void set_no_error(MPI_Status statuses[], int n)
{
    for (int i = 0; i < n && statuses != MPI_STATUSES_IGNORE; i++)
        statuses[i].MPI_ERROR = MPI_SUCCESS;
}

/* Retires all live requests, which are complete, and fills the statuses. Sets their MPI_ERROR only if one
 * failed. The set has the requests from this index of the arrays on. */
static inline void retire_all(struct request_set *set, int first, MPI_Request handles[],
                              MPI_Status statuses[], struct failure *failure)
{
    for (int i = 0; i < set->n_requests; i++) {
        struct ampi_request *request = set->requests[i];
        MPI_Status *status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[first + i];
        int error = MPI_SUCCESS;
        if (is_complete(request)) {
            bool had_failed = failure->error != MPI_SUCCESS;
            error = retire_one_of(&handles[first + i], request, status, failure);
            if (BASE_UNLIKELY(error && !had_failed))
                set_no_error(statuses, first + i);
        } else {
            set_status_empty(status);
        }
        if (BASE_UNLIKELY(failure->error && status != MPI_STATUS_IGNORE))
            status->MPI_ERROR = error;
    }
}

/* One set after another: a request is retired soon after it has completed, while the caches have it, and the first poll
 * comes before all of a long array has been read, while other processes send. */
AMPI_EXPORT(Waitall);
ULT_JUMPS_BACK BASE_FLATTEN int PMPI_Waitall(int count, MPI_Request array_of_requests[],
                                             MPI_Status *array_of_statuses)
{
    struct failure failure = {.error = MPI_SUCCESS};
    struct request_set set;
    int first = 0, error = MPI_SUCCESS;

    ampi_enter("MPI_Waitall");
    do {
        int n = count - first < REQUESTS_ON_STACK ? count - first : REQUESTS_ON_STACK;
        if ((error = set_open(&set, n, array_of_requests + first)))
            break;
        if (set.n_active > 0 && !ampi_request_await_n(set.requests, n, set.n_active)) {
            error = ampi_request_raise_awaited();
            break;
        }
        retire_all(&set, first, array_of_requests, array_of_statuses, &failure);
        first += n;
    } while (BASE_UNLIKELY(first < count));
    if (BASE_LIKELY(!failure.error))
        return error;
    if (!error)
        return raise_in_status(&failure);
    drop_failure(&failure);
    return error;
}

AMPI_EXPORT(Testall);
ULT_JUMPS_BACK int PMPI_Testall(int count, MPI_Request array_of_requests[], int *flag,
                                MPI_Status *array_of_statuses)
{
    struct failure failure = {.error = MPI_SUCCESS};
    struct request_set set;
    int error;

    ampi_enter("MPI_Testall");
    if (BASE_UNLIKELY(!flag))
        return ampi_raise_self(MPI_ERR_ARG, "the address of the flag is NULL");
    if ((error = set_open(&set, count, array_of_requests)))
        return error;
    *flag = poll_all(&set);
    if (*flag) {
        retire_all(&set, 0, array_of_requests, array_of_statuses, &failure);
        error = failure.error ? raise_in_status(&failure) : MPI_SUCCESS;
    }
    set_close(&set);
    if (!*flag)
        ult_yield();
    return error;
}

/* ---- Any ---- */

/* Retires the first complete request from this index on; false: there is none. */
static bool retire_any(struct request_set *set, MPI_Request handles[], int first, int *index,
                       MPI_Status *status, int *error_out)
{
    for (int k = 0, i = first; k < set->n_requests; k++, i = i + 1 < set->n_requests ? i + 1 : 0)
        if (is_complete(set->requests[i])) {
            *index = i;
            if (ampi_schedule_asks())
                ampi_schedule_found(i);
            *error_out = retire_one(&handles[i], set->requests[i], status);
            return true;
        }
    return false;
}

AMPI_EXPORT(Waitany);
ULT_JUMPS_BACK int PMPI_Waitany(int count, MPI_Request array_of_requests[], int *index, MPI_Status *status)
{
    struct request_set set;
    int error, first = 0;

    ampi_enter("MPI_Waitany");
    if (BASE_UNLIKELY(!index))
        return ampi_raise_self(MPI_ERR_ARG, "the address of the index is NULL");
    if ((error = set_open(&set, count, array_of_requests)))
        return error;
    if (BASE_UNLIKELY(ampi_schedule) && set.n_live > 0) {
        first = ampi_schedule_first(set.requests, count);
        set_count(&set);
    }
    if (set.n_live == 0) {
        *index = MPI_UNDEFINED;
        set_status_empty(status);
    } else if (set.n_active == set.n_live && !ampi_request_await_n(set.requests, count, 1)) {
        error = ampi_request_raise_awaited();
    } else {
        retire_any(&set, array_of_requests, first, index, status, &error);
    }
    set_close(&set);
    return error;
}

AMPI_EXPORT(Testany);
ULT_JUMPS_BACK int PMPI_Testany(int count, MPI_Request array_of_requests[], int *index, int *flag,
                                MPI_Status *status)
{
    struct request_set set;
    int error, first = 0;

    ampi_enter("MPI_Testany");
    if (BASE_UNLIKELY(!index || !flag))
        return ampi_raise_self(MPI_ERR_ARG, "the address of the %s is NULL", index ? "flag" : "index");
    if ((error = set_open(&set, count, array_of_requests)))
        return error;
    *index = MPI_UNDEFINED;
    *flag = 1;
    if (set.n_live == 0) {
        set_status_empty(status);
    } else {
        *flag = poll_any(&set);
        if (*flag && BASE_UNLIKELY(ampi_schedule))
            first = ampi_schedule_first(set.requests, count);
        *flag = *flag && retire_any(&set, array_of_requests, first, index, status, &error);
    }
    set_close(&set);
    if (!*flag)
        ult_yield();
    return error;
}

/* ---- Some ---- */

/* Retires every complete request, or only those that are meant. The statuses' MPI_ERROR is set only if one failed. */
static int retire_some(struct request_set *set, MPI_Request handles[], int *outcount, int indices[],
                       MPI_Status statuses[], const bool *is_meant)
{
    struct failure failure = {.error = MPI_SUCCESS};
    int n_done = 0;

    for (int i = 0; i < set->n_requests; i++) {
        MPI_Status *status = statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[n_done];
        bool had_failed = failure.error != MPI_SUCCESS;
        int error;
        if (!is_complete(set->requests[i]) || (BASE_UNLIKELY(is_meant != NULL) && !is_meant[i]))
            continue;
        error = retire_one_of(&handles[i], set->requests[i], status, &failure);
        if (BASE_UNLIKELY(error && !had_failed))
            set_no_error(statuses, n_done);
        if (BASE_UNLIKELY(failure.error && status != MPI_STATUS_IGNORE))
            status->MPI_ERROR = error;
        indices[n_done++] = i;
    }
    *outcount = n_done;
    if (ampi_schedule_asks() && n_done > 0)
        ampi_schedule_found_some(indices, n_done);
    return failure.error ? raise_in_status(&failure) : MPI_SUCCESS;
}

/* With +schedule: the requests that the call has to find; NULL: all that are complete. May switch. */
static bool *restrict_some(struct request_set *set)
{
    bool *is_meant;

    if (!ampi_schedule_asks() || set->n_live == 0)
        return NULL;
    is_meant = base_malloc((size_t)set->n_requests, "an array of requests");
    if (!ampi_schedule_some(set->requests, set->n_requests, is_meant)) {
        free(is_meant);
        return NULL;
    }
    set_count(set);
    return is_meant;
}

/* MPI_Waitsome and MPI_Testsome. */
static int some(int incount, MPI_Request handles[], int *outcount, int indices[], MPI_Status statuses[],
                bool may_wait)
{
    struct request_set set;
    bool is_idle = false, *is_meant = NULL;
    int error;

    if (BASE_UNLIKELY(!outcount || (incount > 0 && !indices)))
        return ampi_raise_self(MPI_ERR_ARG, "the address of the %s is NULL",
                               outcount ? "indices" : "outcount");
    if ((error = set_open(&set, incount, handles)))
        return error;
    if (may_wait)
        is_meant = restrict_some(&set);
    if (set.n_live == 0) {
        *outcount = MPI_UNDEFINED;
    } else if (may_wait && set.n_active == set.n_live && !ampi_request_await_n(set.requests, incount, 1)) {
        error = ampi_request_raise_awaited();
    } else {
        if (!may_wait && poll_any(&set))
            is_meant = restrict_some(&set);
        else if (!may_wait)
            set.n_requests = 0;
        error = retire_some(&set, handles, outcount, indices, statuses, is_meant);
        is_idle = *outcount == 0;
    }
    free(is_meant);
    set_close(&set);
    if (is_idle)
        ult_yield();
    return error;
}

AMPI_EXPORT(Waitsome);
ULT_JUMPS_BACK int PMPI_Waitsome(int incount, MPI_Request array_of_requests[], int *outcount,
                                 int array_of_indices[], MPI_Status array_of_statuses[])
{
    ampi_enter("MPI_Waitsome");
    return some(incount, array_of_requests, outcount, array_of_indices, array_of_statuses, true);
}

AMPI_EXPORT(Testsome);
ULT_JUMPS_BACK int PMPI_Testsome(int incount, MPI_Request array_of_requests[], int *outcount,
                                 int array_of_indices[], MPI_Status array_of_statuses[])
{
    ampi_enter("MPI_Testsome");
    return some(incount, array_of_requests, outcount, array_of_indices, array_of_statuses, false);
}
