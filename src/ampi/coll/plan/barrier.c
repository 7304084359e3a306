/* SPDX-License-Identifier: BSD-3-Clause
 *
 * barrier.c: MPI_Barrier (MPI 5.0, section 6.3): only arriving at the slot. Cost: one arrival per rank, one
 * inbox item per other PE.
 */
#include "ampi/coll/plan/coll_calls.h"

#include "ampi/meet/meet.h"

static const struct ampi_coll_plan barrier_plan = {.name = "barrier"};

static const struct ampi_coll_plan plans_within[] = {
    [AMPI_COLL_WITHIN_DISCONNECT] = {.name = "disconnect"},
    [AMPI_COLL_WITHIN_FENCE] = {.name = "fence"},
    [AMPI_COLL_WITHIN_FILE_OPEN] = {.name = "file open"},
    [AMPI_COLL_WITHIN_FINALIZE] = {.name = "finalize"},
    [AMPI_COLL_WITHIN_WIN_CREATE] = {.name = "window creation"},
    [AMPI_COLL_WITHIN_WIN_FREE] = {.name = "window free"}};

static inline void init_barrier(struct ampi_coll_args *args, const struct ampi_coll_plan *plan)
{
    ampi_coll_args_init(args, plan);
    args->is_paired = true;
}

static void build_nothing(struct ampi_meet **members, int n_members)
{
    (void)members;
    (void)n_members;
}

/* Synchronises the survivors. After a further failure they retry with the smaller group. All are notified of
 * all failures, so they agree on the group in the end. */
static BASE_COLD void await_survivors(struct ampi_comm *world)
{
    int error;

    do {
        struct ampi_group *survivors = ampi_failed_survivors(world->local->layout->group);
        struct ampi_meet me = {.function = "finalize", .group = survivors, .build = build_nothing};
        me.member = ampi_group_find(survivors, world->owner->world_rank);
        error = ampi_meet_run(&me);
        ampi_group_unref(survivors);
    } while (error == MPI_ERR_PROC_ABORTED);
}

void ampi_coll_finalize(struct ampi_comm *world)
{
    struct ampi_coll_args args;

    ampi_coll_args_init(&args, &plans_within[AMPI_COLL_WITHIN_FINALIZE]);
    args.comm = world;
    if (ampi_coll_run(&args) == MPI_ERR_PROC_ABORTED)
        await_survivors(world);
}

int ampi_coll_barrier(struct ampi_comm *comm, enum ampi_coll_within function)
{
    struct ampi_coll_args args;

    init_barrier(&args, &plans_within[function]);
    args.comm = comm;
    return ampi_coll_run(&args);
}

ULT_JUMPS_BACK BASE_UNCHECKED_FRAME int ampi_coll_call_barrier(struct ampi_comm *comm)
{
    struct ampi_coll_args args;

    init_barrier(&args, &barrier_plan);
    args.comm = comm;
    return ampi_coll_blocking(&args);
}

int ampi_coll_start_barrier(const struct ampi_coll_call *call, MPI_Comm comm)
{
    struct ampi_coll_args args;
    int error;

    init_barrier(&args, &barrier_plan);
    if ((error = ampi_coll_enter(call, comm, &args)))
        return error;
    ampi_coll_set_none(&args.send);
    ampi_coll_set_none(&args.recv);
    return ampi_coll_begin_request(call, &args);
}
