/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pending.c: requests with an action at their start or end: memory to free, a copy of an array section to fill and to
 * store, a communicator to convert. An operation ends when a call from Fortran sets its request to
 * MPI_REQUEST_NULL, or is given the request and finds the operation complete (persistent requests,
 * MPI_Request_get_status); a request that C completes leaves its entry behind. Nearly all programs have no such
 * request: then fort_n_pending is 0, and nothing is looked up.
 */
#include "fort.h"

#include <pthread.h>

int fort_n_pending;
_Atomic uint64_t fort_last_pending;
static struct fort_pending *list; /* newest first; guarded by lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void finish(struct fort_pending *pending)
{
    if (pending->finish && !pending->is_done)
        pending->finish(pending);
    pending->is_done = true;
}

static void destroy(struct fort_pending *pending)
{
    free(pending->memory);
    free(pending);
}

void fort_pending_add(MPI_Fint request, struct fort_pending *pending)
{
    if (request == fort_request_int(MPI_REQUEST_NULL)) {
        finish(pending);
        destroy(pending);
        return;
    }
    pending->request = request;
    pending->is_done = pending->start != NULL;
    pthread_mutex_lock(&lock);
    pending->number = ++fort_last_pending;
    pending->next = list;
    list = pending;
    fort_n_pending++;
    pthread_mutex_unlock(&lock);
}

/* The request's next entry after one of its entries, or the first one (NULL). It stays valid while the caller has the
 * request: only the end of the request removes it. */
static struct fort_pending *next_of(MPI_Fint request, const struct fort_pending *after)
{
    struct fort_pending *found;

    pthread_mutex_lock(&lock);
    found = after ? after->next : list;
    while (found && found->request != request)
        found = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

void fort_pending_start(const MPI_Fint *requests, MPI_Count n)
{
    for (MPI_Count i = 0; fort_n_pending && i < n; i++)
        for (struct fort_pending *at = next_of(requests[i], NULL); at; at = next_of(requests[i], at))
            if (at->start) {
                at->start(at);
                at->is_done = false;
            }
}

void fort_pending_poll(MPI_Fint request)
{
    for (struct fort_pending *at = next_of(request, NULL); at; at = next_of(request, at)) {
        int is_complete = 0;
        if (at->is_done)
            continue;
        if (PMPI_Request_get_status(fort_request(request), &is_complete, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
            !is_complete)
            return;
        finish(at);
    }
}

/* Removes an entry of the request, up to the number, from the list; NULL if there is none. */
static struct fort_pending *take(MPI_Fint request, uint64_t last_pending)
{
    struct fort_pending *found = NULL;

    pthread_mutex_lock(&lock);
    for (struct fort_pending **at = &list; *at; at = &(*at)->next)
        if ((*at)->request == request && (*at)->number <= last_pending) {
            found = *at;
            *at = found->next;
            fort_n_pending--;
            break;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

void fort_pending_finish(MPI_Fint request, uint64_t last_pending)
{
    struct fort_pending *pending;

    while ((pending = take(request, last_pending))) {
        finish(pending);
        destroy(pending);
    }
}

void fort_pending_free(MPI_Request request, void *memory)
{
    struct fort_pending *pending;

    if (!memory)
        return;
    pending = fort_alloc(sizeof *pending);
    *pending = (struct fort_pending){.memory = memory};
    fort_pending_add(fort_request_int(request), pending);
}

/* ---- Freed requests ---- */

/* True if the request's operation, which has not ended, writes a copy of an array section. */
static bool writes_copy(MPI_Fint request)
{
    for (struct fort_pending *at = next_of(request, NULL); at; at = next_of(request, at))
        if (at->before && !at->is_done)
            return true;
    return false;
}

/* Called when the request does not exist any more. The memory of an operation that has not ended is not
 * freed, because MPI may still use it. */
static void abandon(MPI_Fint request, uint64_t last_pending)
{
    struct fort_pending *pending;

    while ((pending = take(request, last_pending)))
        if (pending->is_done)
            destroy(pending);
}

static void fort_Request_free(MPI_Fint *request, MPI_Fint *ierror)
{
    MPI_Request c_request = fort_request(*request);
    MPI_Fint before = *request;
    uint64_t last_pending = fort_last_pending;
    int error;

    if (fort_n_pending)
        fort_pending_poll(before);
    if (fort_n_pending && writes_copy(before)) {
        fort_return(
            ierror,
            fort_raise(MPI_COMM_SELF, MPI_ERR_REQUEST,
                       "MPI_Request_free: the operation has not ended, and writes a copy of an array section "
                       "that is not contiguous: wait for the request instead"));
        return;
    }
    error = MPI_Request_free(&c_request);
    *request = fort_request_int(c_request);
    if (fort_n_pending && c_request == MPI_REQUEST_NULL)
        abandon(before, last_pending);
    fort_return(ierror, error);
}
FORT_EXPORT(Request_free, request_free, REQUEST_FREE);

/* ---- Communicators that exist when the request is complete ---- */

static void write_comm(struct fort_pending *pending)
{
    MPI_Comm comm = *(MPI_Comm *)pending->memory;

    if (comm != MPI_COMM_NULL)
        *(MPI_Fint *)pending->target = fort_comm_int(comm);
}

/* MPI may write the communicator at any time until the end of the request, so it gets a variable that lives
 * that long. */
static void finish_idup(MPI_Fint *newcomm, MPI_Fint *request, MPI_Comm *box, MPI_Request c_request, int error)
{
    struct fort_pending *pending;

    if (error != MPI_SUCCESS) {
        free(box);
        return;
    }
    pending = fort_alloc(sizeof *pending);
    *pending = (struct fort_pending){.finish = write_comm, .memory = box, .target = newcomm};
    *newcomm = fort_comm_int(*box);
    *request = fort_request_int(c_request);
    fort_pending_add(*request, pending);
}

static MPI_Comm *new_comm(void)
{
    MPI_Comm *box = fort_alloc(sizeof *box);

    *box = MPI_COMM_NULL;
    return box;
}

static void fort_Comm_idup(const MPI_Fint *comm, MPI_Fint *newcomm, MPI_Fint *request, MPI_Fint *ierror)
{
    MPI_Comm *box = new_comm();
    MPI_Request c_request = MPI_REQUEST_NULL;
    int error = MPI_Comm_idup(fort_comm(*comm), box, &c_request);

    finish_idup(newcomm, request, box, c_request, error);
    fort_return(ierror, error);
}
FORT_EXPORT(Comm_idup, comm_idup, COMM_IDUP);

static void fort_Comm_idup_with_info(const MPI_Fint *comm, const MPI_Fint *info, MPI_Fint *newcomm,
                                     MPI_Fint *request, MPI_Fint *ierror)
{
    MPI_Comm *box = new_comm();
    MPI_Request c_request = MPI_REQUEST_NULL;
    int error = MPI_Comm_idup_with_info(fort_comm(*comm), fort_info(*info), box, &c_request);

    finish_idup(newcomm, request, box, c_request, error);
    fort_return(ierror, error);
}
FORT_EXPORT(Comm_idup_with_info, comm_idup_with_info, COMM_IDUP_WITH_INFO);
