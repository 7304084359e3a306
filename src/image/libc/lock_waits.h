/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock_waits.h: ranks that wait for file locks, in this process and in others of the job on this node, and the
 * search for circles among them. Private to src/image.
 *
 * A process writes the waits of its ranks into a file of the job's folder. When one of its ranks begins to
 * wait, it reads the waits of the other processes, under a lock on the folder. The last rank that begins to
 * wait closes the circle, so one search is enough.
 *
 * The kernel cannot do this: it takes all threads of a process for one owner, and leaves locks of open file
 * descriptions out of its search. Messages between the processes cannot either: a rank that waits in fcntl
 * is outside of MPI. Not covered: ranks on different nodes, a rank and another program, a process with one
 * rank beside processes with several, launchers without a folder that the user can write.
 */
#ifndef IMAGE_LOCK_WAITS_H
#define IMAGE_LOCK_WAITS_H

#include "base/base.h"

#include <sys/types.h>

/* A rank that waits for a lock. */
struct image_lock_wait {
    pid_t pid;
    uintptr_t rank; /* different for each rank of the process */
    dev_t device;
    ino_t inode;
    bool is_exclusive;
    off_t first, last;                  /* the bytes */
    bool is_found;                      /* by the search */
    struct image_lock_wait *found_next; /* link of those that it found */
};

/* The description on which a rank that waits holds its locks of a file. */
struct image_lock_held {
    pid_t pid;
    uintptr_t rank;
    dev_t device;
    ino_t inode;
    int fd;         /* of the process */
    bool *may_hold; /* set to false by a search that saw no locks; NULL: of another process */
};

/* All zero: empty. */
struct image_lock_waits {
    struct image_lock_wait *waits; /* malloc'ed, as is held */
    size_t n_waits;
    struct image_lock_held *held;
    size_t n_held;
};

/* False: memory is exhausted, and nothing was added. */
bool image_lock_waits_add(struct image_lock_waits *waits, const struct image_lock_wait *wait) BASE_MUST_CHECK;
bool image_lock_waits_add_held(struct image_lock_waits *waits,
                               const struct image_lock_held *held) BASE_MUST_CHECK;
void image_lock_waits_free(struct image_lock_waits *waits);

/* True if the rank of the first wait waits, directly or indirectly, for its own locks. The kernel knows which bytes
 * are locked (/proc/PID/fdinfo). */
bool image_lock_waits_are_circular(struct image_lock_waits *waits);

/* ---- Other processes (lock_folder.c) ---- */

/* Keeps other processes from entering waits, until leave. Returns a descriptor for leave; -1: there is no folder, and
 * read and write must not be called. */
int image_lock_folder_enter(void);
void image_lock_folder_leave(int lock);

/* Appends the waits of the other processes. */
void image_lock_folder_read(struct image_lock_waits *waits);

/* Publishes the waits of this process, in place of those before. */
void image_lock_folder_write(const struct image_lock_waits *waits);

#endif
