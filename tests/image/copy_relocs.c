/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: a program compiled with -fPIE, which has its own space for variables of libraries (COPY
 * relocations): stdout, environ, optind and the time zone.
 */
#include "image_test.h"

#include <getopt.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int has_variable(const char *name)
{
    for (char **e = environ; *e; e++)
        if (strncmp(*e, name, strlen(name)) == 0 && (*e)[strlen(name)] == '=')
            return 1;
    return 0;
}

int main(void)
{
    char *argv[] = {"program", "-a", "-b", "value", "rest", NULL};
    char name[32];
    int seen = 0, c;

    CHECK(optind == 1 && opterr == 1);
    while ((c = getopt(5, argv, "ab:")) != -1) {
        seen += c;
        if (c == 'b')
            CHECK(strcmp(optarg, "value") == 0);
        sched_yield();
    }
    CHECK(seen == 'a' + 'b' && optind == 4 && strcmp(argv[optind], "rest") == 0);
    snprintf(name, sizeof name, "COPY_%u", test_id());
    CHECK(environ && setenv(name, "1", 1) == 0 && has_variable(name));
    setenv("TZ", "XYZ5", 1);
    tzset();
    CHECK(timezone == 5 * 3600 && strcmp(tzname[0], "XYZ") == 0);
    fprintf(stdout, "ok\n");
    fflush(stdout);
    return 0;
}
