/* SPDX-License-Identifier: BSD-3-Clause
 *
 * init.c: MPI_Init, MPI_Finalize, MPI_Abort and their kin (MPI 5.0, sections 11.2 to 11.4).
 */
#include <stdio.h>

#include "ampi/object/attr.h"
#include "ampi/coll/engine/coll.h"
#include "ampi/object/error.h"
#include "ampi/job/job.h"
#include "gpu/nccl.h"

/* The thread level that a rank gets: its own thread may call MPI, others of its threads may not. */
static int thread_level(int required)
{
    return required < MPI_THREAD_FUNNELED ? MPI_THREAD_SINGLE : MPI_THREAD_FUNNELED;
}

static int init(const char *call, int required, int *provided)
{
    struct ampi_rank *self = ampi_rank_or_move();

    if (ampi_job.is_forked)
        ampi_refuse_forked(call);
    if (!self || self->world_state >= AMPI_RANK_INITIALIZED) {
        if (self)
            self->call = call;
        return ampi_raise_self(MPI_ERR_OTHER, !self ? "called by a thread that is not a rank's main thread"
                                              : self->world_state == AMPI_RANK_INITIALIZED
                                                  ? "called twice"
                                                  : "called after MPI_Finalize");
    }
    self->call = call;
    ampi_rank_set_world_state(self, AMPI_RANK_INITIALIZED);
    self->thread_level = thread_level(required);
    if (provided)
        *provided = self->thread_level;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Init);
int PMPI_Init(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return init("MPI_Init", MPI_THREAD_SINGLE, NULL);
}

AMPI_EXPORT(Init_thread);
int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    (void)argc;
    (void)argv;
    if (!provided)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the provided thread level is NULL");
    return init("MPI_Init_thread", required, provided);
}

AMPI_EXPORT(Finalize);
int PMPI_Finalize(void)
{
    struct ampi_rank *self = ampi_enter("MPI_Finalize");
    int error = MPI_SUCCESS;

    /* Attributes of MPI_COMM_SELF go first: their callbacks may still use MPI. */
    if (self->self)
        error = ampi_comm_delete_attrs(self->self);
    if (error)
        return error;
    self->call = "MPI_Finalize";
    ampi_coll_finalize(self->world);
    if (ampi_job.n_local == 1) /* else at the end of the job: CUDA is still there then */
        gpu_nccl_settle(GPU_NCCL_SETTLE_S);
    ampi_rank_set_world_state(self, AMPI_RANK_FINALIZED);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Abort);
int PMPI_Abort(MPI_Comm comm, int errorcode)
{
    struct ampi_rank *self = ampi_rank_or_adopt();

    (void)comm; /* all ranks of the job end, whichever communicator it is */
    if (ampi_job.is_forked)
        ampi_refuse_forked("MPI_Abort");
    if (self)
        self->call = NULL;
    ampi_report(self, "MPI_Abort was called with error code %d; the job ends", errorcode);
    ampi_job_abort(errorcode);
}
