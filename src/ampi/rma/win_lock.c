/* SPDX-License-Identifier: BSD-3-Clause
 *
 * win_lock.c: see win_lock.h. Called by epochs (lock.c) and for ranks of other processes (rma_remote.c).
 */
#include "ampi/rma/win_lock.h"

void ampi_win_lock_init(struct ampi_win_lock *lock, bool is_group)
{
    atomic_init(&lock->word, 0);
    atomic_init(&lock->holder, -1);
    lock->is_group = is_group;
    pthread_mutex_init(&lock->mutex, NULL);
    lock->first = lock->last = NULL;
}

void ampi_win_lock_fini(struct ampi_win_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

static inline uint64_t one_of(enum ampi_win_lock_as as)
{
    return as == AMPI_LOCK_SHARED ? AMPI_WIN_LOCK_ONE_SHARED : AMPI_WIN_LOCK_ONE_EXCLUSIVE;
}

/* Do the holders allow another one? */
static inline bool fits(const struct ampi_win_lock *lock, uint64_t word, enum ampi_win_lock_as as)
{
    uint64_t holders = word & ~AMPI_WIN_LOCK_WAITING;

    if (as == AMPI_LOCK_SHARED)
        return holders < AMPI_WIN_LOCK_ONE_EXCLUSIVE;
    return holders == 0 || (lock->is_group && (uint32_t)holders == 0);
}

bool ampi_win_lock_try(struct ampi_win_lock *lock, enum ampi_win_lock_as as, int rank)
{
    uint64_t word = atomic_load_explicit(&lock->word, memory_order_relaxed);

    while (fits(lock, word, as) && !(word & AMPI_WIN_LOCK_WAITING))
        if (atomic_compare_exchange_weak_explicit(&lock->word, &word, word + one_of(as), memory_order_acquire,
                                                  memory_order_relaxed)) {
            if (as == AMPI_LOCK_EXCLUSIVE)
                atomic_store_explicit(&lock->holder, rank, memory_order_relaxed);
            return true;
        }
    return false;
}

bool ampi_win_lock_take(struct ampi_win_lock *lock, struct ampi_win_waiter *waiter, bool has_others)
{
    uint64_t word;
    bool is_taken;

    if (BASE_LIKELY(ampi_win_lock_try(lock, waiter->as, waiter->rank)))
        return true;
    pthread_mutex_lock(&lock->mutex);
    word = atomic_fetch_or_explicit(&lock->word, AMPI_WIN_LOCK_WAITING, memory_order_acquire);
    is_taken = fits(lock, word, waiter->as) && (!lock->first || has_others);
    if (is_taken) {
        atomic_fetch_add_explicit(&lock->word, one_of(waiter->as), memory_order_acquire);
        if (waiter->as == AMPI_LOCK_EXCLUSIVE)
            atomic_store_explicit(&lock->holder, waiter->rank, memory_order_relaxed);
        if (!lock->first)
            atomic_fetch_and_explicit(&lock->word, ~AMPI_WIN_LOCK_WAITING, memory_order_relaxed);
    } else {
        waiter->next = NULL;
        if (lock->first)
            lock->last->next = waiter;
        else
            lock->first = waiter;
        lock->last = waiter;
    }
    pthread_mutex_unlock(&lock->mutex);
    return is_taken;
}

/* With the mutex held: takes those out of the queue whose turn it is, and counts them as holders. */
static struct ampi_win_waiter *take_granted(struct ampi_win_lock *lock)
{
    struct ampi_win_waiter *granted = lock->first, **end = &granted;

    while (lock->first &&
           fits(lock, atomic_load_explicit(&lock->word, memory_order_relaxed), lock->first->as)) {
        atomic_fetch_add_explicit(&lock->word, one_of(lock->first->as), memory_order_relaxed);
        if (lock->first->as == AMPI_LOCK_EXCLUSIVE)
            atomic_store_explicit(&lock->holder, lock->first->rank, memory_order_relaxed);
        end = &lock->first->next;
        lock->first = lock->first->next;
    }
    *end = NULL;
    if (!lock->first)
        atomic_fetch_and_explicit(&lock->word, ~AMPI_WIN_LOCK_WAITING, memory_order_relaxed);
    return granted;
}

static void tell(struct ampi_win_waiter *granted)
{
    while (granted) {
        struct ampi_win_waiter *waiter = granted;
        granted = waiter->next;
        waiter->granted(waiter);
    }
}

bool ampi_win_lock_cancel(struct ampi_win_lock *lock, struct ampi_win_waiter *waiter)
{
    struct ampi_win_waiter **link = &lock->first, *granted = NULL, *before = NULL;
    bool is_there;

    pthread_mutex_lock(&lock->mutex);
    while (*link && *link != waiter) {
        before = *link;
        link = &(*link)->next;
    }
    is_there = *link != NULL;
    if (is_there) {
        *link = waiter->next;
        if (lock->last == waiter)
            lock->last = before;
        granted = take_granted(lock); /* who stood behind it may fit */
    }
    pthread_mutex_unlock(&lock->mutex);
    tell(granted);
    return is_there;
}

void ampi_win_lock_drop(struct ampi_win_lock *lock, enum ampi_win_lock_as as)
{
    uint64_t word = atomic_load_explicit(&lock->word, memory_order_relaxed);
    struct ampi_win_waiter *granted;

    while (!(word & AMPI_WIN_LOCK_WAITING))
        if (atomic_compare_exchange_weak_explicit(&lock->word, &word, word - one_of(as), memory_order_release,
                                                  memory_order_relaxed))
            return;
    pthread_mutex_lock(&lock->mutex);
    atomic_fetch_sub_explicit(&lock->word, one_of(as), memory_order_release);
    granted = take_granted(lock);
    pthread_mutex_unlock(&lock->mutex);
    tell(granted);
}
