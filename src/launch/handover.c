/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Several nodes: another launcher, which can reach them, starts the program: srun inside a Slurm
 * allocation, otherwise prterun or Open MPI's mpirun. Each of these is a PMIx server for the processes.
 * Without --procs there is one process per node. Called by main.c.
 */
#include "launch/hosts.h"
#include "launch/launch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The nodes of the job. */
struct place {
    struct launch_hosts hosts; /* num is 0 if the launcher finds them by itself */
    int num_nodes;
    bool is_slurm; /* inside a Slurm allocation */
};

/* ---- The launcher's command line ---- */

struct words {
    char **argv;
    size_t num;
};

static void add_word(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add_word(struct words *words, const char *format, ...)
{
    va_list values;
    char **longer = realloc(words->argv, (words->num + 2) * sizeof *longer);
    va_start(values, format);
    if (longer == NULL || vasprintf(&longer[words->num], format, values) < 0)
        launch_fail(1, "out of memory");
    va_end(values);
    words->argv = longer;
    longer[++words->num] = NULL;
}

/* "a,b,c", or with slots "a:2,b:2,c:2"; malloc'ed. slots_per_host: for hosts without a number. */
static char *host_list(const struct launch_hosts *hosts, bool with_slots, int slots_per_host,
                       bool uses_own_slots)
{
    char *list = NULL;
    for (int i = 0; i < hosts->num; i++) {
        const struct launch_host *host = &hosts->hosts[i];
        int num_slots = uses_own_slots && host->num_slots ? host->num_slots : slots_per_host;
        char *longer, slots[24] = "";
        if (with_slots)
            snprintf(slots, sizeof slots, ":%d", num_slots);
        if (asprintf(&longer, "%s%s%s%s", list ? list : "", list ? "," : "", host->name, slots) < 0)
            launch_fail(1, "out of memory");
        free(list);
        list = longer;
    }
    return list;
}

static void use_srun(const struct launch_command *command, const struct place *place, int num_procs,
                     struct words *words)
{
    int per_node = (num_procs + place->num_nodes - 1) / place->num_nodes;
    add_word(words, "--mpi=pmix");
    add_word(words, "--nodes=%d", place->num_nodes < num_procs ? place->num_nodes : num_procs);
    add_word(words, "--ntasks=%d", num_procs);
    add_word(words, "--ntasks-per-node=%d", per_node);
    add_word(words, "--cpu-bind=none"); /* the library divides the usable cores */
    add_word(words, "--kill-on-bad-exit=%d", command->keeps_going ? 0 : 1);
    if (getenv("SLURM_STEP_ID") != NULL) /* already in a step: share its cores */
        add_word(words, "--overlap");
    if (command->tags_output)
        add_word(words, "--label");
    if (place->hosts.num > 0)
        add_word(words, "--nodelist=%s", host_list(&place->hosts, false, 0, false));
}

/* prterun and Open MPI's mpirun take the same options, with few exceptions. */
static void use_prrte(const struct launch_command *command, const struct place *place, int num_procs,
                      bool is_prterun, struct words *words)
{
    int per_node = (num_procs + place->num_nodes - 1) / place->num_nodes;
    int num_slots = 0;
    for (int i = 0; i < place->hosts.num; i++)
        num_slots += place->hosts.hosts[i].num_slots ? place->hosts.hosts[i].num_slots : per_node;
    if (place->hosts.num > 0)
        add_word(words, "--host"), add_word(words, "%s",
                                            host_list(&place->hosts, true, per_node,
                                                      command->num_procs != 0 && num_slots >= num_procs));
    add_word(words, "-np");
    add_word(words, "%d", num_procs);
    add_word(words, "--map-by");
    if (place->hosts.num > 0)
        add_word(words, "slot");
    else
        add_word(words, "ppr:%d:node", per_node);
    add_word(words, "--bind-to");
    add_word(words, "none"); /* the library divides the usable cores */
    if (command->keeps_going)
        add_word(words, "--enable-recovery");
    if (command->allows_root)
        add_word(words, "--allow-run-as-root");
    if (command->tags_output && is_prterun)
        add_word(words, "--output"), add_word(words, "tag");
    else if (command->tags_output)
        add_word(words, "--tag-output");
    add_word(words, "-x");
    add_word(words, "HEDDLE_OPTIONS");
    static const char *const passed[] = {"LD_LIBRARY_PATH", "HEDDLE_COLL", "HEDDLE_LAUNCHER_TIMEOUT",
                                         "HEDDLE_SILENCE_LIMIT"};
    for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++)
        if (getenv(passed[i]) != NULL)
            add_word(words, "-x"), add_word(words, "%s", passed[i]);
    for (const char *rest = command->exported; rest && *rest;) {
        size_t len = strcspn(rest, " ");
        add_word(words, "-x");
        add_word(words, "%.*s", (int)len, rest);
        rest += len + strspn(rest + len, " ");
    }
    for (int i = 0; i < command->num_own; i++)
        add_word(words, "-x"), add_word(words, "%s", command->own[i].name);
}

/* ---- Which launcher ---- */

/* True if this srun was built with PMIx. */
static bool srun_has_pmix(const char *srun)
{
    char *argv[] = {(char *)srun, (char *)"--mpi=list", NULL}, *line = NULL;
    struct launch_output list;
    size_t capacity = 0;
    bool has_pmix = false;
    if (!launch_output_open(srun, argv, NULL, NULL, &list))
        return false;
    while (getline(&line, &capacity, list.lines) > 0)
        has_pmix = has_pmix || strstr(line, "pmix") != NULL;
    free(line);
    launch_output_close(&list);
    return has_pmix;
}

/* The launcher's path; the two outputs tell its kind. Exits if there is none. */
static char *find_launcher(bool is_slurm, bool *is_srun_out, bool *is_prterun_out)
{
    static const char *const names[] = {"prterun", "orterun", "mpirun.openmpi"};
    char *srun = launch_search_path("srun");
    *is_prterun_out = false;
    *is_srun_out = true;
    if (is_slurm && srun != NULL && srun_has_pmix(srun))
        return srun;
    for (int i = 0; i < 3; i++) {
        char *path = launch_search_path(names[i]);
        if (path == NULL)
            continue;
        *is_srun_out = false;
        *is_prterun_out = i == 0;
        return path;
    }
    if (srun != NULL && srun_has_pmix(srun))
        return srun;
    launch_fail(
        LAUNCH_EXIT_NOT_FOUND,
        "several nodes need another launcher: srun (with PMIx), prterun or Open MPI's mpirun (orterun); none "
        "of them is in PATH");
}

/* ---- Nodes ---- */

/* The value of the first of these variables that is a number above 0; 0 if there is none. */
static int number_in_env(const char *name, const char *other_name)
{
    const char *text = getenv(name) ? getenv(name) : getenv(other_name);
    int number = text ? atoi(text) : 0;
    return number > 0 ? number : 0;
}

/* True if the job uses nodes other than this one. */
static bool find_place(const struct launch_command *command, struct place *place_out)
{
    static const char *const file_variables[] = {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE"};
    *place_out = (struct place){.is_slurm = getenv("SLURM_JOB_ID") != NULL};
    if (command->hosts != NULL)
        launch_hosts_read_list(command->hosts, &place_out->hosts);
    else if (command->hostfile != NULL)
        launch_hosts_read_file(command->hostfile, &place_out->hosts);
    if (place_out->hosts.num > 0) {
        place_out->num_nodes = place_out->hosts.num;
        return !launch_hosts_are_local(&place_out->hosts);
    }
    if (getenv("PMIX_RANK") != NULL) /* already a task of a job */
        return false;
    if (place_out->is_slurm) {
        place_out->num_nodes = number_in_env("SLURM_JOB_NUM_NODES", "SLURM_NNODES");
        return place_out->num_nodes > 1;
    }
    for (int i = 0; i < 2; i++) {
        const char *path = getenv(file_variables[i]);
        if (path == NULL || access(path, R_OK) != 0)
            continue;
        launch_hosts_read_file(path, &place_out->hosts);
        place_out->num_nodes = place_out->hosts.num;
        return place_out->num_nodes > 1;
    }
    return false;
}

void launch_handover_plan(struct launch_command *command, struct launch_program *program)
{
    struct place place;
    bool is_only_here = command->is_in_universe && command->hosts == NULL && command->hostfile == NULL;
    bool is_here = is_only_here || !find_place(command, &place);
    int num_nodes = launch_fit_nodes(command, is_here ? 1 : place.num_nodes);
    if (is_here)
        return;
    if (command->is_in_universe)
        launch_fail(LAUNCH_EXIT_USAGE, "--universe: the jobs of a universe run on one node");
    if (command->num_parts > 0)
        launch_fail(LAUNCH_EXIT_USAGE,
                    "':': several programs on several nodes: run Open MPI's mpirun, or srun --mpi=pmix "
                    "--multi-prog, with the programs");
    bool is_srun, is_prterun;
    char *launcher = find_launcher(place.is_slurm, &is_srun, &is_prterun);
    int num_procs = command->num_procs;
    if (num_procs == 0 && program->kind == LAUNCH_PROGRAM_PLAIN && command->num_ranks > 0)
        num_procs = command->num_ranks;
    if (num_procs == 0)
        num_procs = num_nodes;
    if (program->kind != LAUNCH_PROGRAM_PLAIN && command->num_ranks > 0 && num_procs > command->num_ranks)
        num_procs = command->num_ranks;

    struct words words = {0};
    add_word(&words, "%s", launcher);
    if (is_srun)
        use_srun(command, &place, num_procs, &words);
    else
        use_prrte(command, &place, num_procs, is_prterun, &words);
    add_word(&words, "%s", program->path);
    for (char **word = command->program_argv + 1; *word; word++)
        add_word(&words, "%s", *word);

    /* From here on the launcher is the program to run. */
    command->program_argv = words.argv;
    command->num_procs = 0;
    command->tags_output = false;
    free(program->path);
    program->path = launcher;
    program->kind = LAUNCH_PROGRAM_STARTER;
    program->is_launcher = true;
}
