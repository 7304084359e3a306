/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pe_lock.c: see pe_lock.h.
 */
#include "ult/pe_lock.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/arch/relax.h"

enum { FREE, HELD, WANTED, GRANTED };

/* Number of attempts before a thread sleeps: some microseconds. */
#define POLLS 200

/* A thread that has waited this long gets the lock next. */
#define LONG_NS 200000

static long futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    return syscall(SYS_futex, (uint32_t *)word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline bool change(struct ult_lock *lock, uint32_t from, uint32_t to)
{
    return atomic_compare_exchange_strong_explicit(&lock->word, &from, to, memory_order_acquire,
                                                   memory_order_relaxed);
}

bool ult_lock_try(struct ult_lock *lock)
{
    return atomic_load_explicit(&lock->word, memory_order_relaxed) == FREE && change(lock, FREE, HELD);
}

/* After spinning in vain: sleeps until it has the lock. */
static BASE_COLD void sleep_until_taken(struct ult_lock *lock)
{
    uint64_t since_ns = now_ns();
    bool has_slept = false;

    for (;;) {
        uint32_t seen = atomic_load_explicit(&lock->word, memory_order_relaxed);
        /* Others may sleep as well: WANTED, so that they are woken in their turn. */
        if (seen == FREE || (seen == GRANTED && has_slept)) {
            if (change(lock, seen, WANTED))
                return;
            continue;
        }
        if (seen == HELD && !change(lock, HELD, WANTED))
            continue;
        futex(&lock->word, FUTEX_WAIT, seen == HELD ? WANTED : seen);
        has_slept = true;
        if (now_ns() - since_ns > LONG_NS)
            atomic_store_explicit(&lock->has_starved, true, memory_order_relaxed);
    }
}

void ult_lock_take(struct ult_lock *lock)
{
    if (BASE_LIKELY(change(lock, FREE, HELD)))
        return;
    for (int i = 0; i < POLLS; i++) {
        if (ult_lock_try(lock))
            return;
        base_relax();
    }
    sleep_until_taken(lock);
}

bool ult_lock_hand_over(struct ult_lock *lock)
{
    uint32_t wanted = WANTED;

    if (!atomic_compare_exchange_strong_explicit(&lock->word, &wanted, GRANTED, memory_order_release,
                                                 memory_order_relaxed))
        return false;
    if (futex(&lock->word, FUTEX_WAKE, 1) > 0)
        return true;
    /* No thread slept: the threads that wanted the lock have taken it meanwhile, or will see this change. If the lock
     * cannot be taken back, a thread that was about to sleep has it. */
    return !change(lock, GRANTED, WANTED);
}

void ult_lock_give(struct ult_lock *lock)
{
    if (BASE_UNLIKELY(atomic_load_explicit(&lock->has_starved, memory_order_relaxed))) {
        atomic_store_explicit(&lock->has_starved, false, memory_order_relaxed);
        if (ult_lock_hand_over(lock))
            return;
    }
    if (BASE_UNLIKELY(atomic_exchange_explicit(&lock->word, FREE, memory_order_release) == WANTED))
        futex(&lock->word, FUTEX_WAKE, 1);
}
