/* SPDX-License-Identifier: BSD-3-Clause
 *
 * win_lock.h: locks with shared and exclusive holders, for windows.
 *
 * Free or compatible, it costs one atomic instruction. Who has to wait stands in a queue, first come, first
 * served, and is told when the lock is its own: a rank is suspended meanwhile, for one of another process a
 * message is sent.
 *
 * Invariants:
 *   1. The word counts the holders. While WAITING is not set, anybody changes it, atomically; while it is
 *      set, only who has the mutex.
 *   2. WAITING is set if and only if the queue is not empty, but for moments with the mutex held.
 */
#ifndef AMPI_WIN_LOCK_H
#define AMPI_WIN_LOCK_H

#include <pthread.h>

#include "base/base.h"

enum ampi_win_lock_as { AMPI_LOCK_SHARED, AMPI_LOCK_EXCLUSIVE };

#define AMPI_WIN_LOCK_ONE_SHARED ((uint64_t)1)
#define AMPI_WIN_LOCK_ONE_EXCLUSIVE ((uint64_t)1 << 32)
#define AMPI_WIN_LOCK_WAITING ((uint64_t)1 << 63)

/* Somebody who waits; its own memory, valid until granted is called. */
struct ampi_win_waiter {
    struct ampi_win_waiter *next;
    enum ampi_win_lock_as as;
    int rank; /* of the window */
    /* The lock is the waiter's. On the thread of who let go; may free the waiter; never switches. */
    void (*granted)(struct ampi_win_waiter *waiter);
};

struct ampi_win_lock {
    _Atomic uint64_t word;
    _Atomic int holder; /* a rank of the window that was the last to lock it exclusively; for reports */
    bool is_group;      /* exclusive holders exclude shared ones only */
    pthread_mutex_t mutex;
    struct ampi_win_waiter *first;
    struct ampi_win_waiter *last;
};

void ampi_win_lock_init(struct ampi_win_lock *lock, bool is_group);
void ampi_win_lock_fini(struct ampi_win_lock *lock);

/* Takes the lock if it can be had at once. */
bool ampi_win_lock_try(struct ampi_win_lock *lock, enum ampi_win_lock_as as, int rank);

/* Takes the lock; false: the waiter stands in the queue. has_others: the caller holds other locks of the
 * window, which those in the queue may wait for, directly or not: it passes them if the holders allow. */
bool ampi_win_lock_take(struct ampi_win_lock *lock, struct ampi_win_waiter *waiter, bool has_others);

/* Takes the waiter out of the queue; false: it is not there any more, the lock is its own. */
bool ampi_win_lock_cancel(struct ampi_win_lock *lock, struct ampi_win_waiter *waiter);

/* Lets go, and tells those whose turn it is. */
void ampi_win_lock_drop(struct ampi_win_lock *lock, enum ampi_win_lock_as as);

#endif
