/* SPDX-License-Identifier: BSD-3-Clause
 *
 * init.c: MPI_Init, MPI_Finalize, MPI_Abort and related functions (MPI 5.0, sections 11.2 to 11.4).
 */
#include <stdio.h>
#include <stdlib.h>

#include "ampi/object/attr.h"
#include "ampi/coll/engine/coll.h"
#include "ampi/dynamic/spawn.h"
#include "ampi/handlers/handlers.h"
#include "ampi/work/work.h"
#include "ampi/object/errhandler.h"
#include "ampi/object/error.h"
#include "ampi/object/gate.h"
#include "ampi/job/job.h"
#include "ampi/job/leaks.h"
#include "ampi/tool/stats.h"
#include "ampi/tool/trace.h"
#include "base/launched.h"
#include "base/log.h"
#include "gpu/nccl/nccl.h"

/* Why the caller cannot start MPI for its rank (NULL: unknown). */
static BASE_COLD const char *refusal(const struct ampi_rank *rank)
{
    if (!rank)
        return "called by a thread that belongs to no rank";
    if (rank->world_state < AMPI_RANK_INITIALIZED)
        return "called by a thread, but the rank's first thread does not wait for it by pthread_join";
    return rank->world_state == AMPI_RANK_INITIALIZED ? "called twice" : "called after MPI_Finalize";
}

/* Sets the initial error handler that mpirun, or the info of the rank's spawn, names. */
static void set_initial_errors(struct ampi_rank *self)
{
    const char *name = ampi_rank_spawn(self) > 0 ? NULL : secure_getenv(BASE_INITIAL_ERRHANDLER_ENV);
    int number = name ? ampi_errhandler_find(name) : self->initial_errors;
    struct ampi_comm *comms[] = {self->world, NULL, self->parent};

    if (number < 0)
        base_fatal(1, BASE_INITIAL_ERRHANDLER_ENV "=%s: not the name of an error handler", name);
    if (BASE_LIKELY(number == 0))
        return;
    comms[1] = ampi_comm_self(self); /* made at its first use, because it takes 5 KiB */
    for (size_t i = 0; i < BASE_COUNT(comms); i++)
        if (comms[i])
            (void)ampi_errhandler_set(&comms[i]->errhandler, ampi_errhandler_numbered(number),
                                      AMPI_ERRHANDLER_COMM);
}

/* self: NULL: the caller has not entered as a rank. */
static int init_rank(struct ampi_rank *self, const char *call, int required, int *provided, const void *from)
{
    int error = MPI_SUCCESS;

    if (!self || self->world_state >= AMPI_RANK_INITIALIZED) {
        if (self)
            ult_self()->call = call;
        return ampi_raise_self(MPI_ERR_OTHER, "%s", refusal(self ? self : ampi_rank_of_thread(from)));
    }
    ult_self()->call = call;
    self->main_thread = ult_self();
    ampi_rank_set_world_state(self, AMPI_RANK_INITIALIZED);
    self->thread_level = ampi_gate_level(required);
    ampi_gate_set_level(self, self->thread_level);
    if (provided)
        *provided = self->thread_level;
    ampi_late_host_warn();
    ampi_thread_start_progress();
    ampi_stats_begin(self);
    ampi_trace_begin(self);
    if (self->spawned && self->spawned == ampi_job.spawned && *ampi_job.parent_port)
        error = ampi_spawn_meet_parents(self);
    set_initial_errors(self);
    return error;
}

/* The calling thread becomes the rank's main thread. */
static int init(const char *call, int required, int *provided, const void *from)
{
    struct ult *entered = NULL;
    struct ampi_rank *self;
    int error;

    self = ampi_rank_or_move();
    if (ampi_job.is_forked)
        ampi_refuse_forked(call);
    if (!self && (entered = ampi_thread_start_mpi(call, from)))
        self = entered->owner;
    error = init_rank(self, call, required, provided, from);
    ampi_gate_leave(entered);
    return error;
}

AMPI_EXPORT(Init);
int PMPI_Init(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return init("MPI_Init", MPI_THREAD_SINGLE, NULL, __builtin_return_address(0));
}

AMPI_EXPORT(Init_thread);
int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    (void)argc;
    (void)argv;
    if (!provided)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the provided thread level is NULL");
    return init("MPI_Init_thread", required, provided, __builtin_return_address(0));
}

AMPI_EXPORT(Finalize);
int PMPI_Finalize(void)
{
    struct ampi_rank *self = ampi_enter("MPI_Finalize");
    const struct ampi_thread *other = ampi_gate_other_in_call(self);
    int error = MPI_SUCCESS;

    if (BASE_UNLIKELY(!ampi_rank_is_on_main(self)))
        return ampi_raise_self(MPI_ERR_OTHER, "called by another thread than the one that initialized MPI");
    if (BASE_UNLIKELY(other != NULL))
        return ampi_raise_self(MPI_ERR_OTHER, "another thread of the rank is still in %s",
                               other->ult.call ? other->ult.call : "MPI");

    /* Attributes of MPI_COMM_SELF go first: their callbacks may still use MPI. */
    if (self->self)
        error = ampi_comm_delete_attrs(self->self);
    if (error)
        return error;
    ult_self()->call = "MPI_Finalize";
    ampi_stats_end(self);
    ampi_leaks_finalize(self);
    ampi_coll_finalize(self->world);
    ampi_work_end(self);
    ampi_handlers_end(self);
    if (ampi_job.n_local == 1) /* otherwise at the end of the job, while CUDA still exists */
        gpu_nccl_settle(GPU_NCCL_SETTLE_S);
    ampi_rank_set_world_state(self, AMPI_RANK_FINALIZED);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Abort);
int PMPI_Abort(MPI_Comm comm, int errorcode)
{
    const struct ampi_rank *self = ampi_rank_or_adopt();
    struct ult caller = {.owner = ampi_rank_of_thread(__builtin_return_address(0))};
    bool is_on_main = self && ampi_rank_is_on_main(self);

    (void)comm; /* all ranks of the job end, for any communicator */
    if (ampi_job.is_forked)
        ampi_refuse_forked("MPI_Abort");
    ampi_report_on(&caller, "MPI_Abort was called with error code %d%s; the job ends", errorcode,
                   is_on_main || !caller.owner ? "" : " by a thread");
    ampi_job_abort(errorcode);
}

const char *ampi_rank_missing_call(const struct ampi_rank *rank)
{
    return rank->world_state == AMPI_RANK_INITIALIZED ? "MPI_Finalize"
                                                      : "MPI_Session_finalize for every session";
}
