/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libexit_order.c: a library with a function for exit that its constructor registers, as C++ does for static objects, and a
 * destructor function. See exit_order.c.
 */
#include "libexit_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char list[16];

void order_note(char letter)
{
    list[strlen(list)] = letter;
}

/* The last one. */
static void destroy_object(void)
{
    puts(strcmp(list, "hmd") == 0 ? "ok" : list);
}

__attribute__((constructor)) static void construct(void)
{
    atexit(destroy_object);
}

__attribute__((destructor)) static void destruct(void)
{
    order_note('d');
}
