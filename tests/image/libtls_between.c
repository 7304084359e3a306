/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Two libraries of tls_between.c: the one with -DOWNER defines a thread_local variable, the other one refers to
 * it, to one of the program's, and (with TLS descriptors only: there the address is NULL) to one that does not
 * exist.
 */
#include "libtls_between.h"

#ifdef OWNER
_Thread_local struct tls_pair owner_pair = {11, 12};

struct tls_pair *owner_address(void)
{
    return &owner_pair;
}
#else
extern _Thread_local struct tls_pair owner_pair;
extern _Thread_local int missing __attribute__((weak));
static _Thread_local int own = 13;

int *user_second_address(void)
{
    return &owner_pair.second;
}

int *user_own_address(void)
{
    return &own;
}

int *user_program_address(void)
{
    return &program_variable;
}

int *user_missing_address(void)
{
#ifdef HAS_DESCRIPTORS
    return &missing;
#else
    return 0;
#endif
}
#endif
