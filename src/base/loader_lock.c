/* SPDX-License-Identifier: BSD-3-Clause
 *
 * loader_lock.c: the lock of loader_lock.h.
 */
#include "base/loader_lock.h"

#include <pthread.h>
#include <time.h>

#define LIMIT_S 10

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void base_loader_lock(void)
{
    pthread_mutex_lock(&lock);
}

bool base_loader_try_lock(void)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += LIMIT_S;
    return pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &end) == 0;
}

void base_loader_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void base_loader_renew(void)
{
    lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}
