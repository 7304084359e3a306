/* SPDX-License-Identifier: BSD-3-Clause
 *
 * privilege.h: programs that have rights which their caller lacks: setuid, setgid, file capabilities. What
 * the caller says in arguments and environment variables must not make such a program load code.
 */
#ifndef BASE_PRIVILEGE_H
#define BASE_PRIVILEGE_H

#include <stdbool.h>
#include <sys/auxv.h>

/* Has the kernel said so (AT_SECURE)? Then secure_getenv, too, finds nothing. */
static inline bool base_is_privileged(void)
{
    return getauxval(AT_SECURE) != 0;
}

#endif
