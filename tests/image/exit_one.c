/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: exit() from deep inside one rank ends that rank, with its handlers and buffers, and no other.
 */
#include "image_test.h"

static int n_handled;

static void handler(void)
{
    n_handled++;
    puts("ok");
    if (n_handled == 1)
        exit(0); /* continues with the other handlers */
}

static void leave(int depth)
{
    if (depth > 0)
        leave(depth - 1);
    else if (test_id() % 2)
        exit(0);
}

int main(void)
{
    atexit(handler);
    atexit(handler);
    sched_yield();
    leave(5);
    let_others_run();
    return 0;
}
