/* SPDX-License-Identifier: BSD-3-Clause
 *
 * windows.h: the blocks that one-sided operations access, for windows.c.
 */
#ifndef AMPI_MISUSE_WINDOWS_H
#define AMPI_MISUSE_WINDOWS_H

#include "ampi/misuse/misuse.h"

#define AMPI_MISUSE_BLOCKS_MAX 1024 /* of an operation that is recorded */

/* A block that an operation accesses. */
struct ampi_misuse_block_access {
    struct ampi_interval interval;
    struct ampi_misuse_block_access *next, **link; /* in a list of the origin */
    struct ampi_misuse_claim by;
    uint64_t done_at; /* LOCK: the tick at which it was complete; 0: it is not */
    uint64_t sum;     /* of the data that a put has stored or a get has loaded; 0: unknown */
};

/* A window with operations. */
struct ampi_misuse_window {
    struct ampi_misuse_window *next;
    const struct ampi_win_shared *shared;      /* the key */
    struct ampi_intervals *targets;            /* by rank */
    struct ampi_misuse_block_access **pending; /* by rank: its accesses */
    struct ampi_misuse_block_access **done;    /* by rank: those in locks that are complete */
    int *n_done;                               /* by rank: number of these */
    uint32_t *epochs;                          /* by rank of this process: fences so far */
    uint32_t *n_accesses;                      /* by rank: all */
    uint64_t *unlocked; /* by rank: the last tick at which an exclusive lock was released */
    uint64_t *flagged;  /* by rank: a tick before which it may know of completions, by loads of its memory */
    uint64_t **claimed; /* by rank: a bit for each target in another process with claims */
    bool *is_partial;   /* by rank: some operations at this target are not recorded */
};

/* Guards all windows and their blocks. */
extern pthread_mutex_t ampi_misuse_windows_lock;

/* Completions of operations in locks, and releases of exclusive locks. */
extern _Atomic uint64_t ampi_misuse_ticks;

/* ---- With the lock (conflicts.c) ---- */

struct ampi_misuse_window *ampi_misuse_find_window(const struct ampi_win_shared *shared); /* NULL: none */
struct ampi_misuse_window *ampi_misuse_find_or_create_window(const struct ampi_win_shared *shared);

/* Of the target's memory, which a put or get in an epoch of the target has accessed in this process. 0: another operation. */
uint64_t ampi_misuse_sum_at(const struct ampi_win_shared *shared, const struct ampi_misuse_claim *by,
                            uintptr_t begin, uintptr_t end);

/* A synchronisation ends the origin's operations. target: -1: all; FENCE: an epoch's number, earlier ones end. */
void ampi_misuse_end_accesses(struct ampi_misuse_window *watched, int origin, enum ampi_misuse_sync sync,
                              int target);

/* ---- Without it ---- */

/* All members of this process have freed the window. */
void ampi_misuse_forget_window(const struct ampi_win_shared *shared);

#endif
