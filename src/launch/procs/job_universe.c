/* SPDX-License-Identifier: BSD-3-Clause
 *
 * This job in the universe (base/universe.h) of mpirun --universe. Used by mpirun_procs.c, grow.c and process_guard.c.
 */
#include "launch/procs/mpirun_procs.h"

#include "base/universe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct base_universe universe;
static bool is_announced[BASE_LAUNCHED_UNIVERSE_MAX]; /* this job's processes know that it has failed */

void procs_universe_tidy(void)
{
    base_universe_tidy(&universe);
}

/* Makes the universe's files visible in the job's folder. Returns 0 or an errno. */
static int link_folder(const struct procs_job *job)
{
    char path[PROCS_DIR_MAX + 32], target[128];
    snprintf(path, sizeof path, "%s" BASE_LAUNCHED_UNIVERSE_LINK, job->dir);
    if (symlink(base_universe_folder(), path) != 0)
        return errno;
    snprintf(path, sizeof path, "%s" BASE_LAUNCHED_TABLE, job->dir);
    snprintf(target, sizeof target, "%s" BASE_LAUNCHED_TABLE, base_universe_folder());
    return symlink(target, path) == 0 ? 0 : errno;
}

struct base_launched_table *procs_universe_enter(struct procs_job *job)
{
    if (base_universe_folder() == NULL)
        launch_fail(LAUNCH_EXIT_USAGE,
                    "HEDDLE_UNIVERSE=%s: expected a name of at most 32 characters, without /",
                    getenv("HEDDLE_UNIVERSE"));
    int error = base_universe_enter(&universe, job->max_procs);
    if (error == 0)
        error = link_folder(job);
    if (error == 0) {
        job->first_number = universe.first;
        return universe.table;
    }
    universe.table = NULL;
    if (job->options.is_universe_implied && !job->options.is_verbose)
        return NULL;
    if (error == ENOSPC)
        launch_say("--universe: its jobs have used all %d numbers of processes: end all jobs of the universe",
                   BASE_LAUNCHED_UNIVERSE_MAX);
    else
        launch_say("--universe: %s: %s", base_universe_folder(),
                   error == EPERM    ? "others can access it, or own it"
                   : error == EPROTO ? "another version of mpirun uses it"
                                     : strerror(error));
    return NULL;
}

void procs_universe_leave(const struct procs_job *job)
{
    if (universe.table != NULL)
        base_universe_leave(&universe, job->first_number, job->max_procs);
}

void procs_universe_watch(const struct procs_job *job)
{
    if (universe.table == NULL)
        return;
    base_universe_find_dead(&universe);
    for (int i = 0; i < (int)universe.table->n_given; i++) {
        if (is_announced[i] || !base_universe_has_lost(&universe, i))
            continue;
        is_announced[i] = true;
        procs_server_announce_loss(job, BASE_LAUNCHED_OTHER_JOB + i, "it belonged to another job");
    }
}
