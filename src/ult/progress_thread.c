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
    struct ult_progress *progress = arg;
    struct ult *self = &progress->ult;

    ult_pe_name_thread(self->pe, "progress");
    if (ult_job.hooks.carrier_start)
        ult_job.hooks.carrier_start();
    ult_enter_bound(self);
    ult_sharing_wait_for_stop(self, &progress->is_stopping);
    atomic_fetch_add(&self->pe->sharing.n_active, 1); /* until ult_unbind */
    ult_leave_bound(self);
    return NULL;
}

bool ult_progress_is_started(void)
{
    return ult_self()->pe->sharing.progress != NULL;
}

bool ult_progress_is_kept(void)
{
    const struct ult_progress *progress = ult_self()->pe->sharing.progress;

    return progress && progress->is_kept;
}

static int create(void)
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
    error = ult_pe_create_thread(&progress->thread, NULL, progress_thread, progress);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        ult_unbind(&progress->ult);
        free(progress);
        return error;
    }
    pe->sharing.progress = progress;
    return 0;
}

int ult_progress_start(bool is_kept)
{
    struct ult_sharing *sharing = &ult_self()->pe->sharing;
    int error = sharing->progress ? 0 : create();

    if (error)
        return error;
    sharing->progress->is_kept |= is_kept;
    sharing->progress->n_users += !is_kept;
    return 0;
}

bool ult_progress_drop(struct ult_progress **ends_out)
{
    struct ult_sharing *sharing = &ult_self()->pe->sharing;
    struct ult_progress *progress = sharing->progress;

    *ends_out = NULL;
    if (!progress || progress->n_users == 0)
        return false;
    if (--progress->n_users == 0 && !progress->is_kept) {
        *ends_out = progress;
        sharing->progress = NULL;
    }
    return true;
}

/* The thread needs the lock to end. */
void ult_progress_end(struct ult_progress *progress)
{
    struct ult_pe *pe = progress->ult.pe;
    bool has_lock = ult_has_lock;

    ult_sharing_leave(pe);
    atomic_store(&progress->is_stopping, true);
    ult_sharing_stop(&progress->ult);
    pthread_join(progress->thread, NULL);
    ult_unbind(&progress->ult);
    free(progress);
    if (has_lock)
        ult_sharing_lock(pe);
}

void ult_progress_stop(void)
{
    const struct ult *self = ult_self();

    if (self)
        ult_sharing_leave(self->pe);
    for (int i = 0; i < ult_job.n_pes; i++) {
        struct ult_sharing *sharing = &ult_job.pes[i].sharing;
        if (sharing->progress)
            ult_progress_end(sharing->progress);
        sharing->progress = NULL;
    }
}
