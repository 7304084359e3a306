/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Handles the end of processes. The job's exit code is that of the first process that failed: its own, or
 * 128 and the signal that ended it, or the code it gave to PMIx_Abort. One failure ends all processes
 * (SIGTERM, and SIGKILL after a grace period), unless --keep-going was given or all others have announced
 * that they tolerate failures. Used by mpirun_procs.c.
 *
 * A process that exits with 0 but has not called a required PMIx_Finalize has failed, too: the others would
 * wait for it forever.
 *
 * Processes that fail because of another one may be reported first (collect_dying, find_first). If several
 * exit codes arrive at once, the wrong process may be named as the cause.
 */
#include "launch/procs/mpirun_procs.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

void procs_end_signal_all(const struct procs_job *job, int signal_number)
{
    for (int i = 0; i < job->num_procs; i++)
        if (job->procs[i].pid != 0)
            kill(-job->procs[i].pid, signal_number);
}

void procs_end_step(struct procs_job *job)
{
    job->next_step_s = 0;
    if (job->ending != 0) {
        job->ending = SIGKILL;
        procs_end_signal_all(job, SIGKILL);
        return;
    }
    job->ending = SIGTERM;
    procs_end_signal_all(job, SIGTERM);
    procs_end_signal_all(job, SIGCONT); /* a stopped process does not act on other signals */
    job->next_step_s = procs_now_s() + PROCS_GRACE_S;
}

static void note_failure(struct procs_job *job, int exit_code)
{
    if (!job->has_failed)
        job->exit_code = exit_code;
    job->has_failed = true;
}

void procs_end_all(struct procs_job *job, int exit_code)
{
    note_failure(job, exit_code);
    if (job->ending == 0)
        procs_end_step(job);
}

void procs_ranks_of(const struct procs_options *options, int proc_id, long *first_out, long *last_out)
{
    const struct procs_program *program = procs_program_of(options, proc_id);
    long num_ranks = program->num_ranks, num_procs = program->num_procs,
         index = proc_id - program->first_proc;
    *first_out = program->first_rank + num_ranks * index / num_procs;
    *last_out = program->first_rank + num_ranks * (index + 1) / num_procs - 1;
}

/* Prints "process 2 of 4 (ranks 32 to 47) <text>". */
static void print_about(const struct procs_job *job, int proc_id, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void print_about(const struct procs_job *job, int proc_id, const char *format, ...)
{
    int num_procs = job->options.num_procs;
    int spawn = procs_program_of(&job->options, proc_id)->spawn;
    long first, last;
    procs_ranks_of(&job->options, proc_id, &first, &last);
    char ranks[64] = "", text[512];
    if (last > first)
        snprintf(ranks, sizeof ranks, " (ranks %ld to %ld)", first, last);
    else if (last == first)
        snprintf(ranks, sizeof ranks, " (rank %ld)", first);
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (spawn > 0)
        launch_say("process %d of spawn %d%s %s", proc_id, spawn, ranks, text);
    else
        launch_say("process %d of %d%s %s", proc_id, num_procs, ranks, text);
}

/* True if any process has called PMIx_Init. */
static bool is_anyone_connected(const struct procs_job *job)
{
    for (int i = 0; i < job->num_procs; i++)
        if (job->procs[i].is_connected)
            return true;
    return false;
}

/* True if all processes that still run tolerate failures, and may go on. Processes that have left the job do
 * not count. */
static bool are_others_tolerant(const struct procs_job *job)
{
    for (int i = 0; i < job->num_procs; i++) {
        const struct procs_proc *proc = &job->procs[i];
        if (!proc->has_ended && !proc->is_tolerant && !proc->is_finalized)
            return false;
    }
    return job->num_running > 0 && !job->is_told_to_end && !job->is_aborted;
}

/* Process proc_id has failed; why: "was ended by ...". Only the first failure is printed, unless the job
 * continues. */
static void process_failed(struct procs_job *job, int proc_id, int exit_code, const char *why)
{
    bool is_tolerated = job->ending == 0 && are_others_tolerant(job);
    if (job->ending == 0)
        print_about(job, proc_id, "%s%s", why, is_tolerated ? "; the others continue" : "");
    note_failure(job, exit_code);
    if (!job->options.keeps_going && !is_tolerated) {
        procs_end_all(job, exit_code);
        return;
    }
    if (job->num_running > 0)
        procs_server_announce_loss(job, proc_id, why);
}

static void process_ended(struct procs_job *job, int proc_id, int status)
{
    const struct procs_proc *proc = &job->procs[proc_id];
    int spawn = procs_program_of(&job->options, proc_id)->spawn;
    bool has_failed = true;
    char why[256];
    if (proc->is_dropped)
        return;
    if (spawn > 0 && !proc->is_connected && job->ending == 0) { /* no failure of the job */
        print_about(job, proc_id, "ended before it called MPI_Init, so MPI_Comm_spawn fails");
        procs_grow_drop(job, spawn);
        return;
    }
    if (WIFSIGNALED(status)) {
        int number = WTERMSIG(status);
        snprintf(why, sizeof why, "was ended by signal %d (%s)%s", number, strsignal(number),
                 WCOREDUMP(status) ? ", core dumped" : "");
        process_failed(job, proc_id, 128 + number, why);
    } else if (WEXITSTATUS(status) != 0) {
        snprintf(why, sizeof why, "ended with exit code %d", WEXITSTATUS(status));
        process_failed(job, proc_id, WEXITSTATUS(status), why);
    } else if (proc->is_connected && !proc->is_finalized) {
        process_failed(job, proc_id, 1, "ended without finalizing MPI");
    } else {
        has_failed = false;
    }
    procs_grow_ended(proc_id, has_failed);
}

/* Finds a process that has ended well without ever joining the job while another one has joined: the others
 * would wait for it. Checked again whenever a process ends. */
static void check_absent(struct procs_job *job)
{
    if (job->has_failed || job->num_running == 0 || !is_anyone_connected(job))
        return;
    for (int i = 0; i < job->num_procs; i++) {
        if (!job->procs[i].has_ended || job->procs[i].is_connected || job->procs[i].is_dropped)
            continue;
        process_failed(job, i, 1, "ended without initializing MPI, which others have done");
        return;
    }
}

/* Reaps a process that has ended, without any consequences yet; false if there is none. pid: -1 for any. */
static bool collect(struct procs_job *job, pid_t pid)
{
    int status;
    pid = waitpid(pid, &status, WNOHANG);
    for (int i = 0; pid > 0 && i < job->num_procs; i++) {
        struct procs_proc *proc = &job->procs[i];
        if (proc->pid != pid)
            continue;
        procs_guard_remove(pid);
        proc->pid = 0;
        proc->has_ended = proc->is_undecided = true;
        proc->status = status;
        job->num_running--;
    }
    return pid > 0;
}

/* Waits briefly for processes that are about to end: those that have closed their output, and others, as
 * the kernel may close a process's connections before its output. No event tells that no other process is about to end, and
 * SIGCHLD does not tell whose end it is. Once in a job that fails: it is not worth a descriptor per process. */
static void collect_dying(struct procs_job *job)
{
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    while (collect(job, -1))
        ;
    for (int i = 0; i < job->num_procs; i++) {
        const struct procs_proc *proc = &job->procs[i];
        for (int ms = 0; ms < 100 && proc->pid != 0 && proc->close_order != 0; ms++)
            if (!collect(job, proc->pid))
                nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* The first to end among processes reaped together. A killed process is the cause of the others' failures;
 * otherwise the one that closed its output first. -1: all are handled. */
static int find_first(const struct procs_job *job)
{
    int first = -1;
    for (int i = 0; i < job->num_procs; i++) {
        const struct procs_proc *a = &job->procs[i], *b = &job->procs[first < 0 ? i : first];
        if (!a->is_undecided)
            continue;
        bool is_killed = WIFSIGNALED(a->status), is_first_killed = WIFSIGNALED(b->status);
        bool is_earlier = a->close_order != 0 && (b->close_order == 0 || a->close_order < b->close_order);
        if (first < 0 || (is_killed && !is_first_killed) || (is_killed == is_first_killed && is_earlier))
            first = i;
    }
    return first;
}

/* Handles the processes that have been reaped. */
static void decide(struct procs_job *job)
{
    for (int i; (i = find_first(job)) >= 0;) {
        job->procs[i].is_undecided = false;
        process_ended(job, i, job->procs[i].status);
    }
}

void procs_end_reap(struct procs_job *job)
{
    bool is_failure = false;
    while (collect(job, -1))
        ;
    for (int i = 0; i < job->num_procs; i++)
        is_failure = is_failure || (job->procs[i].is_undecided && job->procs[i].status != 0);
    /* Other processes may have learnt of a failure through PMIx, and failed too, before the kernel reports
     * the first one here. */
    if (is_failure && !job->has_failed)
        collect_dying(job);
    decide(job);
    check_absent(job);
}

void procs_end_by_abort(struct procs_job *job, const struct procs_abort *abort)
{
    int code = abort->code & 0xff;
    job->is_aborted = true;
    if (!job->has_failed) { /* it may have aborted because of another failure that is reported later */
        while (collect(job, -1))
            ;
        collect_dying(job);
        decide(job);
    }
    if (!job->has_failed)
        print_about(job, abort->proc_id, "aborted the job with code %d%s%s", abort->code,
                    abort->text[0] ? ": " : "", abort->text);
    procs_end_all(job, code ? code : 1);
}
