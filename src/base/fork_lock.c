/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fork_lock.c: the lock of fork_lock.h.
 */
#include "base/fork_lock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* How long a fork waits. */
#define LIMIT_S 1

/* A fork that waits goes first: ranks that print errors all the time would keep it waiting. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static atomic_bool is_child;

bool base_fork_delay(void)
{
    return !atomic_load_explicit(&is_child, memory_order_relaxed) && pthread_rwlock_rdlock(&lock) == 0;
}

void base_fork_allow(bool is_delayed)
{
    if (is_delayed && !atomic_load_explicit(&is_child, memory_order_relaxed))
        pthread_rwlock_unlock(&lock);
}

bool base_fork_begin(void)
{
    struct timespec end;

    if (atomic_load(&is_child))
        return false;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += LIMIT_S;
    return pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &end) == 0;
}

void base_fork_end(bool has_begun)
{
    if (has_begun)
        pthread_rwlock_unlock(&lock);
}

void base_fork_leave(void)
{
    atomic_store(&is_child, true);
}
