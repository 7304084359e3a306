/* SPDX-License-Identifier: BSD-3-Clause
 *
 * privilege.h: programs with more privileges than their caller: setuid, setgid, file capabilities. The
 * caller's arguments and environment variables must not make such a program load code.
 */
#ifndef BASE_PRIVILEGE_H
#define BASE_PRIVILEGE_H

#include <stdbool.h>
#include <sys/auxv.h>

/* True if the kernel set AT_SECURE. secure_getenv then returns NULL, too. */
static inline bool base_is_privileged(void)
{
    return getauxval(AT_SECURE) != 0;
}

#endif
