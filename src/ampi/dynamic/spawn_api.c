/* SPDX-License-Identifier: BSD-3-Clause
 *
 * spawn_api.c: MPI_Comm_spawn and MPI_Comm_spawn_multiple (MPI 5.0, section 12.3).
 *
 * The root checks its arguments, finds the programs and spawns the ranks (spawn.h); then all ranks get the outcome, and
 * the intercommunicator. The ranks are copies of the programs in the root's process (image_program_load). Programs that
 * cannot be copied, or that run in another folder, get new processes (find_obstacle).
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ampi/coll/engine/items.h"
#include "ampi/coll/engine/slot.h"
#include "ampi/dynamic/registry.h"
#include "ampi/dynamic/spawn.h"
#include "ampi/object/errhandler.h"
#include "ampi/object/info.h"
#include "ampi/procs/launcher_env.h"
#include "ampi/procs/procs.h"
#include "base/log.h"
#include "image/image.h"

/* The arguments, at the root. */
struct commands {
    int n;
    char *const *commands;
    char ***argvs;
    const int *max_ranks;
    const MPI_Info *infos;
};

/* The outcome at the root, for all ranks. */
struct outcome {
    int error;      /* error class */
    char text[400]; /* its reason */
    int n_codes;    /* array_of_errcodes */
    int codes[];
};

static size_t outcome_bytes(const struct outcome *outcome)
{
    return sizeof *outcome + (size_t)outcome->n_codes * sizeof outcome->codes[0];
}

static int fail(struct outcome *outcome, int error, const char *fmt, ...) BASE_PRINTF(3, 4) BASE_COLD;
static int fail(struct outcome *outcome, int error, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(outcome->text, sizeof outcome->text, fmt, args);
    va_end(args);
    return outcome->error = error;
}

/* ---- The number of ranks ---- */

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* The largest of from, from + step, ... up to to that is at least 0 and at most max; -1: none. */
static int largest_in(int64_t from, int64_t to, int64_t step, int64_t max)
{
    int64_t value = from;

    if (step > 0 && to > max)
        to = max;
    if (step > 0 && from <= to)
        value = from + (to - from) / step * step;
    if (step < 0 && from > max)
        value = from + (from - max - step - 1) / -step * step;
    return value >= 0 && value <= max && (step > 0 ? value <= to : value >= to) ? (int)value : -1;
}

/* The largest member of the set that is at most max; -1: none. *is_valid_out: the text describes a set, "1,3,4:8:2". */
static int choose_soft(const char *text, int max, bool *is_valid_out)
{
    int best = -1;
    int from, to, step, n_read;

    *is_valid_out = false;
    while (sscanf(text, " %d%n", &from, &n_read) == 1) {
        text += n_read;
        to = from;
        step = 1;
        if (sscanf(text, ":%d%n", &to, &n_read) == 1) {
            text += n_read;
            if (sscanf(text, ":%d%n", &step, &n_read) == 1)
                text += n_read;
        }
        if (step == 0)
            return -1;
        best = larger(best, largest_in(from, to, step, max));
        text += strspn(text, " ");
        *is_valid_out = *text == '\0';
        if (*text != ',')
            break;
        text++;
    }
    return best;
}

/* ---- The program ---- */

static bool is_same_file(const char *path, const char *other)
{
    struct stat a, b;

    return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static bool is_program(const char *path)
{
    struct stat status;

    return access(path, X_OK) == 0 && stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* Tries the command in each folder of a list with colons; returns true if it is there, with its path. */
static bool search(const char *folders, const char *command, char *path_out)
{
    while (folders && *folders) {
        int len = (int)strcspn(folders, ":");
        if (snprintf(path_out, PATH_MAX, "%.*s/%s", len, folders, command) < PATH_MAX && is_program(path_out))
            return true;
        folders += len + (folders[len] == ':');
    }
    return false;
}

/* PATH in the environment of the calling rank. */
static const char *rank_path(void)
{
    struct image *image = image_of_thread();

    return image ? image_env_value(image, "PATH") : secure_getenv("PATH");
}

/* A name without a slash is searched for in the folders of the info key path, in PATH, and in the current folder. */
static bool find_program(const char *command, const struct ampi_info *info, char *path_out)
{
    if (strchr(command, '/'))
        return snprintf(path_out, PATH_MAX, "%s", command) < PATH_MAX && is_program(path_out);
    return search(ampi_info_get(info, "path"), command, path_out) || search(rank_path(), command, path_out) ||
           search(".", command, path_out);
}

/* The path, absolute; malloc'ed. */
static char *absolute(const char *path)
{
    char *made = base_malloc(2 * (size_t)PATH_MAX, "MPI_Comm_spawn");

    if (path[0] == '/' || !getcwd(made, PATH_MAX))
        made[0] = '\0';
    snprintf(made + strlen(made), PATH_MAX, "%s%s", made[0] ? "/" : "", path);
    return made;
}

/* Sets the part's path; returns false if there is no such program. */
static bool set_path(const char *command, const struct ampi_info *info, struct ampi_spawn_part *part)
{
    char *path = base_malloc(PATH_MAX, "MPI_Comm_spawn"); /* ranks may have small stacks */
    bool exists = find_program(command, info, path);

    part->path = exists ? absolute(path) : NULL;
    free(path);
    return exists;
}

static bool is_this_host(const char *host)
{
    return strcmp(host, ampi_job.host) == 0 || strcmp(host, "localhost") == 0;
}

/* The first line of a script, without "#!"; malloc'ed. NULL: the file is not a script. */
static char *read_first_line(const char *path)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t n = -1;

    if (file && fgetc(file) == '#' && fgetc(file) == '!')
        n = getline(&line, &room, file);
    if (file)
        fclose(file);
    if (n > 0)
        return line;
    free(line);
    return NULL;
}

static char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " \t\n");

    *rest = word + strcspn(word, " \t\n");
    if (**rest)
        *(*rest)++ = '\0';
    return *word ? word : NULL;
}

/* If the file is a script for this interpreter (a line "/path/python -u" or "/usr/bin/env python3"), sets the command and the
 * arguments with which the system would start the interpreter. */
static bool is_script_of(struct ampi_spawn_part *part, const char *interpreter)
{
    char *rest = part->line = read_first_line(part->path);
    char *name = rest ? next_word(&rest) : NULL, *option = name ? next_word(&rest) : NULL;
    char *found = base_malloc(PATH_MAX, "MPI_Comm_spawn");
    bool is_env = option && strcmp(basename(name), "env") == 0;
    size_t n = 0, at = 0;

    if (is_env && search(rank_path(), option, found))
        name = option;
    else
        snprintf(found, PATH_MAX, "%s", name ? name : "");
    if (!name || !is_same_file(found, interpreter)) {
        free(found);
        return false;
    }
    free(found);
    while (part->argv && part->argv[n])
        n++;
    part->words = base_calloc(n + 3, sizeof(char *), "MPI_Comm_spawn");
    if (option && !is_env)
        part->words[at++] = option;
    part->words[at++] = part->path;
    for (size_t i = 0; i < n; i++)
        part->words[at++] = part->argv[i];
    part->command = name;
    part->argv = part->words;
    return true;
}

/* A Python interpreter may run as another file, which has the same libpython (launch/python). */
static struct image_program *load(struct ampi_spawn_part *part, const char **why_out)
{
    const char *host = ampi_launched_host();

    if (host && (is_same_file(part->path, host) || is_script_of(part, host)))
        return &image_program;
    return image_program_load(part->path, why_out);
}

/* Checks one command, and sets the part; returns the error. */
static int read_command(struct outcome *outcome, const char *command, const struct ampi_info *info,
                        int max_ranks, struct ampi_spawn_part *part)
{
    const char *soft = ampi_info_get(info, "soft"), *wdir = ampi_info_get(info, "wdir");
    const char *host = ampi_info_get(info, "host"), *errors = ampi_info_get(info, "mpi_initial_errhandler");
    struct stat folder;
    bool is_valid;

    if (!command || !command[0])
        return fail(outcome, MPI_ERR_ARG, "the command is %s", command ? "empty" : "NULL");
    if (max_ranks < 0)
        return fail(outcome, MPI_ERR_ARG, "maxprocs is %d", max_ranks);
    if (!set_path(command, info, part))
        return fail(outcome, MPI_ERR_SPAWN, "%.200s: no such program", command);
    part->dir = absolute(wdir ? wdir : ".");
    if (stat(part->dir, &folder) != 0 || !S_ISDIR(folder.st_mode))
        return fail(outcome, MPI_ERR_SPAWN, "%.200s: no such folder", wdir ? wdir : ".");
    if (host && !is_this_host(host))
        return fail(outcome, MPI_ERR_SPAWN,
                    "the host %.200s is not this one (%s), where ranks can be spawned", host, ampi_job.host);
    part->command = command;
    part->n_ranks = part->max_ranks = max_ranks;
    part->initial_errors = errors ? ampi_errhandler_find(errors) : 0;
    if (part->initial_errors < 0)
        return fail(outcome, MPI_ERR_INFO_VALUE,
                    "the info key mpi_initial_errhandler is %.200s, not a predefined error handler", errors);
    if (soft) {
        part->n_ranks = choose_soft(soft, max_ranks, &is_valid);
        if (!is_valid)
            return fail(outcome, MPI_ERR_INFO_VALUE, "the info key soft is %.200s, not a set of numbers",
                        soft);
        if (part->n_ranks < 0)
            return fail(outcome, MPI_ERR_SPAWN, "no number of ranks in %.200s is at most %d", soft,
                        max_ranks);
    }
    return MPI_SUCCESS;
}

/* The reason why this process cannot run the parts' ranks; NULL: it can, and the parts have their programs. */
static const char *find_obstacle(struct ampi_spawn_part *parts, int n_parts)
{
    const char *why = NULL;

    if (!ampi_job.is_virtual)
        return "this process cannot run further copies of its program: it is not position-independent, or it "
               "has loaded libmpi by dlopen (as Python does without mpirun, or with one rank per process)";
    if (ampi_job.spawn_room <= 0)
        return "this process has no address space for further ranks: their stacks are too large (use "
               "+stacksize "
               "with less), or only a library that was opened later calls MPI_Comm_spawn";
    for (int i = 0; i < n_parts && !why; i++)
        if (!is_same_file(parts[i].dir, "."))
            why = "its folder is not the current one, which ranks of a process share";
    for (int i = 0; i < n_parts && !why; i++)
        parts[i].program = load(&parts[i], &why);
    return why;
}

/* Why no process can be started, and what helps. */
static const char *explain_launcher(void)
{
    if (!ampi_machine)
        return "mpirun starts for jobs with a process manager: use mpirun --procs 1";
    if (ampi_job.node_n_procs < ampi_job.n_procs)
        return "can be started only if all processes of the job are on one node";
    return "another launcher starts only for jobs in a universe: use Heddle's own mpirun, or set "
           "HEDDLE_UNIVERSE "
           "(its value is a name) for the whole job";
}

/* ---- The root ---- */

static int count_max(const struct commands *commands)
{
    int64_t sum = 0;

    for (int i = 0; i < commands->n; i++)
        sum += commands->max_ranks[i] > 0 ? commands->max_ranks[i] : 0;
    return sum < INT_MAX / 8 ? (int)sum : -1;
}

/* Checks the arguments, and spawns. parts: as many as commands. */
static int spawn_parts(struct ampi_comm *comm, const struct commands *commands, struct ampi_spawn_part *parts,
                       struct ampi_comm_leader *leader, struct outcome *outcome)
{
    const char *obstacle;
    int n_ranks = 0;

    for (int i = 0; i < commands->n; i++) {
        const struct ampi_info *info = ampi_info_of(comm->owner, commands->infos[i]);
        if (!info && commands->infos[i] != MPI_INFO_NULL)
            return fail(outcome, MPI_ERR_INFO, "the info of command %d is not valid", i);
        if (read_command(outcome, commands->commands[i], info, commands->max_ranks[i], &parts[i]))
            return outcome->error;
        parts[i].argv = commands->argvs ? commands->argvs[i] : NULL;
        n_ranks += parts[i].n_ranks;
    }
    if (n_ranks == 0)
        return fail(outcome, MPI_ERR_SPAWN, "the number of ranks to spawn is 0");
    obstacle = find_obstacle(parts, commands->n);
    if (!obstacle)
        return outcome->error =
                   ampi_spawn_run(comm, parts, commands->n, leader, outcome->text, sizeof outcome->text);
    for (int i = 0; i < commands->n; i++) { /* the system starts the interpreters of scripts */
        parts[i].command = commands->commands[i];
        parts[i].argv = commands->argvs ? commands->argvs[i] : NULL;
        parts[i].is_own_program = is_same_file(parts[i].path, "/proc/self/exe");
    }
    if (!ampi_spawn_can_start_processes())
        return fail(outcome, MPI_ERR_SPAWN, "%.200s would need a new process (%s), which %s", parts[0].path,
                    obstacle, explain_launcher());
    return outcome->error =
               ampi_spawn_run_processes(parts, commands->n, leader, outcome->text, sizeof outcome->text);
}

/* The root's part; returns the outcome, malloc'ed. */
static struct outcome *spawn_at_root(struct ampi_comm *comm, const struct commands *commands,
                                     struct ampi_comm_leader *leader)
{
    bool is_valid = commands->n > 0 && commands->commands && commands->max_ranks && commands->infos;
    int n_codes = is_valid ? count_max(commands) : 0, at = 0;
    struct outcome *outcome =
        base_calloc(1, sizeof *outcome + (size_t)(n_codes > 0 ? n_codes : 0) * sizeof(int), "MPI_Comm_spawn");
    struct ampi_spawn_part *parts;

    if (!is_valid || n_codes < 0) {
        fail(outcome, MPI_ERR_ARG,
             is_valid ? "maxprocs is too large" : "count is %d, or an array of the root is NULL",
             commands->n);
        return outcome;
    }
    outcome->n_codes = n_codes;
    parts = base_calloc((size_t)commands->n, sizeof *parts, "MPI_Comm_spawn");
    spawn_parts(comm, commands, parts, leader, outcome);
    for (int i = 0; i < commands->n; i++)
        for (int k = 0; k < commands->max_ranks[i]; k++)
            outcome->codes[at++] = !outcome->error && k < parts[i].n_ranks ? MPI_SUCCESS : MPI_ERR_SPAWN;
    for (int i = 0; i < commands->n; i++) {
        free(parts[i].path);
        free(parts[i].dir);
        free(parts[i].line);
        free(parts[i].words);
    }
    free(parts);
    return outcome;
}

/* ---- All ranks get the outcome: the root's args->send.buf; key[0] is the root. Each gets a copy, malloc'ed. ---- */

static void share_pack(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                       struct ampi_coll_packer *out)
{
    (void)slot;
    if (args->comm->rank == args->key[0])
        ampi_coll_put_bytes(out, 0, args->send.buf, outcome_bytes(args->send.buf));
}

static void share_middle(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *root = slot->args[slot->args[0]->key[0]];
    struct outcome head;

    memcpy(&head, root->send.buf, sizeof head); /* it may be unaligned */
    for (int i = 0; i < slot->state->n_members; i++)
        if (!slot->args[i]->is_remote) {
            slot->args[i]->extra = base_malloc(outcome_bytes(&head), "MPI_Comm_spawn");
            memcpy(slot->args[i]->extra, root->send.buf, outcome_bytes(&head));
        }
}

static const struct ampi_coll_plan share_plan = {
    .name = "the outcome of a spawn", .pack = share_pack, .middle = share_middle};

/* All ranks: takes over the outcome. */
static int finish(struct ampi_comm *comm, const struct ampi_comm_leader *leader,
                  const struct outcome *outcome, MPI_Comm *intercomm, int *errcodes)
{
    struct ampi_comm *made = NULL;
    int error;

    for (int i = 0; i < outcome->n_codes && errcodes != MPI_ERRCODES_IGNORE; i++)
        errcodes[i] = outcome->codes[i];
    if (outcome->error) {
        *intercomm = MPI_COMM_NULL;
        return ampi_raise(comm, outcome->error, "%s", outcome->text);
    }
    error = ampi_comm_create_inter(comm, leader, &made);
    return error ? ampi_comm_raise_creation(comm, error) : ampi_comm_adopt(comm, made, false, intercomm);
}

static int spawn(const struct commands *commands, int root, MPI_Comm comm_handle, MPI_Comm *intercomm,
                 int *errcodes)
{
    struct ampi_comm *comm = ampi_comm_of(ampi_entered(), comm_handle);
    struct ampi_comm_leader leader = {.rank = root};
    struct ampi_coll_args args = {AMPI_COLL_PLAN(&share_plan), .comm = comm, .key = {root, 0}};
    struct outcome *outcome = NULL;
    bool is_waiting = false; /* for ranks of another job */
    int error;

    if (!comm)
        return ampi_comm_raise_invalid(comm_handle);
    if (comm->shared->is_inter)
        return ampi_raise(comm, MPI_ERR_COMM, "the communicator is an intercommunicator");
    if (root < 0 || root >= comm->local->n_ranks)
        return ampi_raise(comm, MPI_ERR_ROOT, "root is %d, but the communicator has %d ranks", root,
                          comm->local->n_ranks);
    if (!intercomm)
        return ampi_raise(comm, MPI_ERR_ARG, "intercomm is NULL");
    if (comm->rank == root) {
        is_waiting = ampi_job.asks_pmix && ampi_registry_begin_wait(AMPI_REGISTRY_ACCEPT, NULL);
        args.send.buf = outcome = spawn_at_root(comm, commands, &leader);
    }
    error = ampi_coll_run(&args);
    free(outcome);
    outcome = args.extra;
    error =
        error ? ampi_comm_raise_creation(comm, error) : finish(comm, &leader, outcome, intercomm, errcodes);
    ampi_registry_end_wait(is_waiting);
    free(outcome);
    return error;
}

AMPI_EXPORT(Comm_spawn);
int PMPI_Comm_spawn(const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm,
                    MPI_Comm *intercomm, int array_of_errcodes[])
{
    char *name = (char *)(uintptr_t)command;
    struct commands commands = {
        .n = 1, .commands = &name, .argvs = &argv, .max_ranks = &maxprocs, .infos = &info};

    ampi_enter("MPI_Comm_spawn");
    return spawn(&commands, root, comm, intercomm, array_of_errcodes);
}

AMPI_EXPORT(Comm_spawn_multiple);
int PMPI_Comm_spawn_multiple(int count, char *array_of_commands[], char **array_of_argv[],
                             const int array_of_maxprocs[], const MPI_Info array_of_info[], int root,
                             MPI_Comm comm, MPI_Comm *intercomm, int array_of_errcodes[])
{
    struct commands commands = {.n = count,
                                .commands = array_of_commands,
                                .argvs = array_of_argv,
                                .max_ranks = array_of_maxprocs,
                                .infos = array_of_info};

    ampi_enter("MPI_Comm_spawn_multiple");
    return spawn(&commands, root, comm, intercomm, array_of_errcodes);
}
