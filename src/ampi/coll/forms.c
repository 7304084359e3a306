/* SPDX-License-Identifier: BSD-3-Clause
 *
 * forms.c: the blocking, nonblocking and persistent form of a collective, from one set of arguments.
 */
#include "ampi/coll/coll.h"

#include "base/log.h"

static int raise_result(struct ampi_comm *comm, const struct ampi_coll_plan *plan, int error)
{
    if (BASE_LIKELY(error == MPI_SUCCESS))
        return MPI_SUCCESS;
    if (error == MPI_ERR_TRUNCATE)
        return ampi_raise(comm, error, "%s: another rank sent more data than this rank's buffer takes", plan->name);
    return ampi_raise(comm, error, "%s failed", plan->name);
}

int ampi_coll_blocking(struct ampi_coll_args *args)
{
    return raise_result(args->comm, args->plan, ampi_coll_run(args));
}

int ampi_coll_begin(const struct ampi_coll_call *call, struct ampi_coll_args *args)
{
    switch (call->form) {
    case AMPI_COLL_NONBLOCKING:
        return ampi_coll_nonblocking(args, call->request);
    case AMPI_COLL_PERSISTENT:
        return ampi_coll_persistent(args, call->request);
    default:
        return ampi_coll_blocking(args);
    }
}

static void ref_types(const struct ampi_coll_args *args)
{
    if (args->send.type)
        ampi_type_ref(args->send.type);
    if (args->recv.type)
        ampi_type_ref(args->recv.type);
    if (args->op)
        ampi_op_ref(args->op);
}

static void release(struct ampi_request *request)
{
    struct ampi_coll_args *args = request->u.extra;

    if (args->send.type)
        ampi_type_unref(args->send.type);
    if (args->recv.type)
        ampi_type_unref(args->recv.type);
    if (args->op)
        ampi_op_unref(args->op);
    free(args);
}

static int start(struct ampi_request *request)
{
    struct ampi_coll_args *args = request->u.extra;

    request->state = AMPI_REQUEST_ACTIVE;
    ampi_status_set_empty(&request->status);
    args->error = MPI_SUCCESS;
    ampi_coll_start(args, request);
    return MPI_SUCCESS;
}

static const struct ampi_request_kind coll_kind = {
    .name = "collective",
    .start = start,
    .release = release,
};

static struct ampi_request *create_request(const struct ampi_coll_args *args, bool is_persistent)
{
    struct ampi_coll_args *kept = base_malloc(sizeof *kept, "a collective under way");
    struct ampi_request *request =
        ampi_request_create(args->comm->owner, &coll_kind, args->comm, is_persistent);

    *kept = *args;
    ref_types(kept);
    request->u.extra = kept;
    return request;
}

int ampi_coll_nonblocking(const struct ampi_coll_args *args, MPI_Request *request)
{
    struct ampi_request *object = create_request(args, false);

    start(object);
    *request = (MPI_Request)object;
    return MPI_SUCCESS;
}

int ampi_coll_persistent(const struct ampi_coll_args *args, MPI_Request *request)
{
    *request = (MPI_Request)create_request(args, true);
    return MPI_SUCCESS;
}
