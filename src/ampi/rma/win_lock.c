/* SPDX-License-Identifier: BSD-3-Clause
 *
 * win_lock.c: see win_lock.h. Called by epochs (lock.c) and for ranks in other processes
 * (rma_remote_target.c).
 */
#include "ampi/rma/win_lock.h"

#include <string.h>

#include "base/log.h"

void ampi_win_lock_init(struct ampi_win_lock *lock, bool is_group, int n_ranks)
{
    atomic_init(&lock->word, 0);
    atomic_init(&lock->holder, -1);
    lock->is_group = is_group;
    pthread_mutex_init(&lock->mutex, NULL);
    lock->first = lock->last = NULL;
    lock->refused = NULL;
    lock->is_closed = false;
    lock->n_ranks = n_ranks;
    lock->n_turns = 0;
    lock->passes = NULL;
}

void ampi_win_lock_fini(struct ampi_win_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
    free(lock->refused);
    free(lock->passes);
}

static inline uint64_t one_of(enum ampi_win_lock_as as)
{
    return as == AMPI_LOCK_SHARED ? AMPI_WIN_LOCK_ONE_SHARED : AMPI_WIN_LOCK_ONE_EXCLUSIVE;
}

/* True if the current holders allow another one. */
static inline bool fits(const struct ampi_win_lock *lock, uint64_t word, enum ampi_win_lock_as as)
{
    uint64_t holders = word & AMPI_WIN_LOCK_HOLDERS;

    if (as == AMPI_LOCK_SHARED)
        return holders < AMPI_WIN_LOCK_ONE_EXCLUSIVE;
    return holders == 0 || (lock->is_group && (uint32_t)holders == 0);
}

bool ampi_win_lock_try(struct ampi_win_lock *lock, enum ampi_win_lock_as as, int rank)
{
    uint64_t word = atomic_load_explicit(&lock->word, memory_order_relaxed);

    while (fits(lock, word, as) && !(word & ~AMPI_WIN_LOCK_HOLDERS))
        if (atomic_compare_exchange_weak_explicit(&lock->word, &word, word + one_of(as), memory_order_acquire,
                                                  memory_order_relaxed)) {
            if (as == AMPI_LOCK_EXCLUSIVE)
                atomic_store_explicit(&lock->holder, rank, memory_order_relaxed);
            return true;
        }
    return false;
}

/* True if the lock is closed to the waiter, or was broken and the rank has not been refused yet; then the
 * rank counts as refused from now on. With the mutex held. */
static bool refuse(struct ampi_win_lock *lock, const struct ampi_win_waiter *waiter)
{
    int rank = waiter->rank;
    uint64_t bit = (uint64_t)1 << (rank % 64);

    if (lock->is_closed && waiter->as == AMPI_LOCK_SHARED)
        return true;
    if (BASE_LIKELY(!lock->refused) || (lock->refused[rank / 64] & bit))
        return false;
    lock->refused[rank / 64] |= bit;
    return true;
}

static void stand_in_queue(struct ampi_win_lock *lock, struct ampi_win_waiter *waiter)
{
    waiter->next = NULL;
    if (lock->first)
        lock->last->next = waiter;
    else
        lock->first = waiter;
    lock->last = waiter;
}

static void hold(struct ampi_win_lock *lock, const struct ampi_win_waiter *waiter)
{
    atomic_fetch_add_explicit(&lock->word, one_of(waiter->as), memory_order_relaxed);
    if (waiter->as == AMPI_LOCK_EXCLUSIVE)
        atomic_store_explicit(&lock->holder, waiter->rank, memory_order_relaxed);
}

/* Lets the waiter pass the first one of the queue, and counts that; false: it has to stand behind it. With
 * the mutex held. */
static bool pass(struct ampi_win_lock *lock, struct ampi_win_waiter *waiter)
{
    struct ampi_win_passes *passes;

    if (!waiter->has_others)
        return false;
    if (!lock->passes)
        lock->passes = base_calloc((size_t)lock->n_ranks, sizeof *lock->passes, "a lock of a window");
    passes = &lock->passes[waiter->rank];
    if (passes->number != lock->n_turns)
        *passes = (struct ampi_win_passes){.number = lock->n_turns};
    if (passes->n == AMPI_WIN_LOCK_PASSES_MAX)
        waiter->has_passed = true;
    else
        passes->n++;
    return true;
}

/* With the mutex held. */
static enum ampi_win_lock_result take_or_wait(struct ampi_win_lock *lock, struct ampi_win_waiter *waiter)
{
    uint64_t word = atomic_fetch_or_explicit(&lock->word, AMPI_WIN_LOCK_WAITING, memory_order_acquire);

    if (!fits(lock, word, waiter->as) || (lock->first && !pass(lock, waiter))) {
        stand_in_queue(lock, waiter);
        return AMPI_LOCK_QUEUED;
    }
    hold(lock, waiter);
    if (!lock->first)
        atomic_fetch_and_explicit(&lock->word, ~AMPI_WIN_LOCK_WAITING, memory_order_relaxed);
    return AMPI_LOCK_TAKEN;
}

enum ampi_win_lock_result ampi_win_lock_take(struct ampi_win_lock *lock, struct ampi_win_waiter *waiter)
{
    enum ampi_win_lock_result result;

    waiter->is_refused = false;
    if (BASE_LIKELY(ampi_win_lock_try(lock, waiter->as, waiter->rank)))
        return AMPI_LOCK_TAKEN;
    pthread_mutex_lock(&lock->mutex);
    result = BASE_UNLIKELY(refuse(lock, waiter)) ? AMPI_LOCK_REFUSED : take_or_wait(lock, waiter);
    pthread_mutex_unlock(&lock->mutex);
    return result;
}

/* Removes the waiters whose turn it is from the queue, and those who pass it, and counts them as holders. With the mutex
 * held. */
static struct ampi_win_waiter *take_granted(struct ampi_win_lock *lock)
{
    struct ampi_win_waiter *granted = NULL, **end = &granted, *waiter = lock->first, *next;
    bool is_first = true;

    lock->first = NULL;
    for (; waiter; waiter = next) {
        next = waiter->next;
        if (fits(lock, atomic_load_explicit(&lock->word, memory_order_relaxed), waiter->as) &&
            (is_first || pass(lock, waiter))) {
            hold(lock, waiter);
            lock->n_turns += is_first;
            *end = waiter;
            end = &waiter->next;
        } else {
            is_first = false;
            stand_in_queue(lock, waiter);
        }
    }
    *end = NULL;
    if (!lock->first)
        atomic_fetch_and_explicit(&lock->word, ~AMPI_WIN_LOCK_WAITING, memory_order_relaxed);
    return granted;
}

static void notify(struct ampi_win_waiter *granted)
{
    while (granted) {
        struct ampi_win_waiter *waiter = granted;
        granted = waiter->next;
        waiter->granted(waiter);
    }
}

void ampi_win_lock_break(struct ampi_win_lock *lock)
{
    size_t n_words = ((size_t)lock->n_ranks + 63) / 64;
    struct ampi_win_waiter *refused;

    pthread_mutex_lock(&lock->mutex);
    if (!lock->refused)
        lock->refused = base_calloc(n_words, sizeof *lock->refused, "a lock of a window");
    memset(lock->refused, 0, n_words * sizeof *lock->refused);
    refused = lock->first;
    lock->first = NULL;
    for (struct ampi_win_waiter *waiter = refused; waiter; waiter = waiter->next)
        waiter->is_refused = refuse(lock, waiter);
    atomic_fetch_or_explicit(&lock->word, AMPI_WIN_LOCK_BROKEN, memory_order_relaxed);
    atomic_fetch_sub_explicit(&lock->word, AMPI_WIN_LOCK_ONE_EXCLUSIVE, memory_order_release);
    atomic_fetch_and_explicit(&lock->word, ~AMPI_WIN_LOCK_WAITING, memory_order_relaxed);
    pthread_mutex_unlock(&lock->mutex);
    notify(refused);
}

/* Removes the shared waiters from the queue. With the mutex held. */
static struct ampi_win_waiter *take_shared(struct ampi_win_lock *lock)
{
    struct ampi_win_waiter *shared = NULL, **end = &shared, *waiter, *next;

    waiter = lock->first;
    lock->first = NULL;
    for (; waiter; waiter = next) {
        next = waiter->next;
        if (waiter->as == AMPI_LOCK_SHARED) {
            waiter->is_refused = true;
            *end = waiter;
            end = &waiter->next;
        } else {
            stand_in_queue(lock, waiter);
        }
    }
    *end = NULL;
    return shared;
}

void ampi_win_lock_close(struct ampi_win_lock *lock)
{
    struct ampi_win_waiter *refused, *granted;

    pthread_mutex_lock(&lock->mutex);
    lock->is_closed = true;
    atomic_fetch_or_explicit(&lock->word, AMPI_WIN_LOCK_BROKEN, memory_order_relaxed);
    refused = take_shared(lock);
    granted = take_granted(lock); /* waiters that stood behind these */
    pthread_mutex_unlock(&lock->mutex);
    notify(refused);
    notify(granted);
}

struct ampi_win_holders ampi_win_lock_holders(const struct ampi_win_lock *lock)
{
    uint64_t word = atomic_load_explicit(&lock->word, memory_order_relaxed) & AMPI_WIN_LOCK_HOLDERS;

    if (word < AMPI_WIN_LOCK_ONE_EXCLUSIVE)
        return (struct ampi_win_holders){-1, (uint32_t)word};
    return (struct ampi_win_holders){atomic_load_explicit(&lock->holder, memory_order_relaxed),
                                     (uint32_t)(word / AMPI_WIN_LOCK_ONE_EXCLUSIVE)};
}

bool ampi_win_lock_is_awaited(struct ampi_win_lock *lock, int rank)
{
    const struct ampi_win_waiter *waiter;

    pthread_mutex_lock(&lock->mutex);
    for (waiter = lock->first; waiter && waiter->rank != rank;)
        waiter = waiter->next;
    pthread_mutex_unlock(&lock->mutex);
    return waiter != NULL;
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
    notify(granted);
}
