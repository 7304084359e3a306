/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: functions chosen at start-up (IFUNC) belong to the rank's copy, called directly and through
 * pointers.
 */
#include "image_test.h"

static unsigned id;

static unsigned chosen(void)
{
    return id;
}

static unsigned other(void)
{
    return 0;
}

__attribute__((used)) static unsigned (*resolve(void))(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse2") ? chosen : other;
}

static unsigned which(void) __attribute__((ifunc("resolve")));
static unsigned (*volatile pointer)(void) = which;

int main(void)
{
    id = test_id();
    let_others_run();
    CHECK(which() == test_id());
    CHECK(pointer() == test_id());
    puts("ok");
    return 0;
}
