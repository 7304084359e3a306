/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pending.c: requests with an action at their end: memory to free, a copy of an array section to store, a
 * communicator to convert. A request ends when a call from Fortran sets it to MPI_REQUEST_NULL; a request
 * that C completes leaves its entry behind. Nearly all programs have no such request: then fort_n_pending
 * is 0, and nothing is looked up.
 */
#include "fort.h"

#include <pthread.h>

int fort_n_pending;
static struct fort_pending *list; /* newest first; guarded by lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void finish(struct fort_pending *pending)
{
    if (pending->finish)
        pending->finish(pending);
    free(pending->memory);
    free(pending);
}

void fort_pending_add(MPI_Fint request, struct fort_pending *pending)
{
    if (request == fort_request_int(MPI_REQUEST_NULL)) {
        finish(pending);
        return;
    }
    pending->request = request;
    pthread_mutex_lock(&lock);
    pending->next = list;
    list = pending;
    fort_n_pending++;
    pthread_mutex_unlock(&lock);
}

/* Removes an entry of the request from the list; NULL if there is none. */
static struct fort_pending *take(MPI_Fint request)
{
    struct fort_pending *found = NULL;

    pthread_mutex_lock(&lock);
    for (struct fort_pending **at = &list; *at; at = &(*at)->next)
        if ((*at)->request == request) {
            found = *at;
            *at = found->next;
            fort_n_pending--;
            break;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

void fort_pending_finish(MPI_Fint request)
{
    struct fort_pending *pending;

    while ((pending = take(request)))
        finish(pending);
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
