/* SPDX-License-Identifier: BSD-3-Clause
 *
 * enter.c: the state that all rooms share, and calls of MPI by a caller that may not make them.
 */
#include <stdio.h>
#include <unistd.h>

#include "ampi/object/error.h"
#include "ampi/object/rank.h"

struct ampi_job ampi_job = {.n_procs = 1, .max_procs = 1, .node_n_procs = 1};
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

/* When a rank calls MPI that is not initialized. */
static const char *when(const struct ampi_rank *rank)
{
    if (rank->state != AMPI_RANK_STARTED)
        return "after MPI_Finalize";
    return rank->had_session ? "after MPI_Session_finalize of the last session" : "before MPI_Init";
}

/* Ends the job because a thread that is not a rank's main thread may not make this call. rank: the thread's
 * rank; NULL: unknown. */
static void refuse_thread(const char *call, const struct ampi_rank *rank) BASE_NORETURN;
static void refuse_thread(const char *call, const struct ampi_rank *rank)
{
    int level = rank ? rank->threads_level : 0;

    if (!rank)
        ampi_report(NULL,
                    "%s: MPI_ERR_OTHER: the calling thread belongs to no rank: no rank has started it by "
                    "pthread_create",
                    call);
    else if (rank->state != AMPI_RANK_INITIALIZED)
        ampi_report(NULL, "%s: MPI_ERR_OTHER: called by a thread of rank %d %s", call, ampi_rank_number(rank),
                    when(rank));
    else if (level < MPI_THREAD_SERIALIZED)
        ampi_report(
            NULL,
            "%s: MPI_ERR_OTHER: the calling thread is not the main thread of rank %d, whose thread level "
            "is MPI_THREAD_%s; MPI_Init_thread gives MPI_THREAD_MULTIPLE to a program that asks for it",
            call, ampi_rank_number(rank), level == MPI_THREAD_SINGLE ? "SINGLE" : "FUNNELED");
    else
        ampi_report(NULL,
                    "%s: MPI_ERR_OTHER: called by a thread of rank %d that was not started by pthread_create",
                    call, ampi_rank_number(rank));
    ampi_job_abort(MPI_ERR_OTHER);
}

struct ampi_rank *ampi_enter_wrong(const char *call)
{
    const void *from = __builtin_return_address(0);
    struct ampi_rank *self = ampi_upper.adopt_caller();

    if (ampi_job.is_forked)
        ampi_refuse_forked(call);
    if (!self && ampi_job.is_virtual && atomic_load(&ampi_job.n_ended) == atomic_load(&ampi_job.n_present)) {
        ampi_report(NULL, "%s: MPI_ERR_OTHER: called after the end of all ranks", call);
        ampi_job_abort(MPI_ERR_OTHER);
    }
    if (!self)
        refuse_thread(call, ampi_upper.rank_of_thread(from));
    ult_self()->call = call;
    ampi_report(self, "MPI_ERR_OTHER: called %s", when(self));
    ampi_job_abort(MPI_ERR_OTHER);
}

/* A thread other than the process's first may call this before the thread that becomes the rank calls MPI_Init. */
struct ampi_rank *ampi_enter_first(void)
{
    return gettid() == getpid() ? ampi_upper.adopt_caller() : NULL;
}
