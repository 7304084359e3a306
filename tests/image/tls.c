/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: thread_local variables are per rank and start with their initial values, also pointers to data of
 * the rank.
 */
#include "image_test.h"

static _Thread_local int initialized = 5;
static _Thread_local long zero;
static int target = 9;
static _Thread_local int *pointer = &target;
_Thread_local char text[100] = "initial";

int main(void)
{
    CHECK(initialized == 5 && zero == 0 && pointer == &target && text[0] == 'i');
    initialized = (int)test_id();
    zero = test_id();
    target = (int)test_id();
    text[0] = (char)('a' + test_id() % 26);
    let_others_run();
    CHECK(initialized == (int)test_id() && zero == test_id() && *pointer == (int)test_id());
    CHECK(text[0] == (char)('a' + test_id() % 26) && text[1] == 'n');
    puts("ok");
    return 0;
}
