/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Several processes on this node: mpirun execs mpirun-procs (procs/), a separate executable so that a run
 * of one process does not pay for libpmix. Called by run.c.
 */
#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELPER "mpirun-procs"

/* The path in the build tree and in an installation. */
static const char *const helper_places[2] = {"../libexec/heddle/" HELPER,
                                             HEDDLE_LIBEXEC_FROM_BIN "/heddle/" HELPER};

static char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *text(const char *format, ...)
{
    va_list values;
    char *made;
    va_start(values, format);
    if (vasprintf(&made, format, values) < 0)
        launch_fail(1, "out of memory");
    va_end(values);
    return made;
}

size_t launch_count_words(char **words)
{
    size_t num = 0;
    while (words[num])
        num++;
    return num;
}

/* The words of a list of programs: one that describes each program, its path and its folder. */
static void add_parts(const struct launch_command *command, char **argv, size_t at)
{
    for (int i = 0; i < command->num_parts; i++) {
        const struct launch_part *part = &command->parts[i];
        argv[at++] = text("part=%d,%d,%zu,%zu", part->num_ranks, part->num_procs,
                          launch_count_words(part->variables), launch_count_words(part->argv));
        argv[at++] = part->path;
        argv[at++] = part->dir;
    }
    argv[at++] = text("--");
    for (int i = 0; i < command->num_parts; i++) {
        for (char **entry = command->parts[i].variables; *entry; entry++)
            argv[at++] = *entry;
        for (char **word = command->parts[i].argv; *word; word++)
            argv[at++] = *word;
    }
}

void launch_procs(const struct launch_command *command, const struct launch_program *program, int reports,
                  int progress)
{
    const char *option = command->num_procs > 0 ? "--procs"
                         : command->tags_output ? "--tag-output"
                                                : "--universe";
    char *helper = HEDDLE_HAS_PMIX ? launch_own_file(helper_places) : NULL;
    if (helper == NULL && command->num_procs <= 1 && !command->tags_output &&
        (!command->is_in_universe || command->is_universe_implied))
        return;
    if (!HEDDLE_HAS_PMIX)
        launch_fail(1,
                    "%s needs PMIx, but this mpirun was built without its headers: install them "
                    "(libpmix-dev) and rebuild",
                    option);
    if (helper == NULL && access("/proc/self/exe", F_OK) != 0)
        launch_fail(1, "%s needs /proc, which is not mounted here", option);
    if (helper == NULL)
        launch_fail(1, "%s needs " HELPER ", which should be next to mpirun, in %s", option,
                    helper_places[1]);

    size_t num_words = launch_count_words(command->program_argv), at = 0;
    for (int i = 0; i < command->num_parts; i++)
        num_words +=
            3 + launch_count_words(command->parts[i].variables) + launch_count_words(command->parts[i].argv);
    char **argv = calloc(num_words + 16, sizeof argv[0]);
    if (argv == NULL)
        launch_fail(1, "out of memory");
    int num_procs = command->num_procs ? command->num_procs : 1;
    if (program->kind == LAUNCH_PROGRAM_PLAIN && command->num_procs == 0 && command->num_ranks > 0)
        num_procs = command->num_ranks;
    int num_ranks = launch_num_ranks(command);
    argv[at++] = (char *)"mpirun";
    argv[at++] = text("procs=%d", num_procs);
    if (program->kind != LAUNCH_PROGRAM_PLAIN)
        argv[at++] = text("ranks=%d", num_ranks ? num_ranks : num_procs);
    argv[at++] = text("path=%s", program->path);
    if (command->timeout_s > 0)
        argv[at++] = text("timeout=%.17g", command->timeout_s);
    if (command->tags_output)
        argv[at++] = text("tag-output");
    if (command->is_quiet)
        argv[at++] = text("quiet");
    if (command->is_verbose)
        argv[at++] = text("verbose");
    if (command->is_unbound)
        argv[at++] = text("no-bind");
    if (command->num_procs == 1 || (command->is_in_universe && num_procs == 1))
        argv[at++] = text("grows");
    if (command->is_in_universe)
        argv[at++] = text(command->is_universe_implied ? "universe=implied" : "universe");
    if (launch_mpir_is_on())
        argv[at++] = text("debugged");
    if (command->keeps_going)
        argv[at++] = text("keep-going");
    if (progress >= 0)
        argv[at++] = text("progress=%d", progress);
    if (reports >= 0) {
        fcntl(reports, F_SETFD, 0);
        argv[at++] = text("reports=%d", reports);
    }
    if (command->num_parts > 0) {
        add_parts(command, argv, at);
    } else {
        argv[at++] = text("--");
        memcpy(argv + at, command->program_argv, num_words * sizeof argv[0]);
    }
    execv(helper, argv);
    launch_fail(1, "%s: %s", helper, strerror(errno));
}
