/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: static variables of functions are per rank.
 */
#include "image_test.h"

static int next(void)
{
    static int count = 10;

    return count++;
}

static unsigned *slot(void)
{
    static unsigned value;

    return &value;
}

int main(void)
{
    for (int i = 0; i < 5; i++) {
        CHECK(next() == 10 + i);
        sched_yield();
    }
    CHECK(*slot() == 0);
    *slot() = test_id();
    let_others_run();
    CHECK(*slot() == test_id());
    puts("ok");
    return 0;
}
