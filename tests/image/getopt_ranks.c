/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: all ranks scan their arguments at once, each with its own optind, optarg and position in grouped
 * options.
 */
#include "image_test.h"

#include <getopt.h>
#include <string.h>

int main(void)
{
    char arg[16];
    char *argv[] = {"program", "file", "-xyn", arg, "--long=7", "--verbose", "last", NULL};
    int flag = 0, index = -1, c;
    const struct option longopts[] = {
        {"long", required_argument, NULL, 'l'}, {"verbose", no_argument, &flag, 3}, {NULL, 0, NULL, 0}};
    char seen[16] = ""; /* the letters in the order in which they came */

    snprintf(arg, sizeof arg, "%u", test_id());
    CHECK(optind == 1);
    while ((c = getopt_long(7, argv, "xyn:", longopts, &index)) != -1) {
        seen[strlen(seen)] = c ? (char)c : '0';
        if (c == 'n')
            CHECK(optarg == arg);
        if (c == 'l')
            CHECK(strcmp(optarg, "7") == 0 && index == 0);
        sched_yield();
    }
    CHECK(strcmp(seen, "xynl0") == 0 && flag == 3 && optind == 5);
    CHECK(strcmp(argv[5], "file") == 0 && strcmp(argv[6], "last") == 0);
    optind = 1;
    opterr = 0;
    CHECK(getopt(2, (char *[]){"program", "-q", NULL}, "a") == '?' && optopt == 'q');
    puts("ok");
    return 0;
}
