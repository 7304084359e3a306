/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_idup.c: MPI_Comm_idup and MPI_Comm_idup_with_info (MPI 5.0, section 7.4.2).
 *
 * The collective is the one of MPI_Comm_dup; the member's own part, copying attributes and storing the
 * handle, is done when the request is found complete, because callbacks are the program's and run on the
 * rank's stack.
 */
#include "ampi/coll/slot.h"
#include "ampi/comm_create.h"
#include "ampi/comm_info.h"
#include "base/log.h"

struct duplication {
    struct ampi_coll_args args;
    MPI_Comm *newcomm;       /* where the program wants the handle */
    struct ampi_info *hints; /* for the new communicator; NULL: none */
    bool is_adopted;
    int error; /* of the adoption */
};

static int adopt(struct ampi_request *request, MPI_Status *status)
{
    struct duplication *dup = request->u.extra;
    struct ampi_comm *made = dup->args.extra;

    (void)status;
    if (!dup->is_adopted) {
        dup->is_adopted = true;
        dup->error = dup->args.error;
        if (!dup->error) {
            made->info = dup->hints;
            dup->hints = NULL;
            dup->error = ampi_comm_adopt(dup->args.comm, made, true, dup->newcomm);
        }
    }
    return dup->error;
}

static void release(struct ampi_request *request)
{
    struct duplication *dup = request->u.extra;

    ampi_info_destroy(dup->hints);
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
        return ampi_raise(old, MPI_ERR_INFO, "%p is no info object", (void *)info);
    if (!newcomm || !request)
        return ampi_raise(old, MPI_ERR_ARG, "%s is NULL", newcomm ? "request" : "newcomm");
    dup = base_calloc(1, sizeof *dup, "a communicator's duplication");
    dup->args = (struct ampi_coll_args){.plan = &ampi_comm_dup_plan, .comm = old};
    dup->newcomm = newcomm;
    dup->hints = ampi_comm_info_filter(NULL, hints);
    object = ampi_request_create(self, &idup_kind, old, false);
    object->u.extra = dup;
    *request = (MPI_Request)object;
    ampi_coll_start(&dup->args, object);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Comm_idup)
int PMPI_Comm_idup(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request)
{
    return idup(ampi_enter("MPI_Comm_idup"), comm, MPI_INFO_NULL, newcomm, request);
}

AMPI_EXPORT(Comm_idup_with_info)
int PMPI_Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm, MPI_Request *request)
{
    return idup(ampi_enter("MPI_Comm_idup_with_info"), comm, info, newcomm, request);
}
