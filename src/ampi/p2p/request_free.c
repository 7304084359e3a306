/* SPDX-License-Identifier: BSD-3-Clause
 *
 * request_free.c: MPI_Request_free, MPI_Cancel and MPI_Test_cancelled (MPI 5.0, sections 3.7.3 and 3.8.4).
 */
#include "ampi/p2p/p2p.h"
#include "ampi/p2p/p2p_watch.h"

/* The request of a call that does not allow MPI_REQUEST_NULL. */
static int find_request(const MPI_Request *handle, struct ampi_request **object_out)
{
    if (BASE_UNLIKELY(!handle))
        return ampi_raise_self(MPI_ERR_REQUEST, "the address of the request is NULL");
    *object_out = ampi_request_of(*handle);
    return *object_out ? MPI_SUCCESS : ampi_request_raise_invalid(*handle);
}

static BASE_COLD int raise_collective(const struct ampi_request *request, const char *what)
{
    return ampi_raise_on_comm(request->comm, MPI_ERR_REQUEST, "a collective operation cannot be %s", what);
}

AMPI_EXPORT(Request_free);
int PMPI_Request_free(MPI_Request *request)
{
    struct ampi_request *object = NULL;
    int error;

    ampi_enter("MPI_Request_free");
    if ((error = find_request(request, &object)))
        return error;
    if (BASE_UNLIKELY(object->kind->is_collective)) {
        if (ampi_request_is_active(object))
            return raise_collective(object, "freed before it is complete");
        if (object->kind->query &&
            object->state == AMPI_REQUEST_COMPLETE) /* MPI_Comm_idup: sets its handle */
            error = object->kind->query(object, &object->status);
    }
    if (BASE_UNLIKELY(object->awaited_by != NULL))
        return ampi_request_raise_awaited();
    *request = MPI_REQUEST_NULL;
    if (ampi_request_is_active(object)) {
        ampi_request_abandon(object);
        return MPI_SUCCESS;
    }
    if (BASE_UNLIKELY(object->kind->finish))
        error = object->kind->finish(object);
    if (BASE_UNLIKELY(error))
        error = ampi_raise_on_comm(object->comm, error, "the request's operation or free function failed");
    if (object->state == AMPI_REQUEST_COMPLETE)
        ampi_p2p_drop_error(object);
    ampi_request_destroy(object);
    return error;
}

AMPI_EXPORT(Cancel);
int PMPI_Cancel(MPI_Request *request)
{
    struct ampi_request *object = NULL;
    int error;

    ampi_enter("MPI_Cancel");
    if ((error = find_request(request, &object)))
        return error;
    if (BASE_UNLIKELY(object->kind->is_collective))
        return raise_collective(object, "cancelled");
    if (object->state != AMPI_REQUEST_INACTIVE && object->kind->cancel && !object->whole)
        error = object->kind->cancel(object);
    return error ? ampi_raise_self(error, "the request's cancel function failed") : MPI_SUCCESS;
}

AMPI_EXPORT(Test_cancelled);
int PMPI_Test_cancelled(const MPI_Status *status, int *flag)
{
    ampi_enter("MPI_Test_cancelled");
    if (BASE_UNLIKELY(!status || !flag))
        return ampi_raise_self(MPI_ERR_ARG, "the address of the %s is NULL", status ? "flag" : "status");
    *flag = ampi_status_is_cancelled(status);
    return MPI_SUCCESS;
}
