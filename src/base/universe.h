/* SPDX-License-Identifier: BSD-3-Clause
 *
 * universe.h: the universe: this user's jobs of this node that can connect to each other (MPI_Comm_connect). It needs no
 * daemon. It is a folder, /dev/shm/heddle-universe-UID (-NAME, with HEDDLE_UNIVERSE=NAME), which only this user can
 * open, and which exists while a job belongs to it. Contents: the table of all processes, their addresses, and published
 * names (launched.h).
 *
 *   1. Each job owns a range of numbers for its processes, which no later job gets while the universe exists, except for the
 *      last ones if no process has had them.
 *   2. Heddle's mpirun holds a lock on these bytes of the table's file while it lives. In a job of another launcher each
 *      process locks its own byte; the first one locks all until they have done so. So if a byte is not locked, that process
 *      is dead, and whoever finds this marks it as failed.
 *   3. A job holds the lock of the folder while it enters or leaves. The last one removes the contents.
 *
 * Used by src/launch/procs/job_universe.c and src/machine_ucx/join_universe.c. Errors are errnos. No function is safe for threads.
 */
#ifndef BASE_UNIVERSE_H
#define BASE_UNIVERSE_H

#include "base/launched.h"

/* A job's place in the universe. */
struct base_universe {
    struct base_launched_table *table; /* NULL: not in the universe */
    int table_fd;                      /* holds the lock */
    int first;                         /* the job's first number */
    int n;                             /* ... and how many it has */
};

/* Its path, in static memory. NULL: HEDDLE_UNIVERSE is not a valid name. */
const char *base_universe_folder(void);

/* Takes n numbers for a new job, and locks them. ENOSPC: there are not enough; EPERM: others own the folder, or can access
 * it; EPROTO: another version of Heddle uses it; EINVAL: see base_universe_folder. */
int base_universe_enter(struct base_universe *universe_out, int n);

/* For a further process of the job: opens the table, and locks one of the job's numbers. */
int base_universe_join(struct base_universe *universe_out, int first, int n, int number);

/* Keeps only one number locked. */
void base_universe_keep(const struct base_universe *universe, int number);

/* Marks the numbers from first to first + n - 1 as ended, removes their addresses and gives up all locks. Removes the universe
 * if no job belongs to it. */
void base_universe_leave(const struct base_universe *universe, int first, int n);

/* Removes the universe if no job belongs to it. universe: NULL if this process does not belong to it. */
void base_universe_tidy(const struct base_universe *universe);

/* Marks the living processes of dead jobs as failed. */
void base_universe_find_dead(const struct base_universe *universe);

/* True if the number belongs to the own job. */
bool base_universe_is_own(const struct base_universe *universe, int number);

/* True if the process of another job has failed, and a process of a job other than its own has looked up its address. */
bool base_universe_has_lost(const struct base_universe *universe, int number);

#endif
