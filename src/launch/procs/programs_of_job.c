/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The programs of the job: one, or several with processes of their own (../programs.c). Used by mpirun_procs.c.
 */
#include "launch/procs/mpirun_procs.h"

#include "base/launched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void fail_memory(void)
{
    launch_fail(1, "out of memory");
}

const struct procs_program *procs_program_of(const struct procs_options *options, int proc_id)
{
    int i = options->num_programs - 1;
    while (i > 0 && options->programs[i].first_proc > proc_id)
        i--;
    return &options->programs[i];
}

/* Takes the next number of words as a NULL-terminated array of their own. */
static char **take_words(char ***words, size_t num)
{
    char **taken = calloc(num + 1, sizeof taken[0]);
    if (taken == NULL)
        fail_memory();
    for (size_t i = 0; i < num && **words; i++)
        taken[i] = *(*words)++;
    return taken;
}

/* Adds a program behind the others. */
static void add(struct procs_options *options, struct procs_program program)
{
    options->programs =
        realloc(options->programs, ((size_t)options->num_programs + 1) * sizeof options->programs[0]);
    if (options->programs == NULL)
        fail_memory();
    if (options->num_programs > 0) {
        const struct procs_program *last = &options->programs[options->num_programs - 1];
        program.first_rank = last->first_rank + last->num_ranks;
        program.first_proc = last->first_proc + last->num_procs;
    }
    options->programs[options->num_programs++] = program;
}

void procs_programs_read(struct procs_options *options, char **parts, char **words)
{
    struct procs_program program;
    size_t num_variables, num_words;
    for (; parts != NULL; parts += 3) {
        program = (struct procs_program){0};
        if (sscanf(parts[0], "part=%d,%d,%zu,%zu", &program.num_ranks, &program.num_procs, &num_variables,
                   &num_words) != 4)
            break;
        program.path = parts[1];
        program.dir = parts[2];
        program.variables = take_words(&words, num_variables);
        program.argv = take_words(&words, num_words);
        add(options, program);
    }
    if (options->num_programs == 0)
        add(options, (struct procs_program){.path = options->path,
                                            .argv = words,
                                            .num_ranks = options->num_ranks,
                                            .num_procs = options->num_procs});
}

char *procs_programs_text(const struct procs_options *options)
{
    char *text = strdup("");
    for (int i = 0; i < options->num_programs && options->num_programs > 1; i++) {
        char *longer;
        if (asprintf(&longer, "%s%s%dx%d", text, i == 0 ? BASE_LAUNCHED_PROGRAMS : ",",
                     options->programs[i].num_ranks, options->programs[i].num_procs) < 0)
            fail_memory();
        free(text);
        text = longer;
    }
    if (text == NULL)
        fail_memory();
    return text;
}
