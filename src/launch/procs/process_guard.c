/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The guard: a child that only reads a pipe with the pids of the job's processes. If this process dies
 * (SIGKILL, out of memory) the pipe is closed, and the guard kills the rest of the job and removes its
 * folder. It has its own session, so signals that a terminal or a shell sends to the job do not reach it.
 * If it is killed too, the processes still die with mpirun (spawn.c), and a later run removes the folder
 * (jobdir.c).
 */
#include "launch/procs/mpirun_procs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DISMISSED = 0 }; /* sent instead of a process id: the job has ended normally */

static int guard_pipe = -1; /* the write end; the guard waits until it is closed */
static pid_t guard_pid;     /* 0: no guard */

static _Noreturn void watch(const struct procs_job *job, int fd)
{
    pid_t *pids = calloc((size_t)job->options.num_procs, sizeof pids[0]), pid;
    int num = 0;
    ssize_t len;
    setsid();
    prctl(PR_SET_NAME, "mpirun-guard");
    int nothing = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++)
        dup2(nothing, i);
    while ((len = read(fd, &pid, sizeof pid)) == sizeof pid ? pid != DISMISSED : len < 0 && errno == EINTR)
        if (len > 0 && pids && num < job->options.num_procs)
            pids[num++] = pid;
    if (len != sizeof pid) { /* not dismissed */
        for (int i = 0; i < num; i++)
            kill(-pids[i], SIGKILL);
        procs_leftover_kill(job->id);
        procs_jobdir_remove(job->dir);
    }
    _exit(0);
}

void procs_guard_start(const struct procs_job *job)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    guard_pid = fork();
    if (guard_pid == 0) {
        close(ends[1]);
        watch(job, ends[0]);
    }
    close(ends[0]);
    if (guard_pid < 0) { /* continue without a guard */
        guard_pid = 0;
        close(ends[1]);
        return;
    }
    guard_pipe = ends[1];
}

void procs_guard_add(pid_t pid)
{
    if (guard_pid != 0 && write(guard_pipe, &pid, sizeof pid) != sizeof pid)
        guard_pid = 0; /* it was killed */
}

pid_t procs_guard_pid(void)
{
    return guard_pid;
}

void procs_guard_dismiss(void)
{
    pid_t pid = DISMISSED;
    if (guard_pid == 0)
        return;
    if (write(guard_pipe, &pid, sizeof pid) == sizeof pid)
        waitpid(guard_pid, NULL, 0);
    close(guard_pipe);
    guard_pid = 0;
}
