/* SPDX-License-Identifier: BSD-3-Clause
 *
 * --explore N: runs the program with +schedule random:1 ... random:N, as many at a time as there are cores, and compares each run
 * with one in the usual order: exit code, and lines of standard output, sorted because ranks print in any order. Two runs in the usual
 * order show whether the output can be compared. Each run is another mpirun with the same command. Called by main.c.
 */
#include "launch/launch.h"

#include "base/cores.h"
#include "base/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Lines of a difference, and of a report on stderr, that are printed. */
enum { LINES_SHOWN = 10 };

/* A run may take this many times as long as the usual one, and this much longer, before it is ended. */
enum { TIMES_LONGER = 20, SECONDS_LONGER = 30 };

struct run {
    int seed;           /* 0: in the usual order */
    pid_t pid;          /* 0: it has ended, or there is none */
    int exit_code;      /* as a shell gives it */
    int output, errors; /* memory files with its stdout and stderr */
};

struct lines {
    char **lines; /* sorted if they are compared; they end with '\0' */
    size_t num;
};

struct exploration {
    const struct launch_command *command;
    char **argv;       /* of this mpirun */
    struct run usual;  /* the run to compare with */
    bool has_output;   /* its output is the same each time */
    double limit_s;    /* of a run; 0: the command's own */
    struct run failed; /* the failed run with the smallest seed; seed 0: none */
};

/* ---- Running ---- */

static void add_word(char **words, size_t *num, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add_word(char **words, size_t *num, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    if (vasprintf(&words[(*num)++], format, values) < 0)
        launch_fail(1, "out of memory");
    va_end(values);
}

/* The command of one run, without the limit of time: NULL-terminated. */
static char **command_of(const struct exploration *e, int seed, bool is_limited)
{
    size_t num = 0, room = 16;
    for (char **word = e->argv; *word; word++)
        room++;
    char **words = calloc(room, sizeof *words);
    if (words == NULL)
        launch_fail(1, "out of memory");
    add_word(words, &num, "%s", e->argv[0]);
    if (is_limited && e->limit_s > 0) {
        add_word(words, &num, "--timeout");
        add_word(words, &num, "%.0f", e->limit_s);
    }
    if (base_settings.n_pes == 0) {
        add_word(words, &num, "+p");
        add_word(words, &num, "1");
    }
    if (seed > 0) {
        add_word(words, &num, "+schedule");
        add_word(words, &num, "random:%d", seed);
    }
    for (char **word = e->argv + 1; *word; word++) {
        bool is_ours = word < e->command->program_argv && strncmp(*word, "--explore", 9) == 0;
        if (!is_ours)
            add_word(words, &num, "%s", *word);
        else if ((*word)[9] == '\0')
            word++;
    }
    return words;
}

/* In the child: the same standard input for each run, if it is a file, else none. */
static void become(const struct exploration *e, struct run *run)
{
    char **words = command_of(e, run->seed, true);
    struct stat input;
    bool is_file = fstat(STDIN_FILENO, &input) == 0 && S_ISREG(input.st_mode);
    int in = open(is_file ? "/proc/self/fd/0" : "/dev/null", O_RDONLY);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(run->output, STDOUT_FILENO) < 0 ||
        dup2(run->errors, STDERR_FILENO) < 0 || fchdir(e->command->start_dir) != 0)
        _exit(LAUNCH_EXIT_CANNOT_RUN);
    execv("/proc/self/exe", words);
    _exit(LAUNCH_EXIT_CANNOT_RUN);
}

static void start(const struct exploration *e, struct run *run, int seed)
{
    *run = (struct run){.seed = seed,
                        .output = memfd_create("stdout", MFD_CLOEXEC),
                        .errors = memfd_create("stderr", MFD_CLOEXEC)};
    run->pid = run->output >= 0 && run->errors >= 0 ? fork() : -1;
    if (run->pid < 0)
        launch_fail(1, "--explore: cannot start a run: %s", strerror(errno));
    if (run->pid == 0)
        become(e, run);
}

/* Waits until one of the runs ends. */
static struct run *wait_for_one(struct run *runs, int num)
{
    for (;;) {
        int status;
        pid_t pid = wait(&status);
        for (int i = 0; i < num; i++)
            if (runs[i].pid == pid && pid > 0) {
                runs[i].pid = 0;
                runs[i].exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
                return &runs[i];
            }
        if (pid < 0 && errno != EINTR)
            launch_fail(1, "--explore: %s", strerror(errno));
    }
}

static void drop(const struct run *run)
{
    close(run->output);
    close(run->errors);
}

/* ---- Comparing ---- */

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct lines read_lines(int file, bool is_sorted)
{
    struct lines lines = {NULL, 0};
    char *line = NULL;
    size_t room = 0;
    lseek(file, 0, SEEK_SET);
    FILE *stream = fdopen(dup(file), "r");
    while (stream != NULL && getline(&line, &room, stream) >= 0) {
        line[strcspn(line, "\n")] = '\0';
        lines.lines = realloc(lines.lines, (lines.num + 1) * sizeof *lines.lines);
        if (lines.lines == NULL || (lines.lines[lines.num++] = strdup(line)) == NULL)
            launch_fail(1, "out of memory");
    }
    free(line);
    if (stream != NULL)
        fclose(stream);
    if (is_sorted && lines.num > 0)
        qsort(lines.lines, lines.num, sizeof *lines.lines, compare);
    return lines;
}

static void free_lines(struct lines *lines)
{
    for (size_t i = 0; i < lines->num; i++)
        free(lines->lines[i]);
    free(lines->lines);
}

/* Prints the first lines that only one of two outputs has; returns the number of all. */
static size_t show_difference(const struct run *usual, const struct run *other, bool is_shown)
{
    struct lines a = read_lines(usual->output, true), b = read_lines(other->output, true);
    size_t i = 0, k = 0, num = 0;
    while (i < a.num || k < b.num) {
        int order = i == a.num ? 1 : k == b.num ? -1 : strcmp(a.lines[i], b.lines[k]);
        if (order != 0 && num++ < LINES_SHOWN && is_shown)
            fprintf(stderr, "  %c %s\n", order < 0 ? '-' : '+', order < 0 ? a.lines[i] : b.lines[k]);
        i += order <= 0;
        k += order >= 0;
    }
    if (is_shown && num > LINES_SHOWN)
        fprintf(stderr, "  ... and %zu more\n", num - LINES_SHOWN);
    free_lines(&a);
    free_lines(&b);
    return num;
}

static void show_errors(const struct run *run)
{
    struct lines lines = read_lines(run->errors, false);
    for (size_t i = 0; i < lines.num && i < LINES_SHOWN; i++)
        fprintf(stderr, "  %s\n", lines.lines[i]);
    free_lines(&lines);
}

static bool has_failed(const struct exploration *e, const struct run *run)
{
    return run->exit_code != e->usual.exit_code ||
           (e->has_output && show_difference(&e->usual, run, false) > 0);
}

/* ---- The sequence ---- */

/* Twice in the usual order. */
static void run_usually(struct exploration *e)
{
    struct run runs[2];
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < 2; i++)
        start(e, &runs[i], 0);
    wait_for_one(runs, 2);
    wait_for_one(runs, 2);
    clock_gettime(CLOCK_MONOTONIC, &end);
    e->usual = runs[0];
    if (runs[0].exit_code != 0 || runs[1].exit_code != 0) {
        launch_say("--explore: already the run in the usual order fails, with exit code %d",
                   runs[runs[0].exit_code == 0].exit_code);
        show_errors(&runs[runs[0].exit_code == 0]);
        exit(1);
    }
    e->has_output = show_difference(&runs[0], &runs[1], false) == 0;
    if (!e->has_output && !e->command->is_quiet)
        launch_say(
            "--explore: two runs in the usual order print different lines: only exit codes are compared");
    if (e->command->timeout_s <= 0)
        e->limit_s = (double)(end.tv_sec - begin.tv_sec + 1) * TIMES_LONGER + SECONDS_LONGER;
    drop(&runs[1]);
}

/* Takes the result of a run. */
static void judge(struct exploration *e, struct run *run)
{
    bool is_first = e->failed.seed == 0 || run->seed < e->failed.seed;
    if (!is_first || !has_failed(e, run)) {
        drop(run);
        return;
    }
    if (e->failed.seed > 0)
        drop(&e->failed);
    e->failed = *run;
}

/* Runs the seeds in order until one has failed. */
static void run_seeds(struct exploration *e, int num_seeds)
{
    int num = base_usable_cores(), num_running = 0, seed = 0;
    struct run *runs = calloc((size_t)num, sizeof *runs);
    if (runs == NULL)
        launch_fail(1, "out of memory");
    for (;;) {
        for (int i = 0; i < num && seed < num_seeds && e->failed.seed == 0; i++)
            if (runs[i].pid == 0) {
                start(e, &runs[i], ++seed);
                num_running++;
            }
        if (num_running == 0)
            break;
        judge(e, wait_for_one(runs, num));
        num_running--;
    }
    free(runs);
}

static int report(const struct exploration *e)
{
    const struct run *failed = &e->failed;
    if (failed->seed == 0) {
        launch_say("--explore: %d schedules end like the usual one", e->command->num_explored);
        return 0;
    }
    if (failed->exit_code != e->usual.exit_code)
        launch_say("--explore: seed %d ends with exit code %d", failed->seed, failed->exit_code);
    else
        launch_say("--explore: seed %d prints other lines", failed->seed);
    if (e->has_output)
        show_difference(&e->usual, failed, true);
    if (failed->exit_code != e->usual.exit_code)
        show_errors(failed);
    fprintf(stderr, "mpirun: repeat it with:");
    for (char **word = command_of(e, failed->seed, false); *word; word++)
        fprintf(stderr, " %s", *word);
    fputc('\n', stderr);
    return 1;
}

void launch_explore(const struct launch_command *command, char **argv)
{
    struct exploration e = {.command = command, .argv = argv};
    if (base_settings.is_random)
        launch_fail(LAUNCH_EXIT_USAGE, "--explore chooses the seeds: leave +schedule out");
    run_usually(&e);
    run_seeds(&e, command->num_explored);
    exit(report(&e));
}
