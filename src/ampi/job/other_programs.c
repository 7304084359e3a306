/* SPDX-License-Identifier: BSD-3-Clause
 *
 * other_programs.c: further programs in a job of one process (mpirun --one-process): their ranks follow those of the process's
 * program, in the order of the command line, and are copies of these programs (image_program_load).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ampi/job/job.h"
#include "base/launched.h"
#include "base/log.h"
#include "base/settings.h"
#include "image/image.h"

struct part {
    int n_ranks;
    int n_words;      /* of its arguments */
    char **words;     /* its path, and the arguments from argv[0] on */
    int n_variables;  /* environment variables that differ from those of the process */
    char **variables; /* "NAME=VALUE", or "NAME": not set */
    struct image_program *program;
};

static struct {
    struct part *parts;
    int n_parts;
    int n_ranks;    /* of all parts */
    bool may_spawn; /* one has the name of such a function */
} others;

static BASE_NORETURN void end_damaged(void)
{
    base_fatal(1, "the variable " BASE_LAUNCHED_OTHERS_ENV " is damaged");
}

/* Takes a word, "3:abc", from the text; malloc'ed. */
static char *take_word(const char **text)
{
    char *end;
    size_t length = strtoul(*text, &end, 10);
    char *word = *end == ':' && length <= strlen(end + 1) ? strndup(end + 1, length) : NULL;

    if (!word)
        end_damaged();
    *text = end + 1 + length;
    return word;
}

/* True if the file contains the text. */
static bool contains(const char *path, const char *text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    char *bytes = MAP_FAILED;
    bool is_there;

    if (fd >= 0 && fstat(fd, &status) == 0)
        bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (fd >= 0)
        close(fd);
    if (bytes == MAP_FAILED)
        return false;
    is_there = memmem(bytes, (size_t)status.st_size, text, strlen(text));
    munmap(bytes, (size_t)status.st_size);
    return is_there;
}

void ampi_programs_take(void)
{
    const char *text = secure_getenv(BASE_LAUNCHED_OTHERS_ENV);
    struct part part;
    int n_read;

    while (text && sscanf(text, " %d %d %n", &part.n_ranks, &part.n_words, &n_read) == 2) {
        text += n_read;
        part.words = base_calloc((size_t)part.n_words + 2, sizeof *part.words, "the programs of the job");
        for (int i = 0; i <= part.n_words; i++)
            part.words[i] = take_word(&text);
        if (sscanf(text, " %d%n", &part.n_variables, &n_read) != 1)
            end_damaged();
        text += n_read;
        part.variables =
            base_calloc((size_t)part.n_variables + 1, sizeof *part.variables, "the programs of the job");
        for (int i = 0; i < part.n_variables; i++)
            part.variables[i] = take_word(&text);
        others.parts =
            base_realloc(others.parts, ((size_t)others.n_parts + 1) * sizeof part, "the programs of the job");
        others.parts[others.n_parts++] = part;
        others.n_ranks += part.n_ranks;
        others.may_spawn |= contains(part.words[0], "omm_spawn"); /* MPI_Comm_spawn, mpi_comm_spawn_ */
    }
    unsetenv(BASE_LAUNCHED_OTHERS_ENV);
}

bool ampi_programs_are_several(void)
{
    return others.n_parts > 0;
}

bool ampi_programs_may_spawn(void)
{
    return others.may_spawn;
}

void ampi_programs_load(void)
{
    const char *error;

    for (int i = 0; i < others.n_parts; i++) {
        others.parts[i].program = image_program_load(others.parts[i].words[0], &error);
        if (!others.parts[i].program)
            base_fatal(1, "%s; without --one-process each program gets a process", error);
    }
}

void ampi_programs_assign(struct ampi_rank *rank)
{
    int first = ampi_job.n_ranks - others.n_ranks, i = 0;
    const struct part *part;

    if (others.n_parts > 0)
        rank->max_ranks = first;
    if (rank->world_rank < first || others.n_parts == 0)
        return;
    while (rank->world_rank >= first + others.parts[i].n_ranks)
        first += others.parts[i++].n_ranks;
    part = &others.parts[i];
    rank->app_num = i + 1;
    rank->program = part->program;
    rank->max_ranks = part->n_ranks;
    rank->arguments = ampi_info_env_join(part->n_words, part->words + 1);
    rank->argv = base_calloc((size_t)part->n_words + 1, sizeof *rank->argv, "a rank's arguments");
    for (int k = 0; k < part->n_words; k++)
        if (!(rank->argv[k] = strdup(part->words[k + 1])))
            base_fatal(1, "out of memory: cannot copy the arguments of rank %d", rank->world_rank);
}

void ampi_programs_set_variables(const struct ampi_rank *rank)
{
    bool is_other = rank->program && !rank->spawned && others.n_parts > 0;
    const struct part *part = is_other ? &others.parts[rank->app_num - 1] : NULL;

    for (int i = 0; part && i < part->n_variables; i++)
        if (!image_env_put(rank->image, part->variables[i]))
            base_fatal(1, "out of memory: cannot set the environment of rank %d", rank->world_rank);
}
