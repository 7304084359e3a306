/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bsend.c: buffered-mode functions (MPI 5.0, sections 3.4 and 3.6) for ranks, communicators and sessions.
 */
#include "ampi/p2p/p2p_calls.h"

#include <limits.h>

#include "ampi/object/session.h"

int ampi_bsend_call(struct ampi_rank *self, struct ampi_send_args *args, MPI_Datatype datatype, MPI_Comm comm)
{
    int error = ampi_check_send(self, datatype, comm, args);

    args->mode = AMPI_SEND_BUFFERED;
    return error ? error : ampi_bsend(self, args);
}

/* A request for a buffered send, which is complete as soon as it has started. */
static int start_bsend(struct ampi_request *request)
{
    const struct ampi_p2p *p2p = &request->u.p2p;
    struct ampi_send_args args = {.buf = p2p->buf,
                                  .count = p2p->count,
                                  .type = p2p->type,
                                  .dest = p2p->peer_rank,
                                  .tag = p2p->tag,
                                  .comm = request->comm,
                                  .mode = AMPI_SEND_BUFFERED};
    int error = ampi_bsend(request->owner, &args);

    if (error)
        return error;
    request->state = AMPI_REQUEST_ACTIVE;
    ampi_status_set_empty(&request->status);
    ampi_request_complete(request);
    return MPI_SUCCESS;
}

static void release_bsend(struct ampi_request *request)
{
    ampi_type_unref(request->u.p2p.type);
}

static const struct ampi_request_kind bsend_kind = {
    .name = "buffered send",
    .start = start_bsend,
    .release = release_bsend,
};

/* A new INACTIVE request. */
static struct ampi_request *create(struct ampi_rank *self, const struct ampi_send_args *args,
                                   bool is_persistent)
{
    struct ampi_request *request = ampi_request_create(self, &bsend_kind, args->comm, is_persistent);

    request->state = AMPI_REQUEST_INACTIVE;
    ampi_send_fill(request, args);
    ampi_type_ref(args->type);
    return request;
}

int ampi_ibsend(struct ampi_rank *self, struct ampi_send_args *args, MPI_Datatype datatype, MPI_Comm comm,
                MPI_Request *request)
{
    struct ampi_request *made;
    int error = ampi_check_send(self, datatype, comm, args);

    if (error)
        return error;
    if (BASE_UNLIKELY(!request))
        return ampi_raise(args->comm, MPI_ERR_ARG, "the address of the request is NULL");
    args->mode = AMPI_SEND_BUFFERED;
    made = create(self, args, false);
    if ((error = start_bsend(made))) {
        ampi_request_destroy(made);
        return error;
    }
    *request = (MPI_Request)made;
    return MPI_SUCCESS;
}

int ampi_bsend_init(struct ampi_rank *self, struct ampi_send_args *args, MPI_Datatype datatype, MPI_Comm comm,
                    MPI_Request *request)
{
    int error = ampi_check_send(self, datatype, comm, args);

    if (error)
        return error;
    if (BASE_UNLIKELY(!request))
        return ampi_raise(args->comm, MPI_ERR_ARG, "the address of the request is NULL");
    args->mode = AMPI_SEND_BUFFERED;
    *request = (MPI_Request)create(self, args, true);
    return MPI_SUCCESS;
}

/* ---- The rank's buffer ---- */

/* Stores a size in an MPI_Count or an int. */
static int hand_out(MPI_Count size, void *size_out, bool is_large)
{
    if (is_large) {
        *(MPI_Count *)size_out = size;
        return MPI_SUCCESS;
    }
    if (BASE_UNLIKELY(size > INT_MAX)) {
        *(int *)size_out = MPI_UNDEFINED;
        return ampi_raise_self(MPI_ERR_VALUE_TOO_LARGE,
                               "the buffer's size does not fit into an int: use the _c form");
    }
    *(int *)size_out = (int)size;
    return MPI_SUCCESS;
}

int ampi_bsend_detach_rank(struct ampi_rank *self, void *buffer_addr, void *size_out, bool is_large)
{
    MPI_Count size = 0;
    int error;

    if (BASE_UNLIKELY(!buffer_addr || !size_out))
        return ampi_raise_self(MPI_ERR_ARG, "the address of the %s is NULL", buffer_addr ? "size" : "buffer");
    error = ampi_bsend_detach(NULL, &self->bsend, buffer_addr, &size);
    return error ? error : hand_out(size, size_out, is_large);
}

AMPI_EXPORT(Buffer_flush);
int PMPI_Buffer_flush(void)
{
    ampi_bsend_flush(ampi_enter("MPI_Buffer_flush")->bsend);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Buffer_iflush);
int PMPI_Buffer_iflush(MPI_Request *request)
{
    struct ampi_rank *self = ampi_enter("MPI_Buffer_iflush");

    if (BASE_UNLIKELY(!request))
        return ampi_raise_self(MPI_ERR_ARG, "the address of the request is NULL");
    *request = (MPI_Request)ampi_bsend_iflush(self, self->bsend);
    return MPI_SUCCESS;
}

/* ---- A communicator's buffer ---- */

int ampi_bsend_attach_comm(struct ampi_rank *self, MPI_Comm comm, void *buffer, MPI_Count size_bytes)
{
    struct ampi_comm *object = ampi_comm_of(self, comm);

    return object ? ampi_bsend_attach(object, &object->bsend, buffer, size_bytes)
                  : ampi_comm_raise_invalid(comm);
}

int ampi_bsend_detach_comm(struct ampi_rank *self, MPI_Comm comm, void *buffer_addr, void *size_out,
                           bool is_large)
{
    struct ampi_comm *object = ampi_comm_of(self, comm);
    MPI_Count size = 0;
    int error;

    if (BASE_UNLIKELY(!object))
        return ampi_comm_raise_invalid(comm);
    if (BASE_UNLIKELY(!buffer_addr || !size_out))
        return ampi_raise(object, MPI_ERR_ARG, "the address of the %s is NULL",
                          buffer_addr ? "size" : "buffer");
    error = ampi_bsend_detach(object, &object->bsend, buffer_addr, &size);
    return error ? error : hand_out(size, size_out, is_large);
}

AMPI_EXPORT(Comm_flush_buffer);
int PMPI_Comm_flush_buffer(MPI_Comm comm)
{
    struct ampi_comm *object = ampi_comm_of(ampi_enter("MPI_Comm_flush_buffer"), comm);

    if (BASE_UNLIKELY(!object))
        return ampi_comm_raise_invalid(comm);
    ampi_bsend_flush(object->bsend);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Comm_iflush_buffer);
int PMPI_Comm_iflush_buffer(MPI_Comm comm, MPI_Request *request)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_iflush_buffer");
    struct ampi_comm *object = ampi_comm_of(self, comm);

    if (BASE_UNLIKELY(!object))
        return ampi_comm_raise_invalid(comm);
    if (BASE_UNLIKELY(!request))
        return ampi_raise(object, MPI_ERR_ARG, "the address of the request is NULL");
    *request = (MPI_Request)ampi_bsend_iflush(self, object->bsend);
    return MPI_SUCCESS;
}

/* ---- A session's buffer: for its communicators without a buffer ---- */

/* Raises an error about a session's buffer. */
static int raise_session(struct ampi_session *session, int error, const char *text)
{
    MPI_Session handle = (MPI_Session)session;

    return ampi_raise_on(session->errhandler, &handle, error, "%s", text);
}

int ampi_bsend_attach_session(MPI_Session session, void *buffer, MPI_Count size_bytes)
{
    struct ampi_session *object = ampi_session_of(session);

    if (BASE_UNLIKELY(!object))
        return ampi_session_raise_invalid(session);
    if (BASE_UNLIKELY(size_bytes < 0))
        return raise_session(object, MPI_ERR_ARG, "the size of the buffer is negative");
    if (BASE_UNLIKELY(object->bsend || (!buffer && size_bytes > 0)))
        return raise_session(object, MPI_ERR_BUFFER,
                             buffer ? "a buffer is attached already" : "the buffer is NULL");
    return ampi_bsend_attach(NULL, &object->bsend, buffer, size_bytes);
}

int ampi_bsend_detach_session(MPI_Session session, void *buffer_addr, void *size_out, bool is_large)
{
    struct ampi_session *object = ampi_session_of(session);
    MPI_Count size = 0;
    int error;

    if (BASE_UNLIKELY(!object))
        return ampi_session_raise_invalid(session);
    if (BASE_UNLIKELY(!buffer_addr || !size_out))
        return raise_session(object, MPI_ERR_ARG, "the address of the buffer or of the size is NULL");
    if (BASE_UNLIKELY(!object->bsend))
        return raise_session(object, MPI_ERR_BUFFER, "no buffer is attached");
    error = ampi_bsend_detach(NULL, &object->bsend, buffer_addr, &size);
    return error ? error : hand_out(size, size_out, is_large);
}

AMPI_EXPORT(Session_flush_buffer);
int PMPI_Session_flush_buffer(MPI_Session session)
{
    struct ampi_session *object;

    ampi_enter("MPI_Session_flush_buffer");
    object = ampi_session_of(session);
    if (BASE_UNLIKELY(!object))
        return ampi_session_raise_invalid(session);
    ampi_bsend_flush(object->bsend);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Session_iflush_buffer);
int PMPI_Session_iflush_buffer(MPI_Session session, MPI_Request *request)
{
    struct ampi_rank *self = ampi_enter("MPI_Session_iflush_buffer");
    struct ampi_session *object = ampi_session_of(session);

    if (BASE_UNLIKELY(!object))
        return ampi_session_raise_invalid(session);
    if (BASE_UNLIKELY(!request))
        return raise_session(object, MPI_ERR_ARG, "the address of the request is NULL");
    *request = (MPI_Request)ampi_bsend_iflush(self, object->bsend);
    return MPI_SUCCESS;
}
