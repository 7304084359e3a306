/* SPDX-License-Identifier: BSD-3-Clause
 *
 * enter.c: the state that all rooms share, and calls of MPI by a caller that may not make them.
 */
#include <stdio.h>
#include <unistd.h>

#include "ampi/object/error.h"
#include "ampi/object/rank.h"
#include "ampi/object/settings.h"

struct ampi_job ampi_job = {.n_procs = 1, .node_n_procs = 1};
struct ampi_options ampi_options = {.stuck_s = -1};
struct ampi_upper ampi_upper;

void ampi_refuse_forked(const char *call)
{
    char by[32] = "a rank";

    if (ampi_job.forked_rank >= 0)
        snprintf(by, sizeof by, "rank %d", ampi_job.forked_rank);
    ampi_report(NULL,
                "%s: MPI_ERR_OTHER: called in a process that %s forked, which is not part of the MPI job",
                call, by);
    ampi_job_abort(MPI_ERR_OTHER);
}

struct ampi_rank *ampi_enter_wrong(const char *call)
{
    struct ampi_rank *self = ampi_upper.adopt_caller();

    if (ampi_job.is_forked)
        ampi_refuse_forked(call);
    if (!self && ampi_job.is_virtual && atomic_load(&ampi_job.n_ended) == ampi_job.n_local) {
        ampi_report(NULL, "%s: MPI_ERR_OTHER: called after the end of all ranks", call);
        ampi_job_abort(MPI_ERR_OTHER);
    }
    if (!self) {
        ampi_report(NULL,
                    "%s: MPI_ERR_OTHER: the calling thread is not a rank's main thread; the thread level is "
                    "MPI_THREAD_FUNNELED",
                    call);
        ampi_job_abort(MPI_ERR_OTHER);
    }
    self->call = call;
    ampi_report(self, "MPI_ERR_OTHER: called %s",
                self->state == AMPI_RANK_STARTED ? "before MPI_Init" : "after MPI_Finalize");
    ampi_job_abort(MPI_ERR_OTHER);
}

/* Another thread than the process's first may ask before the one that is to be the rank calls MPI_Init. */
struct ampi_rank *ampi_enter_first(void)
{
    return gettid() == getpid() ? ampi_upper.adopt_caller() : NULL;
}
