/* SPDX-License-Identifier: BSD-3-Clause
 *
 * debug.c: mpirun --debug: gdb runs this mpirun again, without the option, and attaches to the processes of the job (the command
 * `heddle job` of heddle-gdb.py). Called by main.c.
 */
#include "launch/launch.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *text(const char *before, const char *folder, const char *after)
{
    char *made;
    if (asprintf(&made, "%s%s%s", before, folder, after) < 0)
        launch_fail(1, "out of memory");
    return made;
}

void launch_debug(const struct launch_command *command, char **argv)
{
    const char *folder = launch_library_dir();
    int num_words = 0, at = 0;
    char own[PATH_MAX];

    if (command->hosts != NULL || command->hostfile != NULL || command->num_explored > 0)
        launch_fail(LAUNCH_EXIT_USAGE, "--debug: only for one run on this node");
    if (folder == NULL || strchr(folder, '\'') != NULL)
        launch_fail(LAUNCH_EXIT_CANNOT_RUN,
                    "--debug: the folder of libmpi_abi.so.1 is missing, or has a quote");
    if (!launch_own_path(own))
        launch_fail(1, "--debug needs /proc, which is not mounted here");
    while (argv[num_words])
        num_words++;
    char **words = calloc((size_t)num_words + 16, sizeof words[0]);
    if (words == NULL)
        launch_fail(1, "out of memory");
    words[at++] = (char *)"gdb";
    words[at++] = (char *)"-q";
    words[at++] = (char *)"-iex";
    words[at++] = text("add-auto-load-safe-path ", folder, "");
    words[at++] = (char *)"-x";
    words[at++] = text("", folder, "/libmpi_abi.so.1-gdb.py");
    words[at++] = (char *)"-ex";
    words[at++] = (char *)"heddle job";
    words[at++] = (char *)"--args";
    words[at++] = own;
    bool is_found = false;
    for (int i = 1; i < num_words; i++) {
        if (is_found || (strcmp(argv[i], "--debug") != 0 && strcmp(argv[i], "-debug") != 0))
            words[at++] = argv[i];
        else
            is_found = true;
    }
    if (fchdir(command->start_dir) == 0)
        execvp(words[0], words);
    launch_fail(LAUNCH_EXIT_CANNOT_RUN, "--debug: gdb: %s", strerror(errno));
}
