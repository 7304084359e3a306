/* SPDX-License-Identifier: BSD-3-Clause
 *
 * direct_requests.c: private requests of the program, and the calls before functions that know no endpoints.
 * See direct.h.
 */
#include "ampi/object/gate.h"
#include "ampi/p2p/thread/direct.h"
#include "ampi/p2p/p2p.h"

/* Requests that one call waits for. */
#define REQUESTS_MAX 256

/* A thread enters its PE at one of this many tests that find nothing. */
#define TESTS_OUTSIDE 16

void ampi_direct_drop(const struct ampi_direct_call *call, struct ampi_request *first,
                      struct ampi_request *last, int n)
{
    struct ult *entered;

    if (BASE_LIKELY(ampi_endpoint_retire(first->comm, first, last, n)))
        return;
    entered = ampi_gate_enter(call->name, call->from);
    for (struct ampi_request *request = first, *next; n-- > 0; request = next) {
        next = request->next;
        ampi_endpoint_publish(request);
        ampi_request_destroy(request);
    }
    ampi_gate_leave(entered);
}

/* ---- Requests of the program ---- */

/* The object of a request that this file can complete. */
static struct ampi_request *find_request(const struct ampi_direct_call *call, MPI_Request handle)
{
    struct ampi_request *request = ampi_request_of(handle);

    if (!request || (request != &ampi_request_done &&
                     (!ampi_request_is_private(request) || ampi_gate_rank(call->from) != request->owner)))
        return NULL;
    return request;
}

static bool is_fine(const struct ampi_request *request)
{
    return request->status.MPI_ERROR == MPI_SUCCESS;
}

/* Takes a complete request from the program; false: it has failed. */
static bool retire(const struct ampi_direct_call *call, MPI_Request *handle, struct ampi_request *request,
                   MPI_Status *status)
{
    if (!is_fine(request))
        return false;
    ampi_status_hand_out(status, &request->status);
    *handle = MPI_REQUEST_NULL;
    if (request != &ampi_request_done) {
        request->magic = AMPI_MAGIC_DEAD;
        ampi_direct_drop(call, request, request, 1);
    }
    return true;
}

bool ampi_direct_wait(struct ampi_direct_call *call, MPI_Request *request, MPI_Status *status)
{
    struct ampi_request *object = request ? find_request(call, *request) : NULL;

    call->result = MPI_SUCCESS;
    return object && ampi_endpoint_spin(object) && retire(call, request, object, status);
}

bool ampi_direct_test(struct ampi_direct_call *call, MPI_Request *request, int *flag, MPI_Status *status)
{
    struct ampi_request *object = request && flag ? find_request(call, *request) : NULL;
    struct ult *entered;

    if (!object)
        return false;
    call->result = MPI_SUCCESS;
    if (!ampi_endpoint_poll(object) &&
        (ult_self() || object->comm->endpoint->n_tests++ % TESTS_OUTSIDE == 0)) {
        /* As MPI_Test: the PE makes progress, other ranks run. */
        entered = ampi_gate_enter(call->name, call->from);
        ampi_enter(call->name);
        ult_progress();
        if (!ampi_endpoint_is_complete(object))
            ult_yield();
        ampi_gate_leave(entered);
    }
    *flag = ampi_endpoint_is_complete(object);
    return !*flag || retire(call, request, object, status);
}

/* The same for requests of several handles. */
static void drop_all(const struct ampi_direct_call *call, struct ampi_request *const requests[], int n)
{
    for (int i = 0, j; i < n; i = j) {
        struct ampi_comm *comm = requests[i]->comm;
        for (j = i + 1; j < n && requests[j]->comm == comm; j++)
            requests[j - 1]->next = requests[j];
        ampi_direct_drop(call, requests[i], requests[j - 1], j - i);
    }
}

bool ampi_direct_waitall(struct ampi_direct_call *call, int count, MPI_Request requests[],
                         MPI_Status statuses[])
{
    struct ampi_request *objects[REQUESTS_MAX];
    int n = 0;

    if (count <= 0 || count > REQUESTS_MAX || !requests)
        return false;
    for (int i = 0; i < count; i++) {
        struct ampi_request *object = find_request(call, requests[i]);
        if (!object)
            return false;
        objects[i] = object;
    }
    for (int i = 0; i < count; i++)
        if (!ampi_endpoint_spin(objects[i]) || !is_fine(objects[i]))
            return false;
    for (int i = 0; i < count; i++) {
        struct ampi_request *object = objects[i];
        if (statuses != MPI_STATUSES_IGNORE)
            ampi_status_hand_out(&statuses[i], &object->status);
        requests[i] = MPI_REQUEST_NULL;
        if (object == &ampi_request_done)
            continue;
        object->magic = AMPI_MAGIC_DEAD;
        objects[n++] = object;
    }
    drop_all(call, objects, n);
    call->result = MPI_SUCCESS;
    return true;
}

/* ---- Before other functions ---- */

static struct ampi_comm *comm_of(MPI_Comm handle)
{
    return ampi_handle_has_magic(handle, AMPI_MAGIC_COMM) && ((struct ampi_comm *)handle)->endpoint
               ? (struct ampi_comm *)handle
               : NULL;
}

static void leave_to(struct ampi_comm *comm, int dest)
{
    if ((unsigned)dest < (unsigned)comm->peer->n_ranks)
        ampi_endpoint_leave(&comm->peer->handles[dest]);
}

void ampi_direct_leave(MPI_Comm handle)
{
    struct ampi_comm *comm = comm_of(handle);

    if (comm)
        ampi_endpoint_leave(comm);
}

void ampi_direct_leave_to(MPI_Comm handle, int dest)
{
    struct ampi_comm *comm =
        ampi_handle_has_magic(handle, AMPI_MAGIC_COMM) ? (struct ampi_comm *)handle : NULL;

    if (comm)
        leave_to(comm, dest);
}

void ampi_direct_close(const MPI_Comm *handle)
{
    struct ampi_comm *comm = handle ? comm_of(*handle) : NULL;

    if (comm)
        ampi_endpoint_close(comm);
}

void ampi_direct_publish(int count, const MPI_Request requests[])
{
    for (int i = 0; requests && i < count; i++) {
        struct ampi_request *request = ampi_request_of(requests[i]);
        if (request)
            ampi_endpoint_publish(request);
    }
}

void ampi_direct_cancel(const MPI_Request *handle)
{
    struct ampi_request *request = handle ? ampi_request_of(*handle) : NULL;

    if (!request || !request->comm || !request->comm->endpoint)
        return;
    ampi_endpoint_publish(request);
    if (ampi_request_is_recv(request))
        ampi_endpoint_leave(request->comm);
    else if (ampi_request_is_send(request))
        leave_to(request->comm, request->u.p2p.peer_rank);
}
