/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Runs the program: in place of this process if possible; otherwise as children, to enforce a timeout or
 * because there are several. Signals sent to mpirun are forwarded to the children. Called by main.c.
 */
#include "launch/launch.h"
#include "launch/libraries.h"

#include "base/launched.h"
#include "base/rank_variables.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_S = 2 }; /* between SIGTERM and SIGKILL */

void launch_forget_outer(void)
{
    for (char **entry = environ; *entry;) {
        char *name = base_launched_is_place(*entry) ? strndup(*entry, strcspn(*entry, "=")) : NULL;
        if (name == NULL || unsetenv(name) != 0)
            entry++;
        free(name);
    }
}

/* Sets HEDDLE_OPTIONS: its old contents, then the number of ranks, then the options given to mpirun. */
static void set_rank_options(const struct launch_command *command)
{
    const char *before = getenv("HEDDLE_OPTIONS");
    char ranks[32] = "";
    if (command->num_ranks)
        snprintf(ranks, sizeof ranks, "+vp %d", command->num_ranks);
    const char *parts[] = {before ? before : "", ranks, command->rank_options ? command->rank_options : ""};
    char *all = NULL;
    for (int i = 0; i < 3; i++) {
        if (parts[i][0] == '\0')
            continue;
        char *longer;
        if (asprintf(&longer, "%s%s%s", all ? all : "", all ? " " : "", parts[i]) < 0)
            launch_fail(1, "out of memory");
        free(all);
        all = longer;
    }
    if (all != NULL)
        setenv("HEDDLE_OPTIONS", all, 1);
    free(all);
}

static void set_variable(const char *name, const char *value, bool is_added, void *place)
{
    if (is_added || (((struct base_rank_place *)place)->size > 1 && getenv(name)))
        setenv(name, value, 1);
}

/* Sets the variables for the place of a process that is one rank. If it has several ranks, each gets its
 * own values later. */
static void set_place(int rank, int size)
{
    struct base_rank_place place = {.rank = rank, .size = size, .local_rank = rank, .local_size = size};
    base_rank_variables_set(&place, set_variable, &place);
}

void launch_set_library_path(void)
{
    const char *before = getenv("LD_LIBRARY_PATH");
    char *path;
    if (asprintf(&path, "%s%s%s", launch_library_dir(), before ? ":" : "", before ? before : "") < 0)
        launch_fail(1, "out of memory");
    setenv("LD_LIBRARY_PATH", path, 1);
    free(path);
}

static void say_what_is_run(const struct launch_command *command, const struct launch_program *program,
                            int copies)
{
    const char *rank_options = getenv("HEDDLE_OPTIONS");
    fflush(stdout);
    fprintf(stderr, "mpirun: ");
    if (copies > 1)
        fprintf(stderr, "not an MPI program; %d copies of ", copies);
    else if (rank_options)
        fprintf(stderr, "HEDDLE_OPTIONS='%s' ", rank_options);
    if (program->needs_library_path)
        fprintf(stderr, "LD_LIBRARY_PATH=%s ", getenv("LD_LIBRARY_PATH"));
    fprintf(stderr, "%s", program->path);
    for (char **word = command->program_argv + 1; *word; word++)
        fprintf(stderr, " %s", *word);
    fputc('\n', stderr);
}

static _Noreturn void replace_self(const struct launch_command *command, const struct launch_program *program)
{
    execv(program->path, command->program_argv);
    int error = errno;
    if (error == ENOENT) /* the program exists, so its interpreter is missing */
        launch_say("%s: its interpreter or loader does not exist", command->program_argv[0]);
    else
        launch_say("%s: %s", command->program_argv[0], strerror(error));
    _exit(LAUNCH_EXIT_CANNOT_RUN);
}

/* ---- Children ---- */

struct children {
    pid_t *pids;     /* one per child; 0 once it has ended */
    int num;         /* number of children started */
    int num_running; /* number of children that have not ended */
    int exit_code;   /* of the first child that failed; 0: none so far */
    int reports;     /* receives start reports (launch_report.c); -1: not requested */
    long most_ranks; /* greatest number of ranks that a reporting program was told; -1: no report so far */
    bool ends_after_interrupt; /* SIGINT ends the children within GRACE_S */
};

static void start_child(const struct launch_command *command, const struct launch_program *program,
                        int copies, struct children *children, const sigset_t *signals_before)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        launch_say("cannot start copy %d of %s: %s (ulimit -u?)", children->num, command->program_argv[0],
                   strerror(errno));
        children->exit_code = 1;
        return;
    }
    if (pid == 0) {
        sigprocmask(SIG_SETMASK, signals_before, NULL);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(1);
        if (children->num > 0) { /* only the first one reads the standard input */
            int nothing = open("/dev/null", O_RDONLY);
            if (nothing >= 0)
                dup2(nothing, STDIN_FILENO);
        }
        if (copies > 1)
            set_place(children->num, copies);
        launch_mpir_trace_me();
        replace_self(command, program);
    }
    launch_mpir_add(pid, program->path);
    children->pids[children->num++] = pid;
    children->num_running++;
}

static void signal_all(const struct children *children, int signal_number)
{
    for (int i = 0; i < children->num; i++)
        if (children->pids[i] != 0)
            kill(children->pids[i], signal_number);
}

/* Reaps the children that have ended. */
static void reap(const struct launch_command *command, struct children *children)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        int which = 0;
        while (which < children->num && children->pids[which] != pid)
            which++;
        if (which == children->num)
            continue;
        children->pids[which] = 0;
        children->num_running--;
        int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (WIFSIGNALED(status) && children->exit_code == 0)
            launch_say("%s was ended by signal %d (%s)", command->program_argv[0], WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
        if (children->exit_code == 0)
            children->exit_code = code;
    }
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void read_reports(struct children *children)
{
    struct launch_report report;
    while (launch_report_next(children->reports, &report)) {
        long num_ranks = report.num_ranks ? report.num_ranks : 1;
        if (num_ranks > children->most_ranks)
            children->most_ranks = num_ranks;
    }
}

/* Waits until all have ended; forwards signals and enforces the timeout. */
static void wait_for_all(const struct launch_command *command, struct children *children,
                         const sigset_t *signals)
{
    double deadline_s = command->timeout_s > 0 ? now_s() + command->timeout_s : 0;
    int ending_with = SIGTERM;
    bool is_interrupted = false;
    for (reap(command, children); children->num_running > 0; reap(command, children)) {
        siginfo_t info;
        double left_s = deadline_s > 0 ? deadline_s - now_s() : 3600;
        if (left_s <= 0) {
            if (ending_with == SIGTERM && !is_interrupted)
                launch_say("%s ran longer than %g s (--timeout) and is ended", command->program_argv[0],
                           command->timeout_s);
            children->exit_code = is_interrupted ? 128 + SIGINT : LAUNCH_EXIT_TIMEOUT;
            signal_all(children, ending_with);
            ending_with = SIGKILL;
            deadline_s = now_s() + GRACE_S;
            continue;
        }
        double look_s = launch_progress_show();
        left_s = look_s < left_s ? look_s : left_s;
        struct timespec left = {(time_t)left_s, (long)((left_s - (double)(time_t)left_s) * 1e9)};
        int signal_number = sigtimedwait(signals, &info, &left);
        /* Signals of the terminal (^C) have reached the children already. */
        if (signal_number == SIGIO)
            read_reports(children);
        else if (signal_number > 0 && signal_number != SIGCHLD && info.si_code != SI_KERNEL)
            signal_all(children, signal_number);
        /* Python's handler waits until its rank runs Python's code, and a rank that waits for a message does not. */
        if (signal_number == SIGINT && children->ends_after_interrupt && ending_with == SIGTERM) {
            is_interrupted = true;
            deadline_s = now_s() + GRACE_S;
        }
    }
}

/* Enables SIGIO for reports: a program that starts never waits for mpirun. */
static void watch_reports(int reports)
{
    if (reports < 0)
        return;
    fcntl(reports, F_SETOWN, getpid());
    fcntl(reports, F_SETFL, O_NONBLOCK | O_ASYNC);
}

/* Called when the program has ended well: checks that it or a program that it started became the requested
 * ranks. */
static void check_reports(const struct launch_command *command, struct children *children, int num_ranks)
{
    if (children->reports < 0 || children->exit_code != 0)
        return;
    read_reports(children);
    if (children->most_ranks >= num_ranks)
        return;
    if (children->most_ranks < 0)
        launch_say(
            "%s ended, but the %d requested ranks never started: it ran no program of this MPI library (but "
            "perhaps one of another MPI, or one in an environment without HEDDLE_OPTIONS)",
            command->program_argv[0], num_ranks);
    else
        launch_say(
            "%s ended, but the %d requested ranks never started: the program that it ran was told to run %ld",
            command->program_argv[0], num_ranks, children->most_ranks);
    children->exit_code = 1;
}

static int run_children(const struct launch_command *command, const struct launch_program *program,
                        int copies, int reports)
{
    static const int watched[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGIO};
    sigset_t signals, before;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++)
        sigaddset(&signals, watched[i]);
    sigprocmask(SIG_BLOCK, &signals, &before);

    struct children children = {.pids = calloc((size_t)copies, sizeof(pid_t)),
                                .reports = reports,
                                .most_ranks = -1,
                                .ends_after_interrupt = program->may_run_python};
    if (children.pids == NULL)
        launch_fail(1, "out of memory for %d copies", copies);
    watch_reports(reports);
    for (int i = 0; i < copies && children.exit_code == 0; i++)
        start_child(command, program, copies, &children, &before);
    launch_mpir_show();
    if (children.num < copies)
        signal_all(&children, SIGTERM);
    wait_for_all(command, &children, &signals);
    launch_progress_end();
    free(children.pids);
    check_reports(command, &children, launch_num_ranks(command));
    return children.exit_code;
}

/* True if it is uncertain that the program becomes the requested number of ranks. */
static bool must_report(const struct launch_command *command, const struct launch_program *program)
{
    return program->kind == LAUNCH_PROGRAM_STARTER && !program->is_launcher &&
           (launch_num_ranks(command) > 1 || command->num_procs > 1);
}

/* A program that calls MPI_Comm_accept, MPI_Comm_connect or MPI_Comm_join can be connected to the user's other jobs. */
static void imply_universe(struct launch_command *command, const struct launch_program *program)
{
    const char *universe = getenv("HEDDLE_UNIVERSE");
    int num_procs = command->num_procs ? command->num_procs : 1;
    if (command->is_in_universe || program->connecting == NULL || program->is_launcher ||
        command->is_one_process || !HEDDLE_HAS_PMIX ||
        (universe != NULL && strcmp(universe, BASE_LAUNCHED_NO_UNIVERSE) == 0) ||
        launch_num_ranks(command) / num_procs >= BASE_LAUNCHED_UNIVERSE_RANKS_MAX)
        return;
    for (int i = 0; i < command->num_parts; i++)
        if (command->parts[i].num_ranks / command->parts[i].num_procs >= BASE_LAUNCHED_UNIVERSE_RANKS_MAX)
            return;
    command->is_in_universe = command->is_universe_implied =
        program->loader != NULL && launch_can_connect(program->connecting, program->loader);
}

int launch_run(struct launch_command *command, const struct launch_program *program)
{
    int copies = program->kind == LAUNCH_PROGRAM_PLAIN && command->num_ranks > 1 ? command->num_ranks : 1;
    set_rank_options(command);
    if (!program->is_launcher)
        setenv(BASE_LAUNCHED_SIZE_ENV, ":1", 1); /* whoever started mpirun, the ranks are its own job */
    if (command->num_procs <= 1 && launch_num_ranks(command) <= 1)
        set_place(0, 1);
    if (program->needs_library_path)
        launch_set_library_path();
    if (command->shows_progress && program->is_launcher)
        launch_fail(LAUNCH_EXIT_USAGE, "--progress: only for ranks of this node");
    imply_universe(command, program);
    int progress = command->shows_progress ? launch_progress_create() : -1;
    int reports = must_report(command, program) ? launch_report_open() : -1;
    if (command->num_procs > 1 || command->tags_output || command->is_in_universe ||
        (command->num_procs == 1 && program->kind != LAUNCH_PROGRAM_PLAIN))
        launch_procs(command, program, reports, progress);
    if (progress >= 0)
        launch_progress_begin(progress);
    if (command->is_verbose)
        say_what_is_run(command, program, copies);
    if (copies == 1 && command->timeout_s <= 0 && reports < 0 && progress < 0 && !program->may_run_python &&
        !launch_mpir_is_on())
        replace_self(command, program);
    return run_children(command, program, copies, reports);
}
