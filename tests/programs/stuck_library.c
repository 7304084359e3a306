/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that holds a lock during a callback.
 */
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void library_call(void (*function)(void))
{
    pthread_mutex_lock(&lock);
    function();
    pthread_mutex_unlock(&lock);
}
