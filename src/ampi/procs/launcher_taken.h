/* SPDX-License-Identifier: BSD-3-Clause
 *
 * launcher_taken.h: detects that an ancestor of this process has taken its place in a job. See
 * launcher_taken.c.
 */
#ifndef AMPI_LAUNCHER_TAKEN_H
#define AMPI_LAUNCHER_TAKEN_H

#include "base/base.h"

/* True if it has. entries: the variables that make this process a member of a job, as in environ. */
bool ampi_launcher_is_taken(char *const *entries, size_t n);

#endif
