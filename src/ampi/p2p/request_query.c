/* SPDX-License-Identifier: BSD-3-Clause
 *
 * request_query.c: all forms of Request_get_status (MPI 5.0, section 3.7.6), and tests with +schedule.
 */
#include "ampi/p2p/request_set.h"

/* ---- Polls with +schedule ---- */

bool ampi_poll_all_specially(struct request_set *set)
{
    enum ampi_poll poll = ampi_poll_begin();
    bool has_found;

    while (poll != AMPI_POLL_NOTHING && set->n_active > 0 && ampi_poll_again(poll))
        set_count(set);
    set_count(set);
    has_found = poll != AMPI_POLL_NOTHING && set->n_active == 0;
    ampi_poll_end(has_found);
    return has_found;
}

bool ampi_poll_one_specially(struct ampi_request *request)
{
    struct request_set set = {.requests = &request, .n_requests = 1};

    set_count(&set);
    return ampi_poll_all_specially(&set);
}

bool ampi_poll_any_specially(struct request_set *set)
{
    enum ampi_poll poll = ampi_poll_begin();

    while (poll == AMPI_POLL_ANY && set->n_active == set->n_live && ampi_poll_again(poll))
        set_count(set);
    set_count(set);
    if (poll == AMPI_POLL_SUCCESS || (poll == AMPI_POLL_ANY && set->n_active < set->n_live))
        return true;
    ampi_poll_end(false);
    return false;
}

/* ---- Without completing requests ---- */

/* The status of a request, which is unchanged. */
static void copy_status(struct ampi_request *request, MPI_Status *status)
{
    if (request->kind->query)
        request->kind->query(request, &request->status);
    ampi_status_hand_out(status, &request->status);
}

AMPI_EXPORT(Request_get_status);
ULT_JUMPS_BACK int PMPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    struct ampi_request *object = ampi_request_of(request);

    ampi_enter("MPI_Request_get_status");
    if (BASE_UNLIKELY(!flag))
        return ampi_raise_self(MPI_ERR_ARG, "the address of the flag is NULL");
    if (BASE_UNLIKELY(!object && request != MPI_REQUEST_NULL))
        return ampi_request_raise_invalid(request);
    *flag = 1;
    if (!is_live(object)) {
        set_status_empty(status);
        return MPI_SUCCESS;
    }
    *flag = poll_one(object);
    if (*flag) {
        copy_status(object, status);
        return MPI_SUCCESS;
    }
    ult_yield();
    return MPI_SUCCESS;
}

AMPI_EXPORT(Request_get_status_all);
ULT_JUMPS_BACK int PMPI_Request_get_status_all(int count, const MPI_Request array_of_requests[], int *flag,
                                               MPI_Status array_of_statuses[])
{
    struct request_set set;
    int error;

    ampi_enter("MPI_Request_get_status_all");
    if (BASE_UNLIKELY(!flag))
        return ampi_raise_self(MPI_ERR_ARG, "the address of the flag is NULL");
    if ((error = set_open(&set, count, (MPI_Request *)array_of_requests)))
        return error;
    *flag = poll_all(&set);
    for (int i = 0; *flag && i < count && array_of_statuses != MPI_STATUSES_IGNORE; i++) {
        if (is_live(set.requests[i]))
            copy_status(set.requests[i], &array_of_statuses[i]);
        else
            set_status_empty(&array_of_statuses[i]);
    }
    set_close(&set);
    if (!*flag)
        ult_yield();
    return MPI_SUCCESS;
}

AMPI_EXPORT(Request_get_status_any);
ULT_JUMPS_BACK int PMPI_Request_get_status_any(int count, const MPI_Request array_of_requests[], int *index,
                                               int *flag, MPI_Status *status)
{
    struct request_set set;
    int error;

    ampi_enter("MPI_Request_get_status_any");
    if (BASE_UNLIKELY(!index || !flag))
        return ampi_raise_self(MPI_ERR_ARG, "the address of the %s is NULL", index ? "flag" : "index");
    if ((error = set_open(&set, count, (MPI_Request *)array_of_requests)))
        return error;
    if (set.n_live > 0 && set.n_active == set.n_live)
        ult_progress();
    *index = MPI_UNDEFINED;
    *flag = set.n_live == 0;
    if (*flag)
        set_status_empty(status);
    for (int i = 0; i < count && !*flag; i++)
        if (is_complete(set.requests[i])) {
            copy_status(set.requests[i], status);
            *index = i;
            *flag = 1;
        }
    set_close(&set);
    if (!*flag)
        ult_yield();
    return MPI_SUCCESS;
}

AMPI_EXPORT(Request_get_status_some);
ULT_JUMPS_BACK int PMPI_Request_get_status_some(int incount, const MPI_Request array_of_requests[],
                                                int *outcount, int array_of_indices[],
                                                MPI_Status array_of_statuses[])
{
    struct request_set set;
    int error;

    ampi_enter("MPI_Request_get_status_some");
    if (BASE_UNLIKELY(!outcount || (incount > 0 && !array_of_indices)))
        return ampi_raise_self(MPI_ERR_ARG, "the address of the %s is NULL",
                               outcount ? "indices" : "outcount");
    if ((error = set_open(&set, incount, (MPI_Request *)array_of_requests)))
        return error;
    if (set.n_live > 0 && set.n_active == set.n_live)
        ult_progress();
    *outcount = set.n_live == 0 ? MPI_UNDEFINED : 0;
    for (int i = 0; i < incount; i++)
        if (is_complete(set.requests[i])) {
            copy_status(set.requests[i], array_of_statuses == MPI_STATUSES_IGNORE
                                             ? MPI_STATUS_IGNORE
                                             : &array_of_statuses[*outcount]);
            array_of_indices[(*outcount)++] = i;
        }
    set_close(&set);
    if (*outcount == 0)
        ult_yield();
    return MPI_SUCCESS;
}
