/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: every rank has its own globals, initialized and zero, with the values of the source.
 */
#include "image_test.h"

int initialized = 42;
int zero;
static double array[1000] = {[0] = 1.5, [999] = 2.5};
static char text[] = "text";
static const int constant = 7;

int main(void)
{
    CHECK(initialized == 42 && zero == 0 && array[0] == 1.5 && array[999] == 2.5 && text[0] == 't' &&
          constant == 7);
    initialized = (int)test_id();
    zero = (int)test_id() + 1;
    array[999] = test_id();
    text[0] = 'T';
    let_others_run();
    CHECK(initialized == (int)test_id() && zero == (int)test_id() + 1 && array[999] == test_id());
    puts("ok");
    return 0;
}
