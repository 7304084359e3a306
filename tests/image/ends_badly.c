/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows the ends of a rank that run no handlers: _exit with a code (argument "exit"), abort, a failed
 * assertion.
 */
#include "image_test.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

static void never(void)
{
    puts("handler");
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "exit";

    atexit(never);
    let_others_run();
    puts("ok");
    fflush(stdout);
    if (strcmp(how, "abort") == 0)
        abort();
    assert(strcmp(how, "assert") != 0);
    _exit(3);
}
