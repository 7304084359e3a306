/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpirun's messages. Part of mpirun and of mpirun-procs.
 */
#include "launch/launch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* One write per message: the processes may write to the same file. */
static void say(const char *format, va_list values)
{
    char *text = NULL;
    fflush(stdout);
    if (vasprintf(&text, format, values) < 0)
        return;
    dprintf(2, "mpirun: %s\n", text);
    free(text);
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
