/* SPDX-License-Identifier: BSD-3-Clause
 *
 * robust.h: a robust mutex of a rank, for programs whose ranks end while they hold it.
 */
#ifndef ROBUST_H
#define ROBUST_H

#include <pthread.h>

static pthread_mutex_t robust;

static inline void lock_robust(void)
{
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    pthread_mutex_lock(&robust);
}

#endif
