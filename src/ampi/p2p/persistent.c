/* SPDX-License-Identifier: BSD-3-Clause
 *
 * persistent.c: MPI_Start and MPI_Startall (MPI 5.0, section 3.9) for all kinds of persistent requests, and
 * creating persistent receives and sends.
 */
#include "ampi/p2p/p2p_calls.h"

#include "ampi/datatype/work_hook.h"
#include "ampi/p2p/p2p_watch.h"

static BASE_COLD int raise_start(MPI_Request handle, const struct ampi_request *object)
{
    if (!object)
        return ampi_raise_self(MPI_ERR_REQUEST, "%p is not a valid request, or has been freed",
                               (void *)handle);
    if (!object->is_persistent)
        return ampi_raise_on_comm(object->comm, MPI_ERR_REQUEST,
                                  "the request is a %s, which is not persistent", object->kind->name);
    return ampi_raise_on_comm(object->comm, MPI_ERR_REQUEST, "the persistent %s is active already",
                              object->kind->name);
}

int ampi_check_start(MPI_Request handle, struct ampi_request **object_out)
{
    struct ampi_request *object = ampi_request_of(handle);

    if (BASE_UNLIKELY(!object || object->state != AMPI_REQUEST_INACTIVE))
        return raise_start(handle, object);
    *object_out = object;
    return MPI_SUCCESS;
}

static BASE_COLD int start_watched(struct ampi_request *object)
{
    int error;

    ampi_p2p_before_start(object);
    error = object->kind->start(object);
    if (!error)
        ampi_p2p_watch(object);
    return error;
}

/* Only the program's requests have events: the library starts its own through their kind, on any stack. */
static inline int start(struct ampi_request *object)
{
    return BASE_LIKELY(!(object->comm->at_post & AMPI_AT_POST_EVENTS)) ? object->kind->start(object)
                                                                       : start_watched(object);
}

/* Buffers of work requests: those of a collective are not known here, so all count. */
static inline void before_start(const struct ampi_request *object)
{
    if (BASE_LIKELY(!ampi_work_is_used))
        return;
    if (object->kind == &ampi_send_kind || object->kind == &ampi_recv_kind)
        ampi_work_settle(object->u.p2p.buf, object->u.p2p.count, object->u.p2p.type,
                         object->kind == &ampi_recv_kind);
    else if (object->kind->settle)
        object->kind->settle(object);
    else
        ampi_work_settle(NULL, -1, NULL, true);
}

AMPI_EXPORT(Start);
int PMPI_Start(MPI_Request *request)
{
    struct ampi_request *object = NULL;
    int error;

    ampi_enter("MPI_Start");
    if (BASE_UNLIKELY(!request))
        return ampi_raise_self(MPI_ERR_REQUEST, "the address of the request is NULL");
    error = ampi_check_start(*request, &object);
    if (error)
        return error;
    before_start(object);
    return start(object);
}

AMPI_EXPORT(Startall);
int PMPI_Startall(int count, MPI_Request array_of_requests[])
{
    struct ampi_request *object = NULL;
    int error = MPI_SUCCESS;

    ampi_enter("MPI_Startall");
    if (BASE_UNLIKELY(count < 0))
        return ampi_raise_self(MPI_ERR_COUNT, "the count of requests %d is negative", count);
    if (BASE_UNLIKELY(count > 0 && !array_of_requests))
        return ampi_raise_self(MPI_ERR_REQUEST, "the array of %d requests is NULL", count);
    for (int i = 0; i < count; i++)
        if ((error = ampi_check_start(array_of_requests[i], &object)))
            return error;
        else
            before_start(object);
    for (int i = 0; i < count && !error; i++)
        if (!(error = ampi_check_start(array_of_requests[i], &object))) /* it may be there twice */
            error = start(object);
    return error;
}

int ampi_send_init(struct ampi_rank *self, enum ampi_send_mode mode, struct ampi_send_args *args,
                   MPI_Datatype datatype, MPI_Comm comm, MPI_Request *request)
{
    struct ampi_request *object;
    int error = ampi_check_send(self, datatype, comm, args);

    if (error)
        return error;
    if (BASE_UNLIKELY(!request))
        return ampi_raise(args->comm, MPI_ERR_ARG, "the address of the request is NULL");
    args->mode = mode;
    object = ampi_request_create(self, &ampi_send_kind, args->comm, true);
    ampi_send_fill(object, args);
    ampi_send_keep(object, !args->comm->streams); /* a stream may start it (enqueue_start.c) */
    ampi_type_ref(args->type);
    *request = (MPI_Request)object;
    return MPI_SUCCESS;
}

int ampi_recv_init(struct ampi_rank *self, struct ampi_recv_args *args, MPI_Datatype datatype, MPI_Comm comm,
                   MPI_Request *request)
{
    struct ampi_request *object;
    int error = ampi_check_recv(self, datatype, comm, args);

    if (error)
        return error;
    if (BASE_UNLIKELY(!request))
        return ampi_raise(args->comm, MPI_ERR_ARG, "the address of the request is NULL");
    object = ampi_request_create(self, &ampi_recv_kind, args->comm, true);
    ampi_recv_fill(object, args);
    ampi_recv_keep(object);
    ampi_type_ref(args->type);
    *request = (MPI_Request)object;
    return MPI_SUCCESS;
}
