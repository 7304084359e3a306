/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpirun.h: what our mpirun and the processes that it starts tell each other besides PMIx. Used by
 * src/launch/procs, src/ampi/procs and launcher.c.
 */
#ifndef MACHINE_MPIRUN_H
#define MACHINE_MPIRUN_H

#include <stdlib.h>
#include <string.h>

/* The job's name in PMIx, a colon, and its number of processes. The name shows that it is our mpirun that
 * started this process, and not another launcher below it, to which the variable came down. */
#define MACHINE_MPIRUN_ENV "HEDDLE_MPIRUN"

/* How many processes our mpirun has started; 0: it was not our mpirun. */
static inline int machine_mpirun_size(void)
{
    const char *job = getenv("PMIX_NAMESPACE"), *said = getenv(MACHINE_MPIRUN_ENV);
    size_t len = job ? strlen(job) : 0;

    return said && len && strncmp(said, job, len) == 0 && said[len] == ':' ? atoi(said + len + 1) : 0;
}

/* A process would rather go on than end when another one is lost: a PMIx event of this code, in the range
 * that is for users of PMIx. */
#define MACHINE_TOLERATES_EVENT (PMIX_EXTERNAL_ERR_BASE - 71)

#endif
