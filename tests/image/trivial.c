/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: the smallest program with state of its own runs in any number of copies; also used to measure.
 */
#include "image_test.h"

static int count;

int main(int argc, char **argv)
{
    count++;
    sched_yield();
    CHECK(count == 1 && argc >= 1 && argv[argc] == NULL);
    puts("ok");
    return 0;
}
