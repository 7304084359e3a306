/* SPDX-License-Identifier: BSD-3-Clause
 *
 * explore.c: --explore N: runs the program with +schedule random:1 ... random:N, as many at a time as there are cores, and compares
 * each run with one in the usual order: exit code, and lines of standard output, sorted because ranks print in any order. Two
 * runs in the usual order show whether the output can be compared. Each run is another mpirun with the same command. The first
 * seed that fails is reported with the fewest random numbers that make it fail. --explore all: explore_all.c.
 */
#include "launch/explore.h"

#include "base/choices_log.h"
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

/* Limits of shrinking: random numbers of a run, a power of 2; and runs. */
enum { SHRINK_NUMBERS_MAX = 1 << 20, SHRINK_RUNS_MAX = 400 };

struct lines {
    char **lines; /* sorted if they are compared; they end with '\0' */
    size_t num;
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
static char **command_of(const struct exploration *e, const char *schedule, bool is_limited)
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
    if (schedule) {
        add_word(words, &num, "+schedule");
        add_word(words, &num, "%s", schedule);
    }
    for (char **word = e->argv + 1; *word; word++) {
        bool is_ours = word < e->command->program_argv && strncmp(*word, "--explore", 9) == 0;
        if (!is_ours)
            add_word(words, &num, "%s", *word);
        else if (strchr(*word, '=') == NULL)
            word++;
    }
    return words;
}

/* In the child: the same standard input for each run, if it is a file, else none. */
static void become(const struct exploration *e, struct run *run)
{
    char **words = command_of(e, run->schedule, true);
    char log[64];
    struct stat input;
    bool is_file = fstat(STDIN_FILENO, &input) == 0 && S_ISREG(input.st_mode);
    int in = open(is_file ? "/proc/self/fd/0" : "/dev/null", O_RDONLY);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    snprintf(log, sizeof log, "/proc/%d/fd/%d", (int)getppid(), run->log);
    if (run->log >= 0)
        setenv(BASE_CHOICES_VARIABLE, log, 1);
    if (in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(run->output, STDOUT_FILENO) < 0 ||
        dup2(run->errors, STDERR_FILENO) < 0 || fchdir(e->command->start_dir) != 0)
        _exit(LAUNCH_EXIT_CANNOT_RUN);
    execv("/proc/self/exe", words);
    _exit(LAUNCH_EXIT_CANNOT_RUN);
}

void launch_explore_start(const struct exploration *e, struct run *run, int number, char *schedule)
{
    *run = (struct run){.number = number,
                        .schedule = schedule,
                        .output = memfd_create("stdout", MFD_CLOEXEC),
                        .errors = memfd_create("stderr", MFD_CLOEXEC),
                        .log = e->command->explores_all ? memfd_create("choices", MFD_CLOEXEC) : -1};
    if (run->log >= 0 && ftruncate(run->log, sizeof(struct base_choices_log)) != 0)
        launch_fail(1, "--explore: no memory for the choices of a run: %s", strerror(errno));
    run->pid = run->output >= 0 && run->errors >= 0 ? fork() : -1;
    if (run->pid < 0)
        launch_fail(1, "--explore: cannot start a run: %s", strerror(errno));
    if (run->pid == 0)
        become(e, run);
}

/* Waits until one of the runs ends. */
struct run *launch_explore_wait(struct run *runs, int num)
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

void launch_explore_drop(const struct run *run)
{
    close(run->output);
    close(run->errors);
    if (run->log >= 0)
        close(run->log);
    free(run->schedule);
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

void launch_explore_show_errors(const struct run *run)
{
    struct lines lines = read_lines(run->errors, false);
    for (size_t i = 0; i < lines.num && i < LINES_SHOWN; i++)
        fprintf(stderr, "  %s\n", lines.lines[i]);
    free_lines(&lines);
}

bool launch_explore_has_failed(const struct exploration *e, const struct run *run)
{
    return run->exit_code != e->usual.exit_code ||
           (e->has_output && show_difference(&e->usual, run, false) > 0);
}

/* ---- The sequence ---- */

/* A copy of the schedule; NULL: the usual one. */
static char *copy_of(const char *schedule)
{
    char *copy = schedule ? strdup(schedule) : NULL;
    if (schedule && copy == NULL)
        launch_fail(1, "out of memory");
    return copy;
}

void launch_explore_usual(struct exploration *e, const char *schedule)
{
    struct run runs[2];
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < 2; i++)
        launch_explore_start(e, &runs[i], 0, copy_of(schedule));
    launch_explore_wait(runs, 2);
    launch_explore_wait(runs, 2);
    clock_gettime(CLOCK_MONOTONIC, &end);
    e->usual = runs[0];
    if (runs[0].exit_code != 0 || runs[1].exit_code != 0) {
        launch_say("--explore: already the run in the usual order fails, with exit code %d",
                   runs[runs[0].exit_code == 0].exit_code);
        launch_explore_show_errors(&runs[runs[0].exit_code == 0]);
        exit(1);
    }
    e->has_output = show_difference(&runs[0], &runs[1], false) == 0;
    if (!e->has_output && !e->command->is_quiet)
        launch_say(
            "--explore: two runs in the usual order print different lines: only exit codes are compared");
    if (e->command->timeout_s <= 0)
        e->limit_s = (double)(end.tv_sec - begin.tv_sec + 1) * TIMES_LONGER + SECONDS_LONGER;
    launch_explore_drop(&runs[1]);
}

/* Takes the result of a run. */
static void judge(struct exploration *e, struct run *run)
{
    bool is_first = e->failed.number == 0 || run->number < e->failed.number;
    if (!is_first || !launch_explore_has_failed(e, run)) {
        launch_explore_drop(run);
        return;
    }
    if (e->failed.number > 0)
        launch_explore_drop(&e->failed);
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
        for (int i = 0; i < num && seed < num_seeds && e->failed.number == 0; i++)
            if (runs[i].pid == 0) {
                char schedule[32];
                snprintf(schedule, sizeof schedule, "random:%d", ++seed);
                launch_explore_start(e, &runs[i], seed, copy_of(schedule));
                num_running++;
            }
        if (num_running == 0)
            break;
        judge(e, launch_explore_wait(runs, num));
        num_running--;
    }
    free(runs);
}

void launch_explore_report(const struct exploration *e, const char *what)
{
    const struct run *failed = &e->failed;
    if (failed->exit_code != e->usual.exit_code)
        launch_say("--explore: %s ends with exit code %d", what, failed->exit_code);
    else
        launch_say("--explore: %s prints other lines", what);
    if (e->has_output)
        show_difference(&e->usual, failed, true);
    if (failed->exit_code != e->usual.exit_code)
        launch_explore_show_errors(failed);
    fprintf(stderr, "mpirun: repeat it with:");
    for (char **word = command_of(e, failed->schedule, false); *word; word++)
        fprintf(stderr, " %s", *word);
    fputc('\n', stderr);
}

/* ---- Shrinking ---- */

/* Runs with only these random numbers having an effect, as ranges of the numbers that are set. True: it fails like the run
 * that failed, which it replaces. */
static bool fails_with(struct exploration *e, const bool *is_set, unsigned num)
{
    struct run run;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    const char *separator = ":";
    if (stream == NULL)
        launch_fail(1, "out of memory");
    fprintf(stream, "random:%d", e->failed.number);
    for (unsigned i = 0, last; i < num; i = last + 1) {
        for (last = i; is_set[i] && last + 1 < num && is_set[last + 1];)
            last++;
        if (is_set[i])
            fprintf(stream, last > i ? "%s%u-%u" : "%s%u", separator, i + 1, last + 1);
        separator = is_set[i] ? "+" : separator;
    }
    fputs(*separator == ':' ? ":0" : "", stream);
    fclose(stream);
    launch_explore_start(e, &run, e->failed.number, text);
    launch_explore_wait(&run, 1);
    if (run.exit_code != e->failed.exit_code || !launch_explore_has_failed(e, &run)) {
        launch_explore_drop(&run);
        return false;
    }
    launch_explore_drop(&e->failed);
    e->failed = run;
    return true;
}

/* The number of random numbers of the shortest beginning that is enough for the failure; 0: not found. Sets these. */
static unsigned find_beginning(struct exploration *e, bool *is_set)
{
    unsigned enough = 1, too_few = 0;
    for (;; enough *= 2) {
        memset(is_set, true, enough);
        if (fails_with(e, is_set, enough))
            break;
        too_few = enough;
        if (enough == SHRINK_NUMBERS_MAX)
            return 0;
    }
    while (enough - too_few > 1) {
        unsigned middle = too_few + (enough - too_few) / 2;
        if (fails_with(e, is_set, middle))
            enough = middle;
        else
            too_few = middle;
    }
    return enough;
}

/* Leaves out pieces of the numbers, of half the length each time, as long as the run fails without them. */
static void shrink(struct exploration *e)
{
    bool *is_set = calloc(SHRINK_NUMBERS_MAX, sizeof *is_set),
         *before = calloc(SHRINK_NUMBERS_MAX, sizeof *is_set);
    unsigned num, num_runs = 0;
    if (is_set == NULL || before == NULL)
        launch_fail(1, "out of memory");
    num = find_beginning(e, is_set);
    for (unsigned length = num; length > 0; length /= 2)
        for (unsigned i = 0; i < num && num_runs < SHRINK_RUNS_MAX; i += length) {
            unsigned n = i + length < num ? length : num - i;
            memcpy(before, is_set, num);
            memset(is_set + i, false, n);
            if (memcmp(before, is_set, num) == 0)
                continue;
            num_runs++;
            if (!fails_with(e, is_set, num))
                memcpy(is_set, before, num);
        }
    free(is_set);
    free(before);
}

static _Noreturn void explore_seeds(struct exploration *e)
{
    char what[64];
    launch_explore_usual(e, NULL);
    run_seeds(e, e->command->num_explored);
    if (e->failed.number == 0) {
        launch_say("--explore: %d schedules end like the usual one", e->command->num_explored);
        exit(0);
    }
    if (base_settings.n_pes <= 1)
        shrink(e);
    snprintf(what, sizeof what, "seed %d", e->failed.number);
    launch_explore_report(e, what);
    exit(1);
}

void launch_explore(const struct launch_command *command, char **argv)
{
    struct exploration e = {.command = command, .argv = argv};
    if (base_settings.schedule)
        launch_fail(LAUNCH_EXIT_USAGE, "--explore chooses the schedules: leave +schedule out");
    if (command->explores_all)
        launch_explore_all(&e);
    explore_seeds(&e);
}
