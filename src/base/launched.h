/* SPDX-License-Identifier: BSD-3-Clause
 *
 * launched.h: what a launcher and the processes that it starts tell each other. The environment variables
 * that make a process a member of a job are for that process alone: a program that it starts in its turn
 * would take its place in the job. Used by src/launch, src/ampi/procs and src/machine_ucx.
 */
#ifndef BASE_LAUNCHED_H
#define BASE_LAUNCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The job's name in PMIx, a colon, and its number of processes. The name shows that it is our mpirun that
 * started this process, and not another launcher below it, to which the variable came down. */
#define BASE_LAUNCHED_SIZE_ENV "HEDDLE_MPIRUN"

/* The name of an abstract Unix datagram socket, to which a program of this library reports that it has
 * started: its number in the job (PMIX_RANK, or -1) and how many ranks it was told (0: not told). */
#define BASE_LAUNCHED_REPORT_ENV "HEDDLE_REPORT"
#define BASE_LAUNCHED_REPORT_FORMAT "%d %ld"

/* Folders of single processes are called heddle-UID-, this, and something random. */
#define BASE_LAUNCHED_ROOM "ucx-"

/* A process would rather go on than end when another one is lost: a PMIx event of this code, in the range
 * that is for users of PMIx (needs pmix.h). */
#define BASE_LAUNCHED_TOLERATES_EVENT (PMIX_EXTERNAL_ERR_BASE - 71)

/* Does an entry of environ ("NAME=value") make its process a member of a job? PMIX_RANK and the likes do not
 * by themselves: programs look at them to choose their GPUs, so they stay. */
static inline bool base_launched_is_membership(const char *entry)
{
    static const char *const starts[] = {"PMIX_NAMESPACE=",          "PMIX_SERVER_URI",
                                         "PMIX_SECURITY_",           "PMIX_GDS_MODULE=",
                                         "PMIX_PTL_MODULE",          "PMIX_BFROP_BUFFER_TYPE=",
                                         "PMIX_SERVER_TMPDIR=",      "PMI_FD=",
                                         "PMIX_SYSTEM_TMPDIR=",      "PMI_PORT=",
                                         BASE_LAUNCHED_SIZE_ENV "=", BASE_LAUNCHED_REPORT_ENV "="};

    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (strncmp(entry, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* Does it describe the process's place in a job, membership included? */
static inline bool base_launched_is_place(const char *entry)
{
    static const char *const starts[] = {"PMIX_RANK=",       "PMIX_HOSTNAME=",   "PMI_RANK=",
                                         "PMI_SIZE=",        "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_",
                                         "MPI_LOCALRANKID=", "MPI_LOCALNRANKS="};

    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (strncmp(entry, starts[i], strlen(starts[i])) == 0)
            return true;
    return base_launched_is_membership(entry);
}

#endif
