/* SPDX-License-Identifier: BSD-3-Clause
 *
 * barrier.c: MPI_Barrier (MPI 5.0, section 6.3): arriving at the slot is all there is to do.
 * Cost: one arrival per rank, one note per other PE.
 */
#include "ampi/coll/engine/coll.h"
#include "ampi/meet/meet.h"

static const struct ampi_coll_plan barrier_plan = {.name = "barrier"};

/* A plan of its own: a rank that has missed a barrier is told so, instead of meeting the others' MPI_Finalize
 * there. */
static const struct ampi_coll_plan finalize_plan = {.name = "finalize"};

static void build_nothing(struct ampi_meet **members, int n_members)
{
    (void)members;
    (void)n_members;
}

/* Those that are left meet, and if one more is lost meanwhile, those that are left then: all hear of all
 * losses, so in the end all mean the same group. */
static BASE_COLD void await_survivors(struct ampi_comm *world)
{
    int error;

    do {
        struct ampi_group *survivors = ampi_lost_survivors();
        struct ampi_meet me = {.function = "finalize", .group = survivors, .build = build_nothing};
        me.member = ampi_group_find(survivors, world->rank);
        error = ampi_meet_run(&me);
        ampi_group_unref(survivors);
    } while (error == MPI_ERR_PROC_ABORTED);
}

void ampi_coll_finalize(struct ampi_comm *world)
{
    struct ampi_coll_args args;

    ampi_coll_args_init(&args, &finalize_plan);
    args.comm = world;
    if (ampi_coll_run(&args) == MPI_ERR_PROC_ABORTED)
        await_survivors(world);
}

BASE_UNCHECKED_FRAME int ampi_coll_barrier(struct ampi_comm *comm)
{
    struct ampi_coll_args args;

    ampi_coll_args_init(&args, &barrier_plan);
    args.comm = comm;
    return ampi_coll_run(&args);
}

AMPI_EXPORT(Barrier)
BASE_UNCHECKED_FRAME int PMPI_Barrier(MPI_Comm comm)
{
    struct ampi_rank *self = ampi_enter("MPI_Barrier");
    struct ampi_comm *object = ampi_comm_of(self, comm);

    if (BASE_UNLIKELY(!object))
        return ampi_comm_raise_invalid(comm);
    return ampi_coll_barrier(object);
}

AMPI_EXPORT(Ibarrier)
int PMPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    struct ampi_rank *self = ampi_enter("MPI_Ibarrier");
    struct ampi_coll_args args = {.plan = &barrier_plan, .comm = ampi_comm_of(self, comm)};

    if (BASE_UNLIKELY(!args.comm))
        return ampi_comm_raise_invalid(comm);
    if (BASE_UNLIKELY(!request))
        return ampi_coll_raise(args.comm, MPI_ERR_ARG, "the address of the request is NULL");
    return ampi_coll_nonblocking(&args, request);
}

AMPI_EXPORT(Barrier_init)
int PMPI_Barrier_init(MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    struct ampi_rank *self = ampi_enter("MPI_Barrier_init");
    struct ampi_coll_args args = {.plan = &barrier_plan, .comm = ampi_comm_of(self, comm)};

    if (BASE_UNLIKELY(!args.comm))
        return ampi_comm_raise_invalid(comm);
    if (BASE_UNLIKELY(!request))
        return ampi_coll_raise(args.comm, MPI_ERR_ARG, "the address of the request is NULL");
    if (BASE_UNLIKELY(ampi_coll_init_form(info) == AMPI_COLL_WRONG_INFO))
        return ampi_coll_raise(args.comm, MPI_ERR_INFO, "the info argument is not an info object");
    return ampi_coll_persistent(&args, request);
}
