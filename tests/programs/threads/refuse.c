/* SPDX-License-Identifier: BSD-3-Clause
 *
 * refuse.c: preloaded, a pthread_create that refuses threads with stacks of less than 1 MiB after the first four, as at the limit of the
 * number of threads. Only the library starts such threads.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*function)(void *), void *arg)
{
    static atomic_int n_small;
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    size_t stack_bytes = 0;

    if (attr && pthread_attr_getstacksize(attr, &stack_bytes) == 0 && stack_bytes < 1 << 20 &&
        atomic_fetch_add(&n_small, 1) >= 4)
        return EAGAIN;
    *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    return create(thread, attr, function, arg);
}
