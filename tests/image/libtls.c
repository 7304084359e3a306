/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The shared library of tls_library.c: thread_local variables with and without initial values, compiled for
 * different models.
 */
#include "libtls.h"

static int target = 5;
_Thread_local int tls_counter = 77;
static _Thread_local int *pointer = &target;
static _Thread_local int aligned __attribute__((aligned(64))) = 3;
static _Thread_local char big[190000];

int *tls_counter_address(void)
{
    return &tls_counter;
}

int tls_is_pointer_right(void)
{
    return pointer == &target && *pointer == 5;
}

int *tls_aligned_address(void)
{
    return &aligned;
}

char *tls_big_address(void)
{
    return big;
}
