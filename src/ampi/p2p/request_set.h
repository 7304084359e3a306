/* SPDX-License-Identifier: BSD-3-Clause
 *
 * request_set.h: the requests of a call that waits or tests, in its array of handles. Inline for wait.c, which is hot.
 */
#ifndef AMPI_P2P_REQUEST_SET_H
#define AMPI_P2P_REQUEST_SET_H

#include "ampi/p2p/schedule.h"
#include "base/log.h"

/* Longest array of requests that is stored on the stack. */
#define REQUESTS_ON_STACK 64

/* The objects of an array of handles. NULL stands for MPI_REQUEST_NULL. */
struct request_set {
    struct ampi_request **requests;
    struct ampi_request *on_stack[REQUESTS_ON_STACK];
    int n_requests;
    int n_live;   /* ACTIVE or COMPLETE */
    int n_active; /* not COMPLETE yet */
};

static inline void count_one(struct request_set *set, const struct ampi_request *request)
{
    set->n_live += request->state != AMPI_REQUEST_INACTIVE;
    set->n_active += ampi_request_is_active(request);
}

/* Recounts the live and active requests. */
static inline void set_count(struct request_set *set)
{
    set->n_live = set->n_active = 0;
    for (int i = 0; i < set->n_requests; i++)
        if (set->requests[i])
            count_one(set, set->requests[i]);
}

static inline void set_close(struct request_set *set)
{
    if (set->requests != set->on_stack)
        free(set->requests);
}

/* Looks up the handles. After an error there is nothing to close. */
static inline int set_open(struct request_set *set, int count, MPI_Request handles[])
{
    if (BASE_UNLIKELY(count < 0))
        return ampi_raise_self(MPI_ERR_COUNT, "the count of requests %d is negative", count);
    if (BASE_UNLIKELY(count > 0 && !handles))
        return ampi_raise_self(MPI_ERR_REQUEST, "the array of %d requests is NULL", count);
    set->n_requests = count;
    set->requests = set->on_stack;
    if (count > REQUESTS_ON_STACK)
        set->requests = base_malloc((size_t)count * sizeof *set->requests, "an array of requests");
    set->n_live = set->n_active = 0;
    for (int i = 0; i < count; i++) {
        struct ampi_request *request = ampi_request_of(handles[i]);
        set->requests[i] = request;
        if (BASE_LIKELY(request != NULL)) {
            count_one(set, request);
        } else if (BASE_UNLIKELY(handles[i] != MPI_REQUEST_NULL)) {
            MPI_Request wrong = handles[i];
            set_close(set);
            return ampi_request_raise_invalid(wrong);
        }
    }
    return MPI_SUCCESS;
}

static inline bool is_live(const struct ampi_request *request)
{
    return request && request->state != AMPI_REQUEST_INACTIVE;
}

static inline bool is_complete(const struct ampi_request *request)
{
    return request && request->state == AMPI_REQUEST_COMPLETE;
}

static inline void set_status_empty(MPI_Status *status)
{
    if (status != MPI_STATUS_IGNORE)
        ampi_status_set_empty(status); /* including MPI_ERROR: section 3.7.3 */
}

/* ---- Polls ---- */

/* With +schedule. May switch. */
bool ampi_poll_one_specially(struct ampi_request *request) BASE_COLD;
bool ampi_poll_all_specially(struct request_set *set) BASE_COLD;
bool ampi_poll_any_specially(struct request_set *set) BASE_COLD;

/* True if the request is complete, after one round of progress if it is not. May switch. */
static inline bool poll_one(struct ampi_request *request)
{
    if (ampi_schedule_asks())
        return ampi_poll_one_specially(request);
    if (!is_complete(request))
        ult_progress();
    return is_complete(request);
}

/* True if all requests are complete, after one round of progress if they are not. May switch. */
static inline bool poll_all(struct request_set *set)
{
    if (ampi_schedule_asks())
        return ampi_poll_all_specially(set);
    if (set->n_active > 0) {
        ult_progress();
        set_count(set);
    }
    return set->n_active == 0;
}

/* For MPI_Testany and MPI_Testsome: false if none may be found. May switch. */
static inline bool poll_any(struct request_set *set)
{
    if (ampi_schedule_asks())
        return ampi_poll_any_specially(set);
    if (set->n_active == set->n_live)
        ult_progress();
    return true;
}

#endif
