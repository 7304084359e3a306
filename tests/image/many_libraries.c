/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: each of a thousand ranks has 30 libraries with its own state.
 */
#include "image_test.h"

#define TENS(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9)
#define DECLARE(n) int many_add1##n(int), many_add2##n(int), many_add3##n(int);
TENS(DECLARE)
#define ADDRESSES(n) many_add1##n, many_add2##n, many_add3##n,
static int (*const functions[])(int) = {TENS(ADDRESSES)};

int main(void)
{
    int value = (int)(test_id() % 1000000);

    for (int i = 0; i < 30; i++)
        functions[i](value + i);
    let_others_run();
    for (int i = 0; i < 30; i++)
        CHECK(functions[i](0) == value + i + 10 * (i % 3 + 1) + i / 3);
    puts("ok");
    return 0;
}
