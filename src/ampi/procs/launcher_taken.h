/* SPDX-License-Identifier: BSD-3-Clause
 *
 * launcher_taken.h: looks for launchers and ranks among the ancestors of this process. See
 * launcher_taken.c.
 */
#ifndef AMPI_LAUNCHER_TAKEN_H
#define AMPI_LAUNCHER_TAKEN_H

#include "base/base.h"

/* True if a launcher of this name started this process: as its parent, or above shells and other programs without
 * MPI. */
bool ampi_launcher_is_above(const char *launcher);

/* True if another process already has this one's place in the launcher's job. entries: the variables that
 * make this process a member of the job, as in environ. */
bool ampi_launcher_is_taken(char *const *entries, size_t n);

#endif
