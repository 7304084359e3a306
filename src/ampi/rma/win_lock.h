/* SPDX-License-Identifier: BSD-3-Clause
 *
 * win_lock.h: locks with shared and exclusive holders, for windows.
 *
 * If the lock is free or compatible, taking it costs one atomic instruction. Waiters queue up, first come,
 * first served, and are notified when they hold the lock: a rank is suspended meanwhile; a rank in another
 * process gets a message.
 *
 * A waiter that holds other locks, of this window or another one, passes the queue whenever the holders allow another
 * one, since waiters before it may wait for its locks, directly or not. Ranks that request a lock again and again
 * while they hold another one would keep the first waiter out for ever. So a rank that has passed the first waiter
 * AMPI_WIN_LOCK_PASSES_MAX times pauses before further requests, longer each time (lock.c), until the lock has no
 * holder for a moment. The rank never has to queue behind the waiter: that would be a deadlock if a holder waits for
 * the rank's other lock.
 *
 * A lock whose exclusive holder has failed is broken: it is free again, but its data may be half written. So each
 * rank is refused once: waiting ranks now, the others at their next attempt.
 *
 * A lock that is closed is refused to shared holders for ever: MPI_Win_lock_all cannot lock a window with a failed
 * member.
 *
 * Invariants:
 *   1. The word counts the holders. While WAITING is not set, any thread changes it, atomically; while it is
 *      set, only the holder of the mutex. Once BROKEN is set, no rank takes the lock without the mutex: it was broken or
 *      closed.
 *   2. WAITING is set if and only if the queue is not empty, except for moments while the mutex is held.
 */
#ifndef AMPI_WIN_LOCK_H
#define AMPI_WIN_LOCK_H

#include <pthread.h>

#include "base/base.h"

enum ampi_win_lock_as { AMPI_LOCK_SHARED, AMPI_LOCK_EXCLUSIVE };

#define AMPI_WIN_LOCK_ONE_SHARED ((uint64_t)1)
#define AMPI_WIN_LOCK_ONE_EXCLUSIVE ((uint64_t)1 << 32)
#define AMPI_WIN_LOCK_WAITING ((uint64_t)1 << 63)
#define AMPI_WIN_LOCK_BROKEN ((uint64_t)1 << 62)
#define AMPI_WIN_LOCK_HOLDERS (AMPI_WIN_LOCK_BROKEN - 1) /* bits of the word that count */

/* A waiter; its memory is valid until granted is called. */
struct ampi_win_waiter {
    struct ampi_win_waiter *next;
    enum ampi_win_lock_as as;
    int rank;        /* of the window */
    bool has_others; /* it holds other locks, of this window or another one */
    bool has_passed; /* false at first; set with the lock: it has passed the first waiter too often */
    bool is_refused; /* set when granted is called: it does not get the lock, which was broken or closed */
    /* The waiter holds the lock, or was refused. On the thread that released the lock; may free the waiter;
     * never switches. */
    void (*granted)(struct ampi_win_waiter *waiter);
};

/* How often a rank passes the same first waiter without a pause. */
#define AMPI_WIN_LOCK_PASSES_MAX 16

/* How often a rank has passed a first waiter. */
struct ampi_win_passes {
    uint32_t number; /* n_turns of that first waiter; different now: the rank has not passed the present
                      * one */
    uint32_t n;
};

enum ampi_win_lock_result {
    AMPI_LOCK_TAKEN,
    AMPI_LOCK_QUEUED, /* the waiter stands in the queue */
    AMPI_LOCK_REFUSED /* the lock was broken, and the rank had not been refused yet; or it is closed */
};

struct ampi_win_lock {
    _Atomic uint64_t word;
    _Atomic int holder; /* the last rank of the window that locked it exclusively; for reports */
    bool is_group;      /* exclusive holders exclude only shared ones */
    pthread_mutex_t mutex;
    struct ampi_win_waiter *first;
    struct ampi_win_waiter *last;
    uint64_t *refused; /* a bit for each rank that was refused because it is broken; NULL: it is not broken */
    bool is_closed;    /* to shared holders */
    int n_ranks;       /* of the window */
    uint32_t n_turns;  /* first waiters that have left the queue */
    struct ampi_win_passes *passes; /* by rank; NULL: none yet */
};

/* For reports. */
struct ampi_win_holders {
    int32_t rank; /* that holds the lock exclusively; -1: shared holders */
    uint32_t n;   /* 0: none, or unknown */
};

/* n_ranks: of the window. */
void ampi_win_lock_init(struct ampi_win_lock *lock, bool is_group, int n_ranks);
void ampi_win_lock_fini(struct ampi_win_lock *lock);

/* True if nobody holds the lock or waits for it. */
static inline bool ampi_win_lock_is_free(const struct ampi_win_lock *lock)
{
    return atomic_load_explicit(&lock->word, memory_order_relaxed) == 0;
}

/* Takes the lock if that is possible at once. */
bool ampi_win_lock_try(struct ampi_win_lock *lock, enum ampi_win_lock_as as, int rank);

/* Takes the lock, or queues the waiter. */
enum ampi_win_lock_result ampi_win_lock_take(struct ampi_win_lock *lock, struct ampi_win_waiter *waiter);

/* Releases the lock for a failed exclusive holder, and refuses all waiting ranks. */
void ampi_win_lock_break(struct ampi_win_lock *lock);

/* From now on the lock is refused to shared holders; waiting ones are refused at once. */
void ampi_win_lock_close(struct ampi_win_lock *lock);

/* The holders of the lock; of several exclusive ones (is_group) the last one. */
struct ampi_win_holders ampi_win_lock_holders(const struct ampi_win_lock *lock);

/* True if the rank of the window stands in the queue. */
bool ampi_win_lock_is_awaited(struct ampi_win_lock *lock, int rank);

/* Releases the lock, and notifies waiters whose turn it is. */
void ampi_win_lock_drop(struct ampi_win_lock *lock, enum ampi_win_lock_as as);

#endif
