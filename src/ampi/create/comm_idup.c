/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_idup.c: MPI_Comm_idup and MPI_Comm_idup_with_info (MPI 5.0, section 7.4.2).
 *
 * The collective is the one of MPI_Comm_dup. The call copies attributes, error handler and hints, because
 * the old communicator may be changed or freed before the new one exists. The new communicator gets them on
 * the rank's stack, when the rank finds the request complete.
 */
#include "ampi/object/attr.h"
#include "ampi/coll/engine/slot.h"
#include "ampi/create/comm_create.h"
#include "ampi/comm/comm_info.h"
#include "ampi/comm/comm_stream.h"
#include "ampi/object/errhandler.h"
#include "base/log.h"

struct duplication {
    struct ampi_coll_args args;
    MPI_Comm *newcomm;                  /* destination of the handle */
    struct ampi_info *hints;            /* for the new communicator; NULL: none */
    struct ampi_attrs *attrs;           /* the same; NULL: none */
    struct ampi_errhandler *errhandler; /* the same, a reference; NULL: the default */
    struct ampi_comm_streams *streams;  /* the same, a reference; NULL: none */
    struct ampi_session *session;       /* the old communicator's */
    bool is_adopted;
    int error; /* of copying the attributes, later the operation's */
};

/* Gives the copies to the new communicator. */
static void equip(struct duplication *dup, struct ampi_comm *made)
{
    made->session = dup->session;
    made->info = dup->hints;
    made->attrs = dup->attrs;
    made->errhandler = dup->errhandler;
    ampi_comm_set_streams(made, dup->streams);
    dup->streams = NULL;
    dup->hints = NULL;
    dup->attrs = NULL;
    dup->errhandler = NULL;
}

static int adopt(struct ampi_request *request, MPI_Status *status)
{
    struct duplication *dup = request->u.extra;
    struct ampi_comm *made = dup->args.extra;

    (void)status;
    if (dup->is_adopted)
        return dup->error;
    dup->is_adopted = true;
    if (!dup->error && !dup->args.error) {
        equip(dup, made);
        *dup->newcomm = ampi_comm_handle(made);
        return MPI_SUCCESS;
    }
    if (!dup->args.error)
        ampi_comm_release(made);
    dup->error = dup->error ? dup->error : dup->args.error;
    *dup->newcomm = MPI_COMM_NULL;
    ampi_comm_drop_attr_copies(&dup->attrs);
    return dup->error;
}

static void release(struct ampi_request *request)
{
    struct duplication *dup = request->u.extra;

    ampi_info_destroy(dup->hints);
    ampi_errhandler_unref(dup->errhandler);
    ampi_comm_streams_unref(dup->streams);
    free(dup);
}

static const struct ampi_request_kind idup_kind = {
    .name = "communicator duplication",
    .query = adopt,
    .release = release,
    .is_collective = true,
};

static int idup(struct ampi_rank *self, MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm, MPI_Request *request)
{
    struct ampi_comm *old = ampi_comm_of(self, comm);
    const struct ampi_info *hints = ampi_info_of(self, info);
    struct ampi_request *object;
    struct duplication *dup;

    if (!old)
        return ampi_comm_raise_invalid(comm);
    if (!hints && info != MPI_INFO_NULL)
        return ampi_raise(old, MPI_ERR_INFO, "%p is not a valid info object", (void *)info);
    if (!newcomm || !request)
        return ampi_raise(old, MPI_ERR_ARG, "%s is NULL", newcomm ? "request" : "newcomm");
    dup = base_calloc(1, sizeof *dup, "a communicator's duplication");
    dup->args = (struct ampi_coll_args){AMPI_COLL_PLAN(&ampi_comm_dup_plan), .comm = old};
    dup->newcomm = newcomm;
    dup->hints = ampi_comm_info_filter(NULL, hints);
    dup->session = old->session;
    dup->errhandler = old->errhandler;
    ampi_errhandler_ref(dup->errhandler);
    dup->streams = ampi_comm_streams_ref(old->streams);
    dup->error = ampi_comm_copy_attrs_early(old, &dup->attrs);
    object = ampi_request_create(self, &idup_kind, old, false);
    object->u.extra = dup;
    *request = (MPI_Request)object;
    ampi_coll_start(&dup->args, object);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Comm_idup);
int PMPI_Comm_idup(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request)
{
    return idup(ampi_enter("MPI_Comm_idup"), comm, MPI_INFO_NULL, newcomm, request);
}

AMPI_EXPORT(Comm_idup_with_info);
int PMPI_Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm, MPI_Request *request)
{
    return idup(ampi_enter("MPI_Comm_idup_with_info"), comm, info, newcomm, request);
}
