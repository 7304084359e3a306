/* SPDX-License-Identifier: BSD-3-Clause
 *
 * late_host.h: programs that become ranks though they load MPI late (BASE_LAUNCHED_HOST_ENV).
 */
#ifndef AMPI_JOB_LATE_HOST_H
#define AMPI_JOB_LATE_HOST_H

#include "base/base.h"

/* The exit code of the process: 1 and a line instead of 0, if several ranks were requested, none has called MPI_Init and the
 * program has loaded another MPI. */
int ampi_late_host_check(int exit_code);

/* An interpreter that is one rank of several, alone in its process, starts: the environment is as without MPI, until MPI_Init
 * calls ampi_late_host_join. Makes the check at the exit. options: what was in HEDDLE_OPTIONS; NULL: nothing. */
void ampi_late_host_wait(const char *options);
void ampi_late_host_join(void);

/* If an interpreter that is one of several ranks in its process has not called MPI_Init: writes the entry of the environment
 * for a program that it starts, and returns true. caller: an address in the rank's code. Safe in a child of vfork. */
bool ampi_late_host_child_entry(const void *caller, char *entry, size_t size);

/* Ends this process if it was started with such an entry: as a rank of the job it would have no place. In MPI_Init. */
void ampi_late_host_refuse_child(void);

#endif
