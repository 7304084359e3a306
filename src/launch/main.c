/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpirun, also called mpiexec: the order of things, and how it speaks.
 */
#include "launch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void say(const char *format, va_list values)
{
    fflush(stdout);
    fputs("mpirun: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
}

void launch_say(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say(format, values);
    va_end(values);
}

void launch_fail(int exit_code, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say(format, values);
    va_end(values);
    exit(exit_code);
}

int main(int argc, char **argv)
{
    struct launch_command command;
    launch_args_read(argc, argv, &command);

    struct launch_program program;
    launch_program_find(&command, &program);

    return launch_run(&command, &program);
}
