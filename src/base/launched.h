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
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The job's name in PMIx (none if the job has one process), a colon, and its number of processes; then
 * BASE_LAUNCHED_KEEPS_GOING if mpirun does not end the job when a process fails (--keep-going). The name shows that Heddle's
 * mpirun started this process itself, not another launcher below it that passed the variable on. */
#define BASE_LAUNCHED_SIZE_ENV "HEDDLE_MPIRUN"
#define BASE_LAUNCHED_KEEPS_GOING ":keep-going"
#define BASE_LAUNCHED_GROWS \
    ":grows" /* mpirun --procs 1: the only process connects, so that it can spawn others */
#define BASE_LAUNCHED_UNIVERSE \
    ":universe=" /* mpirun --universe: "N+M", this job's processes have the numbers from N to N + M - 1 */
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

/* mpirun --progress: the path of the memory for struct base_progress (progress.h): of a descriptor of mpirun, in /proc. */
#define BASE_LAUNCHED_PROGRESS_ENV "HEDDLE_PROGRESS"

/* The further programs of a job in one process (mpirun --one-process), one after the other: the number of ranks, of arguments,
 * and as many words and one more, the path and the arguments from argv[0] on; then the number of environment variables that
 * differ from the first program's, and a word for each, without "=" if it is not set: "8 2 4:/x/b 3:./b 1:7 2 3:A=1 1:B". */
#define BASE_LAUNCHED_OTHERS_ENV "HEDDLE_PROGRAMS"

/* The executable of a program that has libmpi in LD_PRELOAD, loads MPI late and becomes the ranks nevertheless: a Python
 * interpreter. Set before it starts, by a preloaded library (launch/python/starter.c). */
#define BASE_LAUNCHED_HOST_ENV "HEDDLE_HOST"

/* "1 of 3": the rank that has started this program before its MPI_Init, which such a program of several ranks per process must
 * not do for programs that use MPI (ampi/job/late_host.c). */
#define BASE_LAUNCHED_PARENT_ENV "HEDDLE_PARENT"

/* A SOCK_SEQPACKET socket in the job's folder (PMIX_SERVER_TMPDIR), for requests to start processes (MPI_Comm_spawn).
 * A request is a packet of words, each with its 0 at the end: the number of ranks at the job's start, the port where
 * the parents accept, the number of programs, and for each program its ranks, file, folder, number of arguments
 * (argv[0] is one), and these. Ranks of a program of this library share a process if it can be virtualized. The
 * answer is a packet of text: "=66,4" (the first new process, and their number), or the reason of a failure. */
#define BASE_LAUNCHED_REQUEST_MAX ((size_t)128 << 10)

/* Its address, however long the folder's name is; folder: a descriptor. */
static inline void base_launched_control_address(int folder, struct sockaddr_un *address_out)
{
    *address_out = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address_out->sun_path, sizeof address_out->sun_path, "/proc/self/fd/%d/control", folder);
}

/* The data of a spawned process: the number of ranks at the job's start, the first process of its spawn, the number
 * of the spawn, the ranks and processes of each program, a digit for the initial error handler of each, and the parents' port:
 * "8,66,1,4x1,8x8;00!heddle-port:..." */
#define BASE_LAUNCHED_SPAWN_ENV "HEDDLE_SPAWN"

/* The processes of a job, or of a universe: a file in the job's folder (PMIX_SERVER_TMPDIR), which all of them map. Their
 * numbers are those below max; one that has ended is not used again.
 *
 * A universe is the set of a user's jobs that mpirun --universe starts (universe.h). The job's folder links to
 * its folder, which holds the table, the address of each process (BASE_LAUNCHED_ADDRESS and its number), the processes that
 * it is connected to (BASE_LAUNCHED_LINKS: ampi/procs/connected.c) and the published names. Number 0 is not used. */
#define BASE_LAUNCHED_TABLE "/processes"
#define BASE_LAUNCHED_UNIVERSE_LINK "/universe"
#define BASE_LAUNCHED_ADDRESS "/address-"
#define BASE_LAUNCHED_LINKS "/links-"
#define BASE_LAUNCHED_NAMES "/names"
#define BASE_LAUNCHED_SPAWNED_MAX 1024 /* numbers for processes that are spawned later */
#define BASE_LAUNCHED_UNIVERSE_MAX 4096
#define BASE_LAUNCHED_UNIVERSE_SPAWNED_MAX 64
/* In a report of mpirun about a lost process of another job: this plus its number. */
#define BASE_LAUNCHED_OTHER_JOB (1 << 24)
enum base_launched_state {
    BASE_LAUNCHED_ABSENT = 0, /* not started. The launcher sets this one, the next and the last */
    BASE_LAUNCHED_STARTED,
    BASE_LAUNCHED_OPEN,    /* its ports are open. The process sets this one and the next two */
    BASE_LAUNCHED_PARTING, /* it sends nothing more */
    BASE_LAUNCHED_PARTED,  /* it has received all that was sent to it */
    BASE_LAUNCHED_ENDED,
    BASE_LAUNCHED_FAILED /* the same, and it has failed */
};
struct base_launched_table {
    uint32_t max;               /* length of states */
    _Atomic uint32_t n_started; /* processes that were started, in a universe by all jobs */
    uint32_t n_given; /* of a universe: the numbers below it belong to jobs. Under the folder's lock */
    _Atomic uint8_t
        states[]; /* enum base_launched_state, by process; in a universe then, max more: 1: a process of
                                 * another job knows the address */
};

/* The greatest number of ranks of a process in a universe. */
#define BASE_LAUNCHED_UNIVERSE_RANKS_MAX 4096

/* The functions that connect jobs, without the prefix, in lower case. */
#define BASE_LAUNCHED_CONNECTIONS "comm_accept", "comm_connect", "comm_join", "lookup_name", "publish_name"

/* HEDDLE_UNIVERSE: a program that calls MPI_Comm_connect is not in a universe. */
#define BASE_LAUNCHED_NO_UNIVERSE "none"

/* The memory allocation kinds that mpirun's -memory-alloc-kinds requests. */
#define BASE_MEMORY_KINDS_ENV "HEDDLE_MEMORY_ALLOC_KINDS"

/* The initial error handler of ranks that are not spawned (mpirun -initial-errhandler): a name as in MPI_Comm_spawn. */
#define BASE_INITIAL_ERRHANDLER_ENV "HEDDLE_INITIAL_ERRHANDLER"

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
                                         BASE_LAUNCHED_PROGRESS_ENV "=",
                                         BASE_LAUNCHED_HOST_ENV "=",
                                         BASE_LAUNCHED_PARENT_ENV "=",
                                         BASE_LAUNCHED_SPAWN_ENV "="};

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
