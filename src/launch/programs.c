/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Several programs in one job: mpirun -n 4 a : -n 8 b. Their ranks are numbered in the order of the programs, in one
 * MPI_COMM_WORLD. Each program has processes of its own: one, or as many as --procs before it says. With --one-process
 * all are in one process, and the library gets the other programs in an environment variable. -n, --procs and -wd belong to
 * the program that follows; all other options to the job. Called by main.c.
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
static void add_part(struct launch_command *command, const struct launch_command *part,
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
    int num_procs = part->num_procs ? part->num_procs : 1;
    command->parts[command->num_parts++] = (struct launch_part){
        .num_ranks = part->num_ranks ? part->num_ranks : num_procs,
        .num_procs = num_procs,
        .dir = dir,
        .path = program->path,
        .argv = part->program_argv,
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
        int num_words = 0;
        if (part->num_procs > 1)
            launch_fail(LAUNCH_EXIT_USAGE, "--one-process: %s has --procs %d", part->argv[0],
                        part->num_procs);
        if (strcmp(part->dir, command->parts[0].dir) != 0)
            launch_fail(LAUNCH_EXIT_USAGE, "--one-process: all programs run in one folder, but %s has -wd %s",
                        part->argv[0], part->dir);
        while (part->argv[num_words] != NULL)
            num_words++;
        if (i > 0)
            fprintf(stream, "%d %d %zu:%s", part->num_ranks, num_words, strlen(part->path), part->path);
        for (int k = 0; i > 0 && k < num_words; k++)
            fprintf(stream, " %zu:%s", strlen(part->argv[k]), part->argv[k]);
        fputs(i > 0 ? " " : "", stream);
    }
    if (fclose(stream) != 0 || setenv(BASE_LAUNCHED_OTHERS_ENV, text, 1) != 0)
        launch_fail(1, "out of memory");
    free(text);
    command->program_argv = command->parts[0].argv;
    command->num_parts = 0;
    command->num_procs = 0;
}

void launch_programs_check_variable(const struct launch_command *command, const char *option,
                                    const char *name, const char *value)
{
    const char *list = command->num_parts > 0 && command->exported ? command->exported : "";
    size_t len = strlen(name);
    for (const char *at = list; len > 0 && (at = strstr(at, name)) != NULL; at += len) {
        bool is_word = (at == list || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0');
        const char *before = is_word ? getenv(name) : NULL;
        if (before != NULL && strcmp(before, value) != 0)
            launch_fail(LAUNCH_EXIT_USAGE,
                        "%s %s: all programs have one environment, in which an earlier option sets %s=%s",
                        option, name, name, before);
    }
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
