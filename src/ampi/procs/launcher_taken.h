/* SPDX-License-Identifier: BSD-3-Clause
 *
 * launcher_taken.h: has this process's place in a job been taken by the process that started it? See
 * launcher_taken.c.
 */
#ifndef AMPI_LAUNCHER_TAKEN_H
#define AMPI_LAUNCHER_TAKEN_H

#include "base/base.h"

/* The variables that make this process a member of a job, as in environ. */
bool ampi_launcher_is_taken(char *const *entries, size_t n);

#endif
