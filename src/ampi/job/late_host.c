/* SPDX-License-Identifier: BSD-3-Clause
 *
 * late_host.c: see late_host.h. The module of the program that uses MPI may be one for another MPI: mpi4py of PyPI, which takes the
 * first that it finds. Then each rank is a job of its own, and the results look right but for the number of ranks.
 */
#include "ampi/job/late_host.h"

#include "ampi/job/job.h"
#include "ampi/procs/launcher_env.h"
#include "base/log.h"
#include "base/other_mpi.h"
#include "base/settings.h"

#include <link.h>
#include <string.h>
#include <unistd.h>

/* Callback: ends the search at a library of another MPI; its name is in *name. */
static int find_other(struct dl_phdr_info *info, size_t size, void *name)
{
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

    (void)size;
    if (!slash || !base_is_other_mpi(slash + 1))
        return 0;
    *(const char **)name = slash + 1;
    return 1;
}

static bool has_joined(void)
{
    for (int i = 0; ampi_job.ranks && i < ampi_job.n_local; i++)
        if (ampi_job.ranks[i].world_state >= AMPI_RANK_INITIALIZED)
            return true;
    return false;
}

int ampi_late_host_check(int exit_code)
{
    const char *name;

    if (exit_code != 0 || has_joined() || !ampi_launched_host() || base_settings.n_ranks <= 1 ||
        !dl_iterate_phdr(find_other, &name))
        return exit_code;
    base_log("%ld ranks were requested, but %s has loaded another MPI (%s), and each was alone: build its "
             "MPI module, "
             "mpi4py for example, with this mpicc",
             base_settings.n_ranks, ampi_launched_host(), name);
    return 1;
}

static void check_at_exit(int code, void *arg)
{
    (void)arg;
    if ((code & 0xff) == 0 && ampi_late_host_check(0))
        _exit(1);
}

void ampi_late_host_watch(void)
{
    if (ampi_launched_host())
        on_exit(check_at_exit, NULL);
}
