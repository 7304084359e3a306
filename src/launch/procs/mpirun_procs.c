/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpirun-procs: the main sequence, and the event loop: signals, output, input, reports of the PMIx server,
 * and time. See mpirun_procs.h.
 */
#include "launch/procs/mpirun_procs.h"

#include "base/launched.h"
#include "base/rank_variables.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

double procs_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- The command line (written by mpirun, so errors in it are not explained) ---- */

static void read_command(char **argv, struct procs_options *options_out)
{
    char **word = argv + 1, **parts = NULL;
    *options_out = (struct procs_options){.binds = true, .progress_fd = -1, .reports_fd = -1};
    for (; *word && strcmp(*word, "--") != 0; word++) {
        const char *value = strchr(*word, '=') ? strchr(*word, '=') + 1 : "";
        if (strncmp(*word, "procs=", 6) == 0)
            options_out->num_procs = atoi(value);
        else if (strncmp(*word, "ranks=", 6) == 0)
            options_out->num_ranks = atoi(value);
        else if (strncmp(*word, "timeout=", 8) == 0)
            options_out->timeout_s = atof(value);
        else if (strncmp(*word, "path=", 5) == 0)
            options_out->path = value;
        else if (strcmp(*word, "tag-output") == 0)
            options_out->tags_output = true;
        else if (strcmp(*word, "quiet") == 0)
            options_out->is_quiet = true;
        else if (strcmp(*word, "verbose") == 0)
            options_out->is_verbose = true;
        else if (strcmp(*word, "no-bind") == 0)
            options_out->binds = false;
        else if (strncmp(*word, "universe", 8) == 0) {
            options_out->is_in_universe = true;
            options_out->is_universe_implied = *value != '\0';
        } else if (strcmp(*word, "grows") == 0)
            options_out->grows = true;
        else if (strcmp(*word, "debugged") == 0)
            launch_mpir_set_on();
        else if (strcmp(*word, "keep-going") == 0)
            options_out->keeps_going = true;
        else if (strncmp(*word, "progress=", 9) == 0)
            options_out->progress_fd = atoi(value);
        else if (strncmp(*word, "reports=", 8) == 0)
            options_out->reports_fd = atoi(value);
        else if (strncmp(*word, "part=", 5) == 0 && word[1] && word[2]) {
            parts = parts ? parts : word;
            word += 2;
        } else
            break;
    }
    if (*word == NULL || strcmp(*word, "--") != 0 || word[1] == NULL || options_out->path == NULL ||
        options_out->num_procs < 1)
        launch_fail(LAUNCH_EXIT_USAGE, "this program is part of mpirun: run mpirun --procs P -n N program");
    options_out->argv = word + 1;
    procs_programs_read(options_out, parts, word + 1);
}

/* ---- Environment ---- */

static void set_size(const struct procs_job *job)
{
    char *text = NULL, *programs = job->first_number ? NULL : procs_programs_text(&job->options);
    if (job->first_number &&
        asprintf(&programs, BASE_LAUNCHED_UNIVERSE "%d+%d", job->first_number, job->max_procs) < 0)
        programs = NULL;
    if (programs == NULL ||
        asprintf(&text, "%s:%d%s%s%s", job->name, job->options.num_procs,
                 job->options.keeps_going ? BASE_LAUNCHED_KEEPS_GOING : "",
                 job->options.grows ? BASE_LAUNCHED_GROWS : "", programs) < 0 ||
        setenv(BASE_LAUNCHED_SIZE_ENV, text, 1) != 0)
        launch_fail(1, "out of memory");
    free(text);
    free(programs);
}

/* Marks the processes and their descendants, for leftover.c. */
static void mark_environment(const struct procs_job *job)
{
    const char *outer = getenv(PROCS_JOB_ENV);
    char *mark = NULL;
    if (asprintf(&mark, "%s%s%s", outer ? outer : "", outer ? ":" : "", job->id) < 0 ||
        setenv(PROCS_JOB_ENV, mark, 1) != 0)
        launch_fail(1, "out of memory");
    free(mark);
}

/* A process's environment under construction: malloc'ed strings and array. */
struct env {
    char **entries;
    size_t num;
};

static void set_variable(const char *name, const char *value, bool is_added, void *arg)
{
    struct env *env = arg;
    size_t len = strlen(name), at = 0;
    while (at < env->num && !(strncmp(env->entries[at], name, len) == 0 && env->entries[at][len] == '='))
        at++;
    if (at == env->num && !is_added)
        return;
    if (at == env->num) {
        env->entries = realloc(env->entries, (++env->num + 1) * sizeof env->entries[0]);
        if (env->entries == NULL)
            launch_fail(1, "out of memory");
        env->entries[at] = env->entries[env->num] = NULL;
    }
    free(env->entries[at]);
    if (asprintf(&env->entries[at], "%s=%s", name, value) < 0)
        launch_fail(1, "out of memory");
}

/* Sets the variables of the process's program alone. */
static void set_own(struct env *env, char **variables)
{
    for (; variables != NULL && *variables; variables++) {
        char *equals = strchr(*variables, '=');
        *equals = '\0';
        set_variable(*variables, equals + 1, true, env);
        *equals = '=';
    }
}

/* Sets the variables for a process's place in the job. If it has several ranks, each of them gets its own
 * values later. */
static void set_place(struct env *env, const struct procs_options *options, int proc_id)
{
    const struct procs_program *program = procs_program_of(options, proc_id),
                               *last = &options->programs[options->num_programs - 1];
    int size = program->spawn > 0   ? last->first_rank + last->num_ranks
               : options->num_ranks ? options->num_ranks
                                    : options->num_procs;
    long first, end;
    procs_ranks_of(options, proc_id, &first, &end);
    int rank = (int)first;
    struct base_rank_place place = {.rank = rank, .size = size, .local_rank = rank, .local_size = size};
    if (size > 1 || program->spawn > 0)
        base_rank_variables_set(&place, set_variable, env);
}

/* A malloc'ed copy of the environment, with the server's variables added; NULL: memory is exhausted. */
static char **make_env(const struct procs_job *job, int proc_id)
{
    struct env env = {NULL, 0};
    while (environ[env.num])
        env.num++;
    env.entries = calloc(env.num + 1, sizeof env.entries[0]);
    for (size_t i = 0; env.entries && i < env.num; i++)
        if ((env.entries[i] = strdup(environ[i])) == NULL)
            return NULL;
    if (env.entries == NULL)
        return NULL;
    set_own(&env, procs_program_of(&job->options, proc_id)->variables);
    set_place(&env, &job->options, proc_id);
    if (job->first_number || procs_program_of(&job->options, proc_id)->spawn > 0)
        set_variable(BASE_LAUNCHED_SPAWN_ENV, job->spawn_text, true, &env);
    if (procs_program_of(&job->options, proc_id)->dir != NULL)
        set_variable("PWD", procs_program_of(&job->options, proc_id)->dir, false, &env);
    if (job->options.tags_output) {
        char text[32];
        const int *output = job->procs[proc_id].output;
        snprintf(text, sizeof text, "%d,%d", output[0], output[1]);
        set_variable(BASE_LAUNCHED_OUTPUT_ENV, text, true, &env);
    }
    return procs_server_add_env(job, proc_id, &env.entries) ? env.entries : NULL;
}

static void free_env(char **env)
{
    for (char **entry = env; *entry; entry++)
        free(*entry);
    free(env);
}

/* ---- Signals ---- */

static const int watched_signals[] = {SIGCHLD, SIGINT,  SIGTERM, SIGHUP, SIGQUIT,
                                      SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

/* Blocks the signals, for libpmix's threads, too. Returns the descriptor to read them from. */
static int open_signals(struct procs_job *job)
{
    sigset_t signals;
    struct sigaction pipe_action;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof watched_signals / sizeof watched_signals[0]; i++)
        sigaddset(&signals, watched_signals[i]);
    sigprocmask(SIG_BLOCK, &signals, &job->signals_before);
    sigaction(SIGPIPE, NULL, &pipe_action);
    job->was_sigpipe_default = pipe_action.sa_handler == SIG_DFL;
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Ends the processes that the job's processes have started, after all of the latter have ended. */
static void kill_leftover(const struct procs_job *job)
{
    procs_leftover_kill(job->id);
    procs_leftover_kill_children(procs_guard_pid());
}

/* mpirun itself acts on a request to end that comes twice, or when no process is left to receive it. */
static void forward_signal(struct procs_job *job, int number)
{
    static int num_requests;
    bool is_request = number == SIGINT || number == SIGTERM || number == SIGHUP; /* SIGQUIT: a report */
    if ((is_request || number == SIGQUIT) && job->num_running == 0) {
        launch_progress_end();
        kill_leftover(job);
        procs_jobdir_remove(job->dir);
        procs_jobdir_remove_rooms();
        procs_universe_leave(job);
        _exit(128 + number);
    }
    if (is_request && ++num_requests > 1 && job->next_step_s == 0 && job->ending != SIGKILL) {
        procs_end_all(job, 128 + number);
        return;
    }
    job->is_told_to_end = job->is_told_to_end || is_request;
    if (number == SIGQUIT)
        procs_quit_forward(job);
    else
        procs_end_signal_all(job, number);
    if (number == SIGTSTP)
        raise(SIGSTOP); /* the SIGCONT that resumes this process is forwarded in turn */
}

static void read_signals(struct procs_job *job, int signals)
{
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == sizeof info)
        if (info.ssi_signo != SIGCHLD)
            forward_signal(job, (int)info.ssi_signo);
    procs_end_reap(job);
}

/* ---- Starting ---- */

static void say_what_is_run(const struct procs_job *job)
{
    const char *rank_options = getenv("HEDDLE_OPTIONS");
    fprintf(stderr, "mpirun: %d processes of ", job->options.num_procs);
    if (rank_options)
        fprintf(stderr, "HEDDLE_OPTIONS='%s' ", rank_options);
    for (int i = 0; i < job->options.num_programs; i++) {
        const struct procs_program *program = &job->options.programs[i];
        if (i > 0)
            fprintf(stderr, " : ");
        if (job->options.num_programs > 1)
            fprintf(stderr, "-n %d --procs %d ", program->num_ranks, program->num_procs);
        fprintf(stderr, "%s", program->path);
        for (char **word = program->argv + 1; *word; word++)
            fprintf(stderr, " %s", *word);
    }
    fputc('\n', stderr);
}

static void say_why_not(const struct procs_job *job, int proc_id, int error)
{
    const struct procs_program *program = procs_program_of(&job->options, proc_id);
    if (error == ENOENT && access(program->path, X_OK) == 0)
        launch_say("%s: its interpreter or loader does not exist", program->argv[0]);
    else
        launch_say("cannot start process %d of %d, %s: %s%s", proc_id, job->options.num_procs,
                   program->argv[0], strerror(error),
                   error == EAGAIN   ? " (ulimit -u?)"
                   : error == EMFILE ? " (ulimit -n?)"
                                     : "");
}

/* Opens the sockets for the output of a process's ranks. Returns 0 or an errno. */
static int open_outputs(struct procs_job *job, struct procs_forward *forward, int proc_id)
{
    for (int i = 0; i < 2; i++) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
            return errno;
        job->procs[proc_id].output[i] = ends[1];
        procs_forward_add_ranks(forward, proc_id, i == 1, ends[0]);
    }
    return 0;
}

static void close_outputs(const struct procs_job *job, int proc_id)
{
    for (int i = 0; i < 2; i++)
        if (job->procs[proc_id].output[i] > 0)
            close(job->procs[proc_id].output[i]);
}

/* Starts a process. Returns 0 or an errno. */
static int start(struct procs_job *job, int proc_id, int input)
{
    struct procs_forward *forward = job->forward;
    int out, err, error = job->options.tags_output ? open_outputs(job, forward, proc_id) : 0;
    char **env = error == 0 ? make_env(job, proc_id) : NULL;
    if (error == 0)
        error = env != NULL ? procs_spawn(job, proc_id, env, input, &out, &err) : ENOMEM;
    if (env != NULL)
        free_env(env);
    if (job->options.tags_output)
        close_outputs(job, proc_id);
    if (error == 0) {
        procs_forward_add(forward, proc_id, false, out);
        procs_forward_add(forward, proc_id, true, err);
    }
    return error;
}

static int start_spawned(struct procs_job *job, int proc_id)
{
    return start(job, proc_id, -1);
}

static void start_all(struct procs_job *job)
{
    int input = procs_input_open();
    for (int i = 0; i < job->options.num_procs && !job->has_failed; i++) {
        int error = start(job, i, i == 0 ? input : -1);
        if (error != 0) {
            say_why_not(job, i, error);
            procs_end_all(job,
                          error == EAGAIN || error == ENOMEM || error == EMFILE ? 1 : LAUNCH_EXIT_CANNOT_RUN);
            break;
        }
    }
    if (input > STDERR_FILENO)
        close(input);
    launch_mpir_show();
}

/* ---- The loop ---- */

/* How long to wait, in ms: until the next step of ending, the timeout, or a check for what comes without an event: unfinished
 * lines, a change of the terminal's foreground group, and the ends of other jobs' processes. */
static int wait_ms(const struct procs_job *job, double deadline_s)
{
    double now_s = procs_now_s(), until_s = now_s + launch_progress_show();
    if (job->next_step_s > 0 && job->next_step_s < until_s)
        until_s = job->next_step_s;
    if (deadline_s > 0 && deadline_s < until_s)
        until_s = deadline_s;
    if ((isatty(STDIN_FILENO) || job->first_number) && job->num_running > 0 &&
        until_s > now_s + PROCS_UNIVERSE_WATCH_S)
        until_s = now_s + PROCS_UNIVERSE_WATCH_S;
    return until_s <= now_s ? 0 : (int)((until_s - now_s) * 1e3) + 1;
}

static void watch_time(struct procs_job *job, double *deadline_s_inout)
{
    double now_s = procs_now_s();
    if (*deadline_s_inout > 0 && now_s >= *deadline_s_inout && job->num_running > 0) {
        *deadline_s_inout = 0;
        if (!job->has_failed)
            launch_say("%s ran longer than %g s (--timeout) and is ended", job->options.argv[0],
                       job->options.timeout_s);
        procs_end_all(job, LAUNCH_EXIT_TIMEOUT);
    }
    if (job->next_step_s > 0 && now_s >= job->next_step_s)
        procs_end_step(job);
    procs_universe_watch(job);
}

/* ---- Start reports ---- */

static void read_reports(struct procs_job *job)
{
    struct launch_report report;
    while (launch_report_next(job->options.reports_fd, &report))
        if (report.proc_id >= 0 && report.proc_id < job->options.num_procs)
            job->procs[report.proc_id].has_reported = true;
}

/* Called if a shell, an interpreter or the like was started: checks that each process has run a program
 * that is linked with the library, or at least a client of the server if that can be a rank. */
static void check_reports(struct procs_job *job)
{
    int num_procs = job->options.num_procs, num_joined = 0;
    if (job->options.reports_fd < 0 || job->exit_code != 0)
        return;
    read_reports(job);
    for (int i = 0; i < num_procs; i++)
        num_joined +=
            job->procs[i].has_reported || (job->procs[i].is_connected && job->options.num_ranks == num_procs);
    if (num_joined == num_procs)
        return;
    launch_say("%s: in %d of %d processes no program of this MPI library was started (another MPI, or an "
               "environment without mpirun's variables?), so the %d requested ranks did not exist",
               job->options.argv[0], num_procs - num_joined, num_procs,
               job->options.num_ranks ? job->options.num_ranks : num_procs);
    job->exit_code = 1;
}

/* One turn: waits for events and handles them. */
static void turn(struct procs_job *job, struct pollfd *watched, int signals, int timeout_ms)
{
    struct procs_forward *forward = job->forward;
    struct procs_abort abort;
    int num = procs_forward_watch(forward, watched);
    watched[num++] = (struct pollfd){.fd = signals, .events = POLLIN};
    watched[num++] = (struct pollfd){.fd = procs_server_bell(), .events = POLLIN};
    watched[num++] = procs_input_watched();
    watched[num++] = (struct pollfd){.fd = job->options.reports_fd, .events = POLLIN};
    num += procs_grow_watch(watched + num);
    if (poll(watched, (nfds_t)num, timeout_ms) == 0 && isatty(STDIN_FILENO))
        procs_forward_show_unfinished(forward); /* possibly a question */
    if (procs_server_hear(&abort))
        procs_end_by_abort(job, &abort);
    read_reports(job);
    procs_forward_work(forward); /* before handling ends of processes: it determines their order */
    read_signals(job, signals);
    procs_grow_work(job, start_spawned);
    procs_input_work();
}

/* Runs until all processes have ended and their output is written. */
static void run(struct procs_job *job, int signals)
{
    struct procs_forward *forward = job->forward;
    struct pollfd *watched =
        calloc((size_t)procs_forward_max_watched(forward) + 4 + PROCS_GROW_WATCHED, sizeof watched[0]);
    if (watched == NULL)
        launch_fail(1, "out of memory");
    double deadline_s = job->options.timeout_s > 0 ? procs_now_s() + job->options.timeout_s : 0;
    if (job->options.progress_fd >= 0)
        launch_progress_begin(job->options.progress_fd);
    start_all(job);
    while (job->num_running > 0) {
        turn(job, watched, signals, wait_ms(job, deadline_s));
        watch_time(job, &deadline_s);
    }
    launch_progress_end();
    kill_leftover(job);
    while (!procs_forward_is_done(forward))
        turn(job, watched, signals, 1000);
    free(watched);
}

/* 0, 1 and 2 must be open, or the first pipes would take these numbers. */
static void open_standard_files(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    close(fd);
}

int main(int argc, char **argv)
{
    (void)argc;
    struct procs_job job = {0};
    int lock;
    read_command(argv, &job.options);
    open_standard_files();
    procs_requirements_check();
    procs_requirements_raise_stack(&job.stack_before);
    if (gethostname(job.host, sizeof job.host) != 0)
        snprintf(job.host, sizeof job.host, "localhost");
    job.num_procs = job.options.num_procs;
    job.max_procs = job.num_procs + (job.options.is_in_universe ? BASE_LAUNCHED_UNIVERSE_SPAWNED_MAX
                                                                : BASE_LAUNCHED_SPAWNED_MAX);
    job.procs = calloc((size_t)job.max_procs, sizeof job.procs[0]);
    job.forward = procs_forward_create(job.procs, job.max_procs, &job.options);
    if (job.procs == NULL || job.forward == NULL)
        launch_fail(1, "out of memory for %d processes", job.options.num_procs);

    int signals = open_signals(&job);
    procs_guard_start(job.max_procs);
    if (!procs_jobdir_create(&job, &lock))
        return 1;
    procs_leftover_adopt();
    setenv("UCX_POSIX_DIR", job.dir, 0);
    mark_environment(&job);
    /* libpmix's other data store is shared memory with locks, which a killed process may hold. */
    setenv("PMIX_MCA_gds", "hash", 0);
    if (procs_grow_prepare(&job) && procs_server_start(&job)) {
        set_size(&job);
        if (job.options.is_verbose)
            say_what_is_run(&job);
        run(&job, signals);
        check_reports(&job);
        if (job.exit_code == 0 && procs_forward_has_failed(job.forward))
            job.exit_code = 1;
    } else {
        job.exit_code = 1;
    }
    procs_jobdir_remove(job.dir);
    procs_jobdir_remove_rooms();
    procs_universe_leave(&job);
    procs_guard_dismiss();
    _exit(job.exit_code); /* not exit: libpmix's thread is still running */
}
