/* SPDX-License-Identifier: BSD-3-Clause
 *
 * progress_thread.c: an OS thread for a PE that makes progress while the carrier is in the program's code (+progress-thread).
 *
 * It enters the shared PE as a bound ULT that never becomes ready (sharing.h): like any waiting thread it polls in turn
 * with the others, or sleeps until events come, until it is stopped.
 */
#include <signal.h>

#include "base/log.h"
#include "ult/pe.h"

static void *progress_thread(void *arg)
{
    struct ult *self = arg;

    ult_pe_name_thread(self->pe, "progress");
    if (ult_job.hooks.carrier_start)
        ult_job.hooks.carrier_start();
    ult_enter_bound(self);
    ult_sharing_wait_for_stop(self);
    ult_leave_bound(self);
    return NULL;
}

bool ult_progress_is_started(void)
{
    return ult_self()->pe->sharing.progress != NULL;
}

int ult_progress_start(void)
{
    const struct ult *self = ult_self();
    struct ult_pe *pe = self->pe;
    struct ult_progress *progress;
    sigset_t all, before;
    int error;

    ult_pe_share();
    progress = base_calloc_aligned(1, sizeof *progress, "a progress thread");
    progress->ult.pe = pe;
    progress->ult.world_rank = self->world_rank;
    progress->ult.owner = self->owner; /* messages are handled on behalf of any waiting rank of the PE */
    progress->ult.detours = ULT_BOUND;
    progress->ult.state = ULT_RUNNING;
    atomic_fetch_add(&pe->sharing.n_active, 1);
    atomic_fetch_add(&ult_job.n_threads, 1);
    sigfillset(&all); /* the program's handlers run on its own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = ult_pe_create_thread(&progress->thread, NULL, progress_thread, &progress->ult);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        ult_unbind(&progress->ult);
        free(progress);
        return error;
    }
    pe->sharing.progress = progress;
    return 0;
}

void ult_progress_stop(void)
{
    const struct ult *self = ult_self();

    if (self)
        ult_sharing_leave(self->pe);
    atomic_store(&ult_job.is_stopping, true);
    for (int i = 0; i < ult_job.n_pes; i++) {
        struct ult_sharing *sharing = &ult_job.pes[i].sharing;
        if (!sharing->progress)
            continue;
        ult_sharing_stop(&sharing->progress->ult);
        pthread_join(sharing->progress->thread, NULL);
        free(sharing->progress);
        sharing->progress = NULL;
    }
}
