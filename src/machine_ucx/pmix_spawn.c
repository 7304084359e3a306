/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmix_spawn.c: starts processes through another launcher than Heddle's mpirun: PMIx_Spawn. They are a job of their own in the
 * universe (join_universe.c), so they have to be on this node.
 */
#include <pmix.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine_ucx/ucxm.h"

struct call {
    struct machine_start *start; /* the caller's */
    pmix_app_t *apps;
    size_t n_apps;
};

static void end(struct call *call, pmix_status_t status)
{
    struct machine_start *start = call->start;

    snprintf(start->error, sizeof start->error, "PMIx_Spawn: %s", PMIx_Error_string(status));
    PMIX_APP_FREE(call->apps, call->n_apps);
    free(call);
    atomic_store(&start->state, status == PMIX_SUCCESS ? MACHINE_STARTED : MACHINE_NOT_STARTED);
}

/* On PMIx's thread. */
static void spawned(pmix_status_t status, char name_space[], void *arg)
{
    (void)name_space;
    end(arg, status);
}

/* Where to start them: here. */
static void set_host(pmix_app_t *app)
{
    char host[UCXM_HOST_BYTES];

    if (!ucxm_launcher_host_of(ucxm.place.proc_id - ucxm.place.job_first, host, sizeof host))
        return;
    PMIX_INFO_CREATE(app->info, 1);
    if (!app->info)
        return;
    app->ninfo = 1;
    PMIX_INFO_LOAD(&app->info[0], PMIX_HOST, host, PMIX_STRING);
}

static bool fill(pmix_app_t *app, const struct machine_program *program, char *const *env)
{
    pmix_status_t status = PMIX_SUCCESS;

    app->cmd = strdup(program->path);
    app->cwd = strdup(program->dir);
    app->maxprocs = program->n_procs;
    set_host(app);
    for (int i = 0; program->argv[i] && status == PMIX_SUCCESS; i++)
        PMIX_ARGV_APPEND(status, app->argv, program->argv[i]);
    for (int i = 0; env[i] && status == PMIX_SUCCESS; i++)
        PMIX_ARGV_APPEND(status, app->env, env[i]);
    return app->cmd && app->cwd && status == PMIX_SUCCESS;
}

void ucxm_start(const struct machine_program *programs, int n_programs, char *const *env,
                struct machine_start *start)
{
    struct call *call = malloc(sizeof *call);
    pmix_status_t status = call ? PMIX_SUCCESS : PMIX_ERR_NOMEM;

    if (!call) {
        snprintf(start->error, sizeof start->error, "out of memory");
        atomic_store(&start->state, MACHINE_NOT_STARTED);
        return;
    }
    *call = (struct call){.start = start, .n_apps = (size_t)n_programs};
    PMIX_APP_CREATE(call->apps, call->n_apps);
    for (int i = 0; i < n_programs && status == PMIX_SUCCESS; i++)
        if (!call->apps || !fill(&call->apps[i], &programs[i], env))
            status = PMIX_ERR_NOMEM;
    if (status == PMIX_SUCCESS)
        status = PMIx_Spawn_nb(NULL, 0, call->apps, call->n_apps, spawned, call);
    if (status != PMIX_SUCCESS)
        end(call, status);
}
