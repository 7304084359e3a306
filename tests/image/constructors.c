/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: a private library is constructed once in each rank and never in the prototype; a shared one once,
 * before the ranks; both before their dependents. The counter belongs to a shared library, or to each rank
 * (argument "own").
 */
#include "image_test.h"

#include <string.h>

int left_add(int n);
int right_add(int n);
int counter_constructed(void);
int counter_add(int n);

int main(int argc, char **argv)
{
    int is_own = argc > 1 && strcmp(argv[1], "own") == 0;
    const char *copies = getenv("IMAGE_COPIES");
    int n_ranks = copies && !is_own ? atoi(copies) : 1;

    CHECK(counter_constructed() == 1);
    let_others_run();
    CHECK(left_add(0) == 2 * n_ranks &&
          right_add(0) == left_add(0)); /* the left and the right one of each rank */
    let_others_run();
    puts("ok");
    return 0;
}
