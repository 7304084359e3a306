/* SPDX-License-Identifier: BSD-3-Clause
 *
 * forward_quit.c: SIGQUIT (Ctrl-\) asks the job's processes for a report, after which they go on. It would end what their ranks have
 * started (system, popen), which is in the same process groups, and processes that are not in MPI_Init yet. So only processes
 * with a handler get it, and of these no child of another one: a forked child has its parent's handler. If no process has a
 * handler, all get it. Used by mpirun_procs.c.
 */
#include "launch/procs/mpirun_procs.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

/* 28 values are between the group and the caught signals. */
#define SKIP_7 " %*s %*s %*s %*s %*s %*s %*s"

/* A process's parent and process group. False: it has no handler of SIGQUIT, or has ended. */
static bool read_catcher(pid_t pid, pid_t *parent_out, pid_t *group_out)
{
    char text[1024];
    unsigned long caught;
    const char *name_end = procs_read_stat(pid, text, sizeof text); /* ") state parent group ..." */

    return name_end &&
           sscanf(name_end, ") %*c %d %d" SKIP_7 SKIP_7 SKIP_7 SKIP_7 " %lu", parent_out, group_out,
                  &caught) == 3 &&
           (caught & 1ul << (SIGQUIT - 1)) != 0;
}

static bool is_group_of(const struct procs_job *job, pid_t group)
{
    for (int i = 0; i < job->num_procs; i++)
        if (job->procs[i].pid == group)
            return true;
    return false;
}

void procs_quit_forward(const struct procs_job *job)
{
    DIR *listing = opendir("/proc");
    int num = 0;

    for (struct dirent *entry; listing && (entry = readdir(listing)) != NULL;) {
        pid_t pid = (pid_t)atoi(entry->d_name), parent, group, parents_parent, parents_group;
        if (pid > 1 && read_catcher(pid, &parent, &group) && is_group_of(job, group) &&
            !(read_catcher(parent, &parents_parent, &parents_group) && parents_group == group) &&
            kill(pid, SIGQUIT) == 0)
            num++;
    }
    if (listing)
        closedir(listing);
    if (num == 0)
        procs_end_signal_all(job, SIGQUIT);
}
