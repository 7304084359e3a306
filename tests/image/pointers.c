/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: pointers in initialized data (to variables, into arrays, to functions, one past an end) point into
 * the rank's own copy.
 */
#include "image_test.h"

#include <string.h>

static int numbers[4] = {1, 2, 3, 4};
static int *in_the_middle = &numbers[2];
static int *const one_past_end = &numbers[4];
int exported = 5;
int *to_exported = &exported;

struct node {
    struct node *next;
    int value;
};
static struct node third = {NULL, 3}, second = {&third, 2}, first = {&second, 1};

static int add(int a, int b)
{
    return a + b + exported;
}
static int (*operations[])(int, int) = {add};
static const char *const names[] = {"alpha", "beta"};
static int (*from_libc)(const char *, const char *) = strcmp;

int main(void)
{
    int sum = 0;

    CHECK(in_the_middle == numbers + 2 && one_past_end == numbers + 4 && to_exported == &exported);
    exported = (int)test_id();
    let_others_run();
    CHECK(*to_exported == (int)test_id());
    CHECK(operations[0](1, 2) == 3 + (int)test_id());
    CHECK(operations[0] == add);
    for (struct node *n = &first; n; n = n->next)
        sum += n->value;
    CHECK(sum == 6);
    second.next = NULL;
    CHECK(from_libc(names[0], "alpha") == 0 && from_libc(names[1], "beta") == 0);
    puts("ok");
    return 0;
}
