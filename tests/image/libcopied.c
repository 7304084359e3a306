/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The shared library of copy_private.c: variables that lead to others of the library.
 */
#include "libcopied.h"

static int hidden = 11;

static int get_hidden(void)
{
    return hidden;
}

struct copied copied_table = {&hidden, get_hidden, "text", {&copied_table.numbers[1], 2, 3}};
int copied_zero;

const struct copied *copied_address(void)
{
    return &copied_table;
}

int *copied_hidden_address(void)
{
    return &hidden;
}

int copied_add(int n)
{
    return copied_zero += n;
}
