/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: handlers of atexit and on_exit run per rank, in reverse order, and may add handlers; destructor
 * functions run after them.
 */
#include "image_test.h"

#include <string.h>

static char order[16];

static void note(char c)
{
    order[strlen(order)] = c;
}

static void late(void)
{
    note('l');
}

static void first(void)
{
    note('1');
    atexit(late);
}

static void second(void)
{
    note('2');
}

static void with_status(int status, void *arg)
{
    CHECK(status == 0 && arg == order);
    note('s');
}

__attribute__((constructor)) static void before_main(void)
{
    note('c');
}

__attribute__((destructor)) static void after_main(void)
{
    CHECK(strcmp(order, "cm2s1l") == 0);
    puts("ok");
}

int main(void)
{
    note('m');
    atexit(first);
    on_exit(with_status, order);
    let_others_run();
    atexit(second);
    return 0;
}
