/* SPDX-License-Identifier: BSD-3-Clause
 *
 * late_host.c: see job.h. The module of the program that uses MPI may be one for another MPI: mpi4py of PyPI, which takes the
 * first that it finds. Then each rank is a job of its own, and the results look right but for the number of ranks. Or it is
 * linked with that MPI: then it calls the functions of this library, which is preloaded, with that MPI's handles.
 *
 * A script that uses no MPI may start a program that does. An interpreter that is the only rank of its process leaves its place
 * in the job to the first program that calls MPI_Init, as any other program would. One of several ranks of a process cannot.
 */

#include "ampi/job/job.h"
#include "ampi/procs/launcher_env.h"
#include "base/launched.h"
#include "base/log.h"
#include "base/other_mpi.h"
#include "base/settings.h"

#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
    base_log(
        "%ld ranks were requested, but %s has loaded another MPI (%s), so each rank is a job of its own: "
        "build its MPI module, mpi4py for example, with this mpicc",
        base_settings.n_ranks, ampi_launched_host(), name);
    return 1;
}

void ampi_late_host_warn(void)
{
    static atomic_flag is_checked = ATOMIC_FLAG_INIT;
    const char *name;

    if (!ampi_launched_host() || atomic_flag_test_and_set(&is_checked) || !dl_iterate_phdr(find_other, &name))
        return;
    base_log("%s has loaded another MPI (%s): modules for that MPI do not work with this one; build them, "
             "mpi4py for "
             "example, with this mpicc",
             ampi_launched_host(), name);
}

/* This process is an interpreter that has not called MPI_Init, and its only rank. */
static bool is_waiting;

/* Grows with each child that this process has waited for, also before the interpreter was executed. */
static long count_children(void)
{
    struct rusage children = {0};

    getrusage(RUSAGE_CHILDREN, &children);
    return children.ru_minflt;
}

static long n_children_before;

/* A script that uses no MPI is an ordinary program. If it has started other programs, those may have been the
 * ranks. */
static void check_at_exit(int code, void *arg)
{
    (void)arg;
    if ((code & 0xff) != 0 || !is_waiting)
        return;
    if (ampi_late_host_check(0))
        _exit(1);
    if (count_children() == n_children_before)
        ampi_launched_report(base_settings.n_ranks);
}

void ampi_late_host_wait(const char *options)
{
    is_waiting = true;
    n_children_before = count_children();
    ampi_launched_lend();
    unsetenv(BASE_LAUNCHED_HOST_ENV);
    if (options && setenv("HEDDLE_OPTIONS", options, 1) != 0)
        base_fatal(1, "out of memory: cannot set HEDDLE_OPTIONS");
    on_exit(check_at_exit, NULL);
}

void ampi_late_host_join(void)
{
    if (!is_waiting)
        return;
    is_waiting = false;
    ampi_launched_withdraw();
    unsetenv("HEDDLE_OPTIONS");
    ampi_launched_report(base_settings.n_ranks);
}

bool ampi_late_host_child_entry(const void *caller, char *entry, size_t size)
{
    const struct ampi_rank *rank =
        ampi_launched_host() && ampi_job.n_ranks > 1 ? ampi_rank_of_thread(caller) : NULL;

    if (!rank || __atomic_load_n(&rank->state, __ATOMIC_RELAXED) != AMPI_RANK_STARTED)
        return false;
    snprintf(entry, size, BASE_LAUNCHED_PARENT_ENV "=%d of %d", ampi_rank_number(rank),
             ampi_rank_world_size(rank));
    return true;
}

void ampi_late_host_refuse_child(void)
{
    const char *parent = ampi_launched_parent(), *size = parent ? strrchr(parent, ' ') : NULL;

    if (size && base_settings.n_ranks == 0)
        base_fatal(1,
                   "rank %s is a Python interpreter and has started this MPI program before MPI_Init: with "
                   "`mpirun --procs%s` the program takes the interpreter's place in the job; behind "
                   "`mpirun -n 1` it is a job of its own",
                   parent, size);
}
