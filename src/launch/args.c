/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The command line of mpirun. One table lists the options: their names (here and in other MPIs), the number
 * of values, their effect, and their line in --help. Called by main.c.
 */
#include "launch/launch.h"

#include "base/launched.h"
#include "base/settings.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum effect {
    SET_RANKS,
    EXPORT,     /* -x VAR or VAR=VALUE */
    EXPORT_TWO, /* -env VAR VALUE, or VAR=VALUE */
    EXPORT_TWO_ALL,
    EXPORT_LIST, /* -genvlist VAR,VAR */
    CHANGE_DIR,
    SET_TIMEOUT,
    EXPLORE,
    EXPLORE_LIMIT,
    BE_QUIET,
    BE_VERBOSE,
    SET_PROCS,
    SET_HOSTS,
    SET_HOSTFILE,
    SET_PER_NODE, /* -N */
    ONE_PER_NODE, /* -pernode */
    BIND,
    TAG_OUTPUT,
    OUTPUT_AS,          /* --output tag */
    MEMORY_KINDS,       /* MPI 5.0, section 11.4.3 */
    INITIAL_ERRHANDLER, /* section 11.5 */
    KEEP_GOING,
    IN_ONE_PROCESS,
    IN_UNIVERSE,
    SHOW_CALLS, /* --nvtx */
    SHOW_PROGRESS,
    DEBUG,
    PRINT_HELP,
    PRINT_VERSION,
    NOTHING,    /* no meaning here, and harmless */
    ALLOW_ROOT, /* the same, but other launchers need it */
    MAP,        /* checked */
    RANK_BY,    /* the same */
    WARN,       /* belongs to another MPI: warned about once */
};

struct option {
    const char *names;  /* separated by blanks; the first one is Heddle's */
    const char *values; /* placeholders of the values, one word each; "" if there are none */
    enum effect effect;
    const char *help;
};

static const struct option options[] = {
    {"-n -np -c --np --n", "N", SET_RANKS, "run the program as N ranks"},
    {"-x", "VAR[=VALUE]", EXPORT, "set an environment variable for this program"},
    {"-env --env", "VAR VALUE", EXPORT_TWO, "the same, as two words"},
    {"-genv --genv", "VAR VALUE", EXPORT_TWO_ALL, "the same for all programs (':')"},
    {"-wd -wdir --wd --wdir", "DIR", CHANGE_DIR, "run the program in this folder"},
    {"-genvlist -envlist", "VAR,...", EXPORT_LIST, "pass on variables that are set"},
    {"--timeout -timeout", "S", SET_TIMEOUT, "end the program after S seconds (exit code 124)"},
    {"--explore", "N|all", EXPLORE,
     "run the program in N random orders, or in all orders of its messages; report the first that differs"},
    {"--explore-limit", "N", EXPLORE_LIMIT, "with --explore all: at most N runs (default 10000)"},
    {"--procs -procs", "P", SET_PROCS,
     "distribute the ranks over P processes (default 1; with hosts: one each)"},
    {"--hosts -hosts --host -host -H", "LIST", SET_HOSTS,
     "run on these nodes: A,B:4,C (through another launcher)"},
    {"--hostfile -hostfile --machinefile -machinefile -f", "FILE", SET_HOSTFILE,
     "the same, one host per line of the file"},
    {"--tag-output -tag-output -l -prepend-rank", "", TAG_OUTPUT,
     "prefix each line of output with the rank that printed it"},
    {"--output -output", "tag", OUTPUT_AS, "the same"},
    {"-N -npernode --npernode -ppn --ppn -perhost", "N", SET_PER_NODE,
     "at most N ranks per node; without -n, N on each"},
    {"-pernode --pernode", "", ONE_PER_NODE, "the same as -N 1"},
    {"--bind-to -bind-to", "core|none", BIND, "none: do not divide the cores among the processes"},
    {"--keep-going --enable-recovery -enable-recovery -disable-auto-cleanup", "", KEEP_GOING,
     "when a process fails, let the others continue"},
    {"--universe", "", IN_UNIVERSE, "connect to your other jobs that have this option (MPI_Comm_connect)"},
    {"--one-process", "", IN_ONE_PROCESS, "run the ranks of all programs (':') in one process"},
    {"-memory-alloc-kinds --memory-alloc-kinds", "LIST", MEMORY_KINDS,
     "request these kinds of memory: system,mpi,cuda:device"},
    {"-initial-errhandler --initial-errhandler", "mpi_errors_...", INITIAL_ERRHANDLER,
     "abort, are_fatal or return: the error handler of MPI_COMM_WORLD"},
    {"--nvtx", "", SHOW_CALLS, "NVTX ranges for the calls of each rank, which nsys profile shows"},
    {"--progress", "", SHOW_PROGRESS, "show what each rank does, in the terminal's last lines"},
    {"--debug -debug", "", DEBUG, "run the job in gdb, which attaches to all of its processes"},
    {"-q --quiet -quiet", "", BE_QUIET, "no warnings"},
    {"-v --verbose -verbose", "", BE_VERBOSE, "print the command that is run"},
    {"--version -V -version", "", PRINT_VERSION, "print the version"},
    {"--help -h -help -?", "", PRINT_HELP, "print this"},
    {"--oversubscribe -oversubscribe --nooversubscribe -nooversubscribe", "", NOTHING,
     "more ranks than cores is the normal case"},
    {"--allow-run-as-root -allow-run-as-root", "", ALLOW_ROOT, "root may"},
    {"--use-hwthread-cpus -use-hwthread-cpus", "", NOTHING, "see +p"},
    {"-genvall -envall", "", NOTHING, "the program always gets the whole environment"},
    {"--map-by -map-by", "X", MAP, "ranks go to PEs in blocks (ppr:N:node is -N N)"},
    {"--rank-by -rank-by", "X", RANK_BY, "ranks go to PEs in blocks"},
    {"--mca -mca --omca --gmca -gmca --prtemca --pmixmca", "KEY VALUE", WARN, "an option of Open MPI"},
    {"--prefix -prefix", "DIR", WARN, "an option of Open MPI; mpirun finds its own files"},
    {"--report-bindings -report-bindings --display-map -display-map --display-allocation -display-allocation",
     "", WARN, "-v prints the commands that are run, +v the PEs"},
    {"--display -display", "X", WARN, "-v prints the commands that are run, +v the PEs"},
    {"-launcher -bootstrap -rmk -iface", "X", WARN,
     "an option of MPICH; srun, prterun or Open MPI reaches other nodes"},
};
enum { NUM_OPTIONS = sizeof options / sizeof options[0] };

enum { MAX_NAME = 64 };

/* Reads the next blank-separated word of *text_inout (its first MAX_NAME - 1 letters); false at the end. */
static bool next_word(const char **text_inout, char word_out[MAX_NAME])
{
    const char *start = *text_inout + strspn(*text_inout, " ");
    size_t len = strcspn(start, " ");
    if (len == 0)
        return false;
    snprintf(word_out, MAX_NAME, "%.*s", (int)len, start);
    *text_inout = start + len;
    return true;
}

static int num_values(const struct option *option)
{
    const char *rest = option->values;
    char word[MAX_NAME];
    int count = 0;
    while (next_word(&rest, word))
        count++;
    return count;
}

static const struct option *find_option(const char *name, size_t name_len)
{
    for (int i = 0; i < NUM_OPTIONS; i++) {
        const char *rest = options[i].names;
        char word[MAX_NAME];
        while (next_word(&rest, word))
            if (strlen(word) == name_len && memcmp(word, name, name_len) == 0)
                return &options[i];
    }
    return NULL;
}

static _Noreturn void fail_unknown(const char *text)
{
    char name[MAX_NAME];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    char nearest[MAX_NAME] = "";
    int nearest_distance = INT_MAX;
    for (int i = 0; i < NUM_OPTIONS; i++) {
        const char *rest = options[i].names;
        char word[MAX_NAME];
        while (next_word(&rest, word)) {
            int distance = base_spelling_distance(name, word);
            if (distance < nearest_distance) {
                nearest_distance = distance;
                snprintf(nearest, sizeof nearest, "%s", word);
            }
        }
    }
    launch_fail(LAUNCH_EXIT_USAGE, "unknown option %s%s%s (mpirun --help lists all options)", text,
                nearest[0] ? "; the nearest is " : "", nearest);
}

static void print_help(void)
{
    puts("mpirun -n N [option...] program [argument...]\n"
         "\n"
         "Runs an MPI program as N ranks: user-level threads inside one process, or several (--procs).\n"
         "Options that begin with + are passed to the library (mpirun +help lists them).\n");
    bool is_noop_list = false;
    for (int i = 0; i < NUM_OPTIONS; i++) {
        const struct option *o = &options[i];
        if (!is_noop_list && o->effect >= NOTHING) {
            is_noop_list = true;
            puts("\nAccepted for compatibility with other MPIs; without effect:");
        }
        char left[80];
        snprintf(left, sizeof left, "%.*s %s", (int)strcspn(o->names, " "), o->names, o->values);
        if (strchr(o->names, ' ') && o->effect < PRINT_HELP) {
            const char *rest = strchr(o->names, ' ');
            char second[MAX_NAME];
            if (next_word(&rest, second))
                snprintf(left, sizeof left, "%.*s, %s %s", (int)strcspn(o->names, " "), o->names, second,
                         o->values);
        }
        printf("  %-28s  %s\n", left, o->help);
    }
    puts("\nExit code: the program's; 2 for a wrong command, 126 if the program cannot be run, 127 if "
         "there\nis no such program, 124 after --timeout.");
}

static int read_count(const char *option, const char *text)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0')
        launch_fail(LAUNCH_EXIT_USAGE, "%s %s: expected a positive whole number", option, text);
    if (value < 1)
        launch_fail(LAUNCH_EXIT_USAGE, "%s %s: must be at least 1", option, text);
    if (errno == ERANGE || value > BASE_RANKS_MAX)
        launch_fail(LAUNCH_EXIT_USAGE, "%s %s: too large (at most %d)", option, text, BASE_RANKS_MAX);
    return (int)value;
}

static double read_seconds(const char *option, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value > 0) || value > 1e9)
        launch_fail(LAUNCH_EXIT_USAGE, "%s %s: not a time (a number of seconds above 0)", option, text);
    return value;
}

static void change_dir(const char *option, const char *dir)
{
    if (chdir(dir) != 0)
        launch_fail(LAUNCH_EXIT_USAGE, "%s %s: %s", option, dir, strerror(errno));
    char *now = getcwd(NULL, 0);
    if (now != NULL)
        setenv("PWD", now, 1);
    free(now);
}

/* Appends one word to the list of the library's options. */
static void add_rank_option(struct launch_command *command, const char *word)
{
    if (word[strcspn(word, " \t\n")] != '\0')
        launch_fail(LAUNCH_EXIT_USAGE, "'%s': an option of the library cannot contain blanks", word);
    launch_append(&command->rank_options, " ", word, strlen(word));
}

/* Reads an option of the library at argv[i]; returns the index of its last word. The library reads its value. */
static int read_plus_option(struct launch_command *command, char **argv, int i)
{
    const char *error;
    int num_words;
    if (!base_options_take(base_settings_table, base_settings_count, argv[i], argv[i + 1], &num_words,
                           &error))
        launch_fail(LAUNCH_EXIT_USAGE, "%s", error);
    for (int k = 0; k < num_words; k++)
        add_rank_option(command, argv[i + k]);
    return i + num_words - 1;
}

/* +help: the list of options needs no program; its topics describe what a program finds on this machine. */
static void answer_help(const struct launch_command *command)
{
    const char *topic = base_settings.help_topic;
    if (topic != NULL && topic[0] == '\0') {
        base_settings_print_help();
        exit(0);
    }
    if (topic != NULL && command->program_argv[0] == NULL)
        launch_fail(LAUNCH_EXIT_USAGE, "+help %s needs an MPI program: mpirun +help %s ./program", topic,
                    topic);
}

/* Options that concern the processes and their nodes. */
static void apply_place(struct launch_command *command, enum effect effect, const char *name,
                        const char *value)
{
    switch (effect) {
    case SET_RANKS:
        if (command->num_ranks != 0)
            launch_fail(LAUNCH_EXIT_USAGE, "%s %s: the number of ranks was already given", name, value);
        command->num_ranks = read_count(name, value);
        break;
    case SET_PROCS:
        if (command->num_procs != 0)
            launch_fail(LAUNCH_EXIT_USAGE, "%s %s: the number of processes was already given", name, value);
        command->num_procs = read_count(name, value);
        break;
    case SET_PER_NODE:
        launch_set_ranks_per_node(command, name, read_count(name, value));
        break;
    case ONE_PER_NODE:
        launch_set_ranks_per_node(command, name, 1);
        break;
    case SET_HOSTS:
        launch_append(&command->hosts, ",", value, strlen(value)); /* of several options */
        break;
    case SET_HOSTFILE:
        if (command->hostfile != NULL)
            launch_fail(LAUNCH_EXIT_USAGE, "%s %s: another file was already given", name, value);
        command->hostfile = value;
        break;
    case BIND:
        launch_placement_read(LAUNCH_BIND, name, value, command);
        break;
    case MAP:
        launch_placement_read(LAUNCH_MAP, name, value, command);
        break;
    case RANK_BY:
        launch_placement_read(LAUNCH_RANK, name, value, command);
        break;
    default:
        break;
    }
}

/* Options that concern the environment of the program. */
static void apply_environment(struct launch_command *command, enum effect effect, const char *name,
                              char **values)
{
    switch (effect) {
    case EXPORT:
        launch_variables_export(command, name, values[0]);
        break;
    case EXPORT_TWO:
        if (strchr(values[0], '='))
            launch_variables_export(command, name, values[0]);
        else
            launch_variables_set_own(command, name, values[0], strlen(values[0]), values[1]);
        break;
    case EXPORT_TWO_ALL: {
        size_t name_len = strcspn(values[0], "=");
        launch_variables_set(command, name, values[0], name_len,
                             values[1] ? values[1] : values[0] + name_len + 1);
        break;
    }
    case EXPORT_LIST:
        launch_variables_export_list(command, name, values[0]);
        break;
    case MEMORY_KINDS:
        launch_variables_set(command, name, BASE_MEMORY_KINDS_ENV, strlen(BASE_MEMORY_KINDS_ENV), values[0]);
        break;
    case INITIAL_ERRHANDLER:
        launch_variables_set(command, name, BASE_INITIAL_ERRHANDLER_ENV, strlen(BASE_INITIAL_ERRHANDLER_ENV),
                             values[0]);
        break;
    case CHANGE_DIR:
        change_dir(name, values[0]);
        command->dir = values[0];
        break;
    default:
        break;
    }
}

static void warn_once(const struct launch_command *command, const struct option *option, const char *name,
                      const char *value)
{
    static bool is_warned[NUM_OPTIONS];
    bool *is_done = &is_warned[option - options];
    if (!*is_done && !command->is_quiet)
        launch_say("%s%s%s: ignored: %s", name, value ? " " : "", value ? value : "", option->help);
    *is_done = true;
}

static void apply(struct launch_command *command, const struct option *option, const char *name,
                  char **values)
{
    switch (option->effect) {
    case SET_TIMEOUT:
        command->timeout_s = read_seconds(name, values[0]);
        break;
    case EXPLORE:
        command->explores_all = strcmp(values[0], "all") == 0;
        command->num_explored = command->explores_all ? 1 : read_count(name, values[0]);
        break;
    case EXPLORE_LIMIT:
        command->explore_limit = read_count(name, values[0]);
        break;
    case BE_QUIET:
        command->is_quiet = true;
        break;
    case BE_VERBOSE:
        command->is_verbose = true;
        break;
    case OUTPUT_AS:
        if (strcasecmp(values[0], "tag") != 0)
            launch_fail(LAUNCH_EXIT_USAGE, "%s %s: expected tag; redirect the output to write it to files",
                        name, values[0]);
        command->tags_output = true;
        break;
    case TAG_OUTPUT:
        command->tags_output = true;
        break;
    case KEEP_GOING:
        command->keeps_going = true;
        break;
    case IN_ONE_PROCESS:
        command->is_one_process = true;
        break;
    case IN_UNIVERSE:
        command->is_in_universe = true;
        break;
    case SHOW_CALLS:
        command->shows_calls = true;
        break;
    case DEBUG:
        command->debugs = true;
        break;
    case SHOW_PROGRESS:
        command->shows_progress = true;
        break;
    case ALLOW_ROOT:
        command->allows_root = true;
        break;
    case PRINT_HELP:
        print_help();
        exit(0);
    case PRINT_VERSION:
        puts("mpirun (Heddle) " HEDDLE_VERSION);
        exit(0);
    case NOTHING:
        break;
    case WARN:
        warn_once(command, option, name, values[0]);
        break;
    default:
        apply_environment(command, option->effect, name, values);
        apply_place(command, option->effect, name, values[0]);
        break;
    }
}

static bool is_two_words(enum effect effect)
{
    return effect == EXPORT_TWO || effect == EXPORT_TWO_ALL;
}

/* Reads an option of mpirun at argv[i]; returns the index of its last word. */
static int read_option(struct launch_command *command, char **argv, int i)
{
    size_t name_len = strcspn(argv[i], "=");
    const struct option *option = find_option(argv[i], name_len);
    if (option == NULL)
        fail_unknown(argv[i]);

    int num = num_values(option);
    bool is_inline = argv[i][name_len] == '=';
    if (is_inline && num != 1)
        launch_fail(LAUNCH_EXIT_USAGE, "%s: the option %.*s takes %s", argv[i], (int)name_len, argv[i],
                    num == 0 ? "no value" : "two words");
    char *values[2] = {NULL, NULL};
    char name[MAX_NAME]; /* as long as the table's */
    snprintf(name, sizeof name, "%.*s", (int)name_len, argv[i]);
    if (is_inline) {
        values[0] = argv[i] + name_len + 1;
    } else {
        for (int k = 0; k < num; k++) {
            /* -genv VAR=VALUE is one word. */
            if (k == 1 && is_two_words(option->effect) && strchr(values[0], '='))
                break;
            values[k] = argv[i + 1];
            if (values[k] == NULL)
                launch_fail(LAUNCH_EXIT_USAGE, "%s: its value is missing (%s %s)", name, name,
                            option->values);
            i++;
        }
    }
    apply(command, option, name, values);
    return i;
}

/* --nvtx: the program loads nvtx.so in front of MPI and of other preloaded libraries. */
static void preload_nvtx(struct launch_command *command)
{
    static const char *const places[] = {"../lib/heddle/nvtx.so", HEDDLE_LIB_FROM_BIN "/heddle/nvtx.so"};
    char *file = launch_own_file(places);
    if (file == NULL)
        launch_fail(LAUNCH_EXIT_CANNOT_RUN,
                    "--nvtx: lib/heddle/nvtx.so is missing: it was built without NVTX 3");
    launch_preload(command, "--nvtx", file);
    free(file);
}

/* Checks the command as a whole: there is a program, and the options are consistent. */
static void check_command(const struct launch_command *command)
{
    if (command->program_argv[0] == NULL || command->program_argv[0][0] == '\0')
        launch_fail(LAUNCH_EXIT_USAGE, "no program to run (mpirun -n N program [argument...])");
    if (command->rest != NULL && base_settings.n_ranks != 0)
        launch_fail(LAUNCH_EXIT_USAGE, "+vp: give -n before each of several programs");
    if (command->hosts != NULL && command->hostfile != NULL)
        launch_fail(LAUNCH_EXIT_USAGE, "--hosts and --hostfile exclude each other: use only one");
    if (command->num_ranks != 0 && command->num_procs > command->num_ranks)
        launch_fail(LAUNCH_EXIT_USAGE, "--procs %d: each process needs at least one rank, but -n is %d",
                    command->num_procs, command->num_ranks);
    if (command->num_ranks != 0 && base_settings.n_ranks != 0)
        launch_fail(LAUNCH_EXIT_USAGE, "-n %d and +vp both set the number of ranks: use only one",
                    command->num_ranks);
}

int launch_num_ranks(const struct launch_command *command)
{
    return command->num_ranks ? command->num_ranks : (int)base_settings.n_ranks;
}

/* Reads the options in front of a program, and finds the end of its arguments. */
static void read_words(struct launch_command *command, char **words)
{
    int i = 0;
    for (; words[i]; i++) {
        if (strcmp(words[i], "--") == 0 || strcmp(words[i], "+-") == 0) {
            i++;
            break;
        } else if (words[i][0] == '+' && words[i][1] != '\0') {
            i = read_plus_option(command, words, i);
        } else if (words[i][0] == '-') {
            i = read_option(command, words, i);
        } else {
            break;
        }
    }
    command->program_argv = words + i;
    while (words[i] && strcmp(words[i], ":") != 0)
        i++;
    if (words[i]) {
        words[i] = NULL;
        command->rest = words + i + 1;
    }
}

void launch_args_read_part(char **words, struct launch_command *part_out)
{
    read_words(part_out, words);
    check_command(part_out);
}

void launch_args_read(char **argv, struct launch_command *command_out)
{
    memset(command_out, 0, sizeof *command_out);
    command_out->start_dir = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    read_words(command_out, argv + 1);
    answer_help(command_out);
    check_command(command_out);
    if (command_out->shows_calls)
        preload_nvtx(command_out);
}
