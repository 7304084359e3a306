/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Runs another program for its output, without a shell: no character of its path has a meaning. Called by
 * libraries.c and handover.c.
 */
#include "launch/launch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the child: replaces it by the program. */
static _Noreturn void become(const char *path, char *const argv[], const char *variable, const char *without,
                             int output)
{
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    if (variable != NULL)
        setenv(variable, "1", 1);
    if (without != NULL)
        unsetenv(without);
    execv(path, argv);
    _exit(LAUNCH_EXIT_CANNOT_RUN);
}

bool launch_output_open(const char *path, char *const argv[], const char *variable, const char *without,
                        struct launch_output *output_out)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t pid = fork();
    if (pid == 0)
        become(path, argv, variable, without, ends[1]);
    close(ends[1]);
    output_out->pid = pid;
    output_out->lines = pid > 0 ? fdopen(ends[0], "r") : NULL;
    if (output_out->lines != NULL)
        return true;
    close(ends[0]);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return false;
}

void launch_output_close(struct launch_output *output)
{
    fclose(output->lines);
    waitpid(output->pid, NULL, 0);
}
