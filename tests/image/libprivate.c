/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The shared library of private_library.c: globals, a constructor, thread_local data and a pointer into the
 * program.
 */
#include "libprivate.h"

int private_counter = 100;
static int n_constructed;
static int *own_pointer = &private_counter;
static _Thread_local unsigned private_tls = 77;
static int (*callback)(void);

__attribute__((constructor)) static void construct(void)
{
    n_constructed++;
    own_pointer = &n_constructed; /* a relocated word that a constructor changes */
}

int private_constructed(void)
{
    return *own_pointer;
}

int private_add(int n)
{
    return private_counter += n;
}

unsigned *private_tls_address(void)
{
    return &private_tls;
}

void private_set_callback(int (*fn)(void))
{
    callback = fn;
}

int private_call(void)
{
    return callback() + program_function();
}
