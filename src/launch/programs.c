/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Several programs in one job: mpirun -n 4 a : -n 8 b. Their ranks are numbered in the order of the programs, in one
 * MPI_COMM_WORLD. Each program has processes of its own: one, or as many as --procs before it says. With --one-process
 * all are in one process, and the library gets the other programs in an environment variable. -n, --procs, -wd, -x and
 * -env belong to the program that follows; all other options to the job. Called by main.c.
 */
#include "launch/launch.h"

#include "base/launched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The largest number of programs. */
enum { MAX_PARTS = 1000 };

/* Adds a program to the list. */
static void add_part(struct launch_command *command, struct launch_command *part,
                     const struct launch_program *program)
{
    if (program->kind == LAUNCH_PROGRAM_PLAIN)
        launch_fail(LAUNCH_EXIT_CANNOT_RUN,
                    "%s: not an MPI program, but each of several programs must be one",
                    part->program_argv[0]);
    if (command->num_parts == MAX_PARTS)
        launch_fail(LAUNCH_EXIT_USAGE, "more than %d programs", MAX_PARTS);
    command->parts = realloc(command->parts, ((size_t)command->num_parts + 1) * sizeof command->parts[0]);
    char *dir = getcwd(NULL, 0);
    if (command->parts == NULL || dir == NULL)
        launch_fail(1, command->parts ? "the working folder cannot be determined" : "out of memory");
    if (program->needs_library_path && launch_variables_are_own(part, "LD_LIBRARY_PATH"))
        launch_set_library_path();
    int num_procs = part->num_procs ? part->num_procs : 1;
    command->parts[command->num_parts++] = (struct launch_part){
        .num_ranks = part->num_ranks ? part->num_ranks : num_procs,
        .num_procs = num_procs,
        .dir = dir,
        .path = program->path,
        .argv = part->program_argv,
        .variables = launch_variables_take_own(part),
    };
}

/* Takes over the options of a part that hold for the whole job. */
static void take_common(struct launch_command *command, struct launch_command *part)
{
    part->parts = command->parts;
    part->num_parts = command->num_parts;
    part->num_ranks = command->num_ranks;
    part->num_procs = command->num_procs;
    part->dir = command->dir;
    part->program_argv = command->program_argv;
    *command = *part;
}

/* Writes a text, and its length in front of it. */
static void write_text(FILE *stream, const char *text)
{
    fprintf(stream, " %zu:%s", strlen(text), text);
}

/* Writes how the environment of a program differs from that of the first one, behind the number of differences. */
static void write_variables(FILE *stream, char **variables, char **of_first)
{
    size_t num = launch_count_words(variables);
    fprintf(stream, " %zu", num + launch_count_words(of_first));
    for (char **entry = of_first; *entry; entry++) { /* what they are without the first one's options */
        char *name = strndup(*entry, strcspn(*entry, "=")), *value = name ? getenv(name) : NULL, *text = name;
        if (name == NULL || (value != NULL && asprintf(&text, "%s=%s", name, value) < 0))
            launch_fail(1, "out of memory");
        write_text(stream, text);
        if (text != name)
            free(text);
        free(name);
    }
    for (char **entry = variables; *entry; entry++)
        write_text(stream, *entry);
}

/* Makes the first program the only one for mpirun; the library gets the others. */
static void join(struct launch_command *command)
{
    char *text = NULL;
    size_t num_bytes;
    FILE *stream = open_memstream(&text, &num_bytes);
    if (stream == NULL)
        launch_fail(1, "out of memory");
    for (int i = 0; i < command->num_parts; i++) {
        const struct launch_part *part = &command->parts[i];
        if (part->num_procs > 1)
            launch_fail(LAUNCH_EXIT_USAGE, "--one-process: %s has --procs %d", part->argv[0],
                        part->num_procs);
        if (strcmp(part->dir, command->parts[0].dir) != 0)
            launch_fail(LAUNCH_EXIT_USAGE, "--one-process: all programs run in one folder, but %s has -wd %s",
                        part->argv[0], part->dir);
        if (i == 0)
            continue;
        fprintf(stream, "%d %zu", part->num_ranks, launch_count_words(part->argv));
        write_text(stream, part->path);
        for (char **word = part->argv; *word; word++)
            write_text(stream, *word);
        write_variables(stream, part->variables, command->parts[0].variables);
        fputc(' ', stream);
    }
    if (fclose(stream) != 0 || setenv(BASE_LAUNCHED_OTHERS_ENV, text, 1) != 0)
        launch_fail(1, "out of memory");
    free(text);
    for (char **entry = command->parts[0].variables; *entry; entry++)
        if (putenv(*entry) != 0)
            launch_fail(1, "out of memory");
    command->program_argv = command->parts[0].argv;
    command->num_parts = 0;
    command->num_procs = 0;
}

void launch_programs_read(struct launch_command *command, struct launch_program *program)
{
    if (command->rest == NULL)
        return;
    add_part(command, command, program);
    while (command->rest != NULL) {
        struct launch_command part = *command;
        struct launch_program found;
        part.rest = NULL;
        part.num_ranks = part.num_procs = 0;
        part.dir = NULL;
        if (fchdir(command->start_dir) != 0)
            launch_fail(1, "cannot return to the folder that mpirun was started in");
        launch_args_read_part(command->rest, &part);
        launch_program_find(&part, &found);
        add_part(command, &part, &found);
        take_common(command, &part);
        if (found.kind == LAUNCH_PROGRAM_STARTER)
            program->kind = LAUNCH_PROGRAM_STARTER;
        program->needs_library_path |= found.needs_library_path;
        if (found.connecting != NULL) {
            program->connecting = found.connecting;
            program->loader = found.loader;
        }
    }
    command->num_ranks = command->num_procs = 0;
    for (int i = 0; i < command->num_parts; i++) {
        command->num_ranks += command->parts[i].num_ranks;
        command->num_procs += command->parts[i].num_procs;
    }
    if (command->is_one_process)
        join(command);
}
