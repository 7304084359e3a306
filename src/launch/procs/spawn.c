/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Starts one process of the job. Uses only system calls between fork and exec: a thread of libpmix may hold
 * malloc's lock. Used by mpirun_procs.c.
 */
#include "launch/procs/mpirun_procs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The child's part; never returns. If it cannot run the program, reports an errno through report_fd. */
static _Noreturn void become_program(const struct procs_job *job, int proc_id, char **env,
                                     const cpu_set_t *cores, pid_t parent, const int fds[3], int report_fd)
{
    const struct procs_program *program = procs_program_of(&job->options, proc_id);
    /* The parent may have died before the prctl. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setpgid(0, 0);
    if (cores != NULL)
        sched_setaffinity(0, sizeof *cores, cores);
    for (int i = 0; i < 3; i++)
        if (fds[i] != i && dup2(fds[i], i) < 0)
            goto failed;
    for (int i = 0; job->options.tags_output && i < 2; i++)
        fcntl(job->procs[proc_id].output[i], F_SETFD, 0);
    if (fds[0] == 0) /* the child's: not closed by exec */
        fcntl(0, F_SETFD, 0);
    setrlimit(RLIMIT_STACK, &job->stack_before);
    if (job->was_sigpipe_default)
        signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &job->signals_before, NULL);
    if (program->dir != NULL && chdir(program->dir) != 0)
        goto failed;
    if (proc_id < job->options.num_procs)
        launch_mpir_trace_me();
    execve(program->path, program->argv, env);
failed:;
    int error = errno;
    ssize_t len = write(report_fd, &error, sizeof error);
    _exit(len > 0 ? LAUNCH_EXIT_CANNOT_RUN : 1);
}

int procs_spawn(struct procs_job *job, int proc_id, char **env, int stdin_fd, int *stdout_out,
                int *stderr_out)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1}, report[2] = {-1, -1}, nothing = -1, error = 0;
    cpu_set_t cores;
    bool is_bound = job->options.binds && proc_id < job->options.num_procs &&
                    procs_affinity_share(proc_id, job->options.num_procs, &cores);
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0 ||
        (stdin_fd < 0 && (nothing = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)) {
        error = errno;
        goto err_close;
    }
    int fds[3] = {stdin_fd < 0 ? nothing : stdin_fd, out[1], err[1]};
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        become_program(job, proc_id, env, is_bound ? &cores : NULL, parent, fds, report[1]);
    if (pid < 0) {
        error = errno;
        goto err_close;
    }
    setpgid(pid, pid); /* parent and child both call it, whichever comes first */
    close(report[1]);
    report[1] = -1;
    int child_error;
    if (read(report[0], &child_error, sizeof child_error) == sizeof child_error) {
        error = child_error;
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        goto err_close;
    }
    if (proc_id < job->options.num_procs)
        launch_mpir_add(pid, procs_program_of(&job->options, proc_id)->path);
    procs_guard_add(pid);
    job->procs[proc_id].pid = pid;
    job->num_running++;
    *stdout_out = out[0];
    *stderr_out = err[0];
    out[0] = err[0] = -1;
err_close:
    for (int i = 0; i < 2; i++) {
        if (out[i] >= 0)
            close(out[i]);
        if (err[i] >= 0)
            close(err[i]);
        if (report[i] >= 0)
            close(report[i]);
    }
    if (nothing >= 0)
        close(nothing);
    return error;
}
