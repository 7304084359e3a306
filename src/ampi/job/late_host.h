/* SPDX-License-Identifier: BSD-3-Clause
 *
 * late_host.h: programs that become ranks though they load MPI late (BASE_LAUNCHED_HOST_ENV).
 */
#ifndef AMPI_JOB_LATE_HOST_H
#define AMPI_JOB_LATE_HOST_H

/* The exit code of the process: 1 and a line instead of 0, if several ranks were requested, none has called MPI_Init and the
 * program has loaded another MPI. */
int ampi_late_host_check(int exit_code);

/* Makes the check at the exit of a process that is one rank and runs as it is. */
void ampi_late_host_watch(void);

#endif
