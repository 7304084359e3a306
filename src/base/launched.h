/* SPDX-License-Identifier: BSD-3-Clause
 *
 * launched.h: the protocol between a launcher and the processes that it starts. The environment variables
 * that make a process a member of a job apply to that process only: a program that it starts in turn must
 * not inherit them, or it would take its place in the job. Used by src/launch, src/ampi/procs and
 * src/machine_ucx.
 */
#ifndef BASE_LAUNCHED_H
#define BASE_LAUNCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The job's name in PMIx (none if the job has one process), a colon, and its number of processes; then
 * BASE_LAUNCHED_KEEPS_GOING if mpirun does not end the job when a process fails (--keep-going). The name shows that Heddle's
 * mpirun started this process itself, not another launcher below it that passed the variable on. */
#define BASE_LAUNCHED_SIZE_ENV "HEDDLE_MPIRUN"
#define BASE_LAUNCHED_KEEPS_GOING ":keep-going"
#define BASE_LAUNCHED_PROGRAMS \
    ":programs=" /* last: "4x1,8x2": ranks and processes of each of several programs */

/* The name of an abstract Unix datagram socket. A program linked with this library sends a start report
 * there: its process number in the job (PMIX_RANK, or -1) and its number of ranks (0: unspecified). */
#define BASE_LAUNCHED_REPORT_ENV "HEDDLE_REPORT"
#define BASE_LAUNCHED_REPORT_FORMAT "%d %ld"

/* Two descriptors of SOCK_SEQPACKET sockets, "5,6", for the output of the process's ranks: stdout and stderr. A packet is
 * an int32_t, the rank in the job, and text of at most BASE_LAUNCHED_OUTPUT_MAX bytes. */
#define BASE_LAUNCHED_OUTPUT_ENV "HEDDLE_OUTPUT"
#define BASE_LAUNCHED_OUTPUT_MAX ((size_t)16 << 10)

/* The further programs of a job in one process (mpirun --one-process), one after the other: the number of ranks, of arguments,
 * and as many words and one more, the path and the arguments from argv[0] on: "8 2 4:/x/b 3:./b 1:7". */
#define BASE_LAUNCHED_OTHERS_ENV "HEDDLE_PROGRAMS"

/* The executable of a program that has libmpi in LD_PRELOAD, loads MPI late and becomes the ranks nevertheless: a Python
 * interpreter. Set before it starts, by a preloaded library (launch/python/starter.c). */
#define BASE_LAUNCHED_HOST_ENV "HEDDLE_HOST"

/* The memory allocation kinds that mpirun's -memory-alloc-kinds requests. */
#define BASE_MEMORY_KINDS_ENV "HEDDLE_MEMORY_ALLOC_KINDS"

/* Folders of single processes are named heddle-UID-, this, and a random suffix. */
#define BASE_LAUNCHED_ROOM "ucx-"

/* The code of the PMIx event by which a process announces that it continues when another one fails; in the
 * range that PMIx reserves for users (needs pmix.h). */
#define BASE_LAUNCHED_TOLERATES_EVENT (PMIX_EXTERNAL_ERR_BASE - 71)

/* True if an entry of environ ("NAME=value") makes its process a member of a job. PMIX_RANK and similar
 * variables alone do not, so they stay: programs read them to choose their GPUs. */
static inline bool base_launched_is_membership(const char *entry)
{
    static const char *const starts[] = {"PMIX_NAMESPACE=",
                                         "PMIX_SERVER_URI",
                                         "PMIX_SECURITY_",
                                         "PMIX_GDS_MODULE=",
                                         "PMIX_PTL_MODULE",
                                         "PMIX_BFROP_BUFFER_TYPE=",
                                         "PMIX_SERVER_TMPDIR=",
                                         "PMI_FD=",
                                         "PMIX_SYSTEM_TMPDIR=",
                                         "PMI_PORT=",
                                         BASE_LAUNCHED_SIZE_ENV "=",
                                         BASE_LAUNCHED_REPORT_ENV "=",
                                         BASE_LAUNCHED_OUTPUT_ENV "=",
                                         BASE_LAUNCHED_HOST_ENV "="};

    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (strncmp(entry, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* True if the entry describes the process's place in a job, membership included. */
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
