/* SPDX-License-Identifier: BSD-3-Clause
 *
 * takeover_threads.c: pthread_create, thrd_create and pthread_join, for the program and all libraries; and the functions that
 * make the C library start threads of its own for the program (SIGEV_THREAD).
 *
 * This library's definitions precede libc's (precedence.c), so that a thread of std::thread or
 * of OpenMP belongs to the rank that caused it, like a thread of the program itself. A thread without a
 * rank is created by libc with unchanged arguments.
 *
 * This file is part of the shared library only, never of a unit test.
 */
#include "image/copy/precedence.h"
#include "image/copy/threads.h"

#include "base/log.h"

#include <errno.h>
#include <mqueue.h>
#include <signal.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

typedef int (*create_fn)(pthread_t *thread, const pthread_attr_t *attr, void *(*function)(void *), void *arg);

struct start {
    struct image *image;
    void *(*function)(void *);
    thrd_start_t c11_function; /* for thrd_create, where function is NULL */
    void *arg;
    bool has_others; /* other ranks of the OS thread block signals, which the new thread unblocks: */
    sigset_t others;
};

static void *run_thread(void *arg)
{
    struct start start = *(struct start *)arg;

    free(arg);
    if (start.has_others)
        pthread_sigmask(SIG_UNBLOCK, &start.others, NULL);
    if (start.image && !image_thread_begin(start.image))
        base_fatal(1, "out of memory: cannot start a thread of the program");
    return start.function ? start.function(start.arg) : (void *)(intptr_t)start.c11_function(start.arg);
}

static create_fn real_create(void)
{
    static _Atomic(create_fn) found;
    create_fn real = atomic_load_explicit(&found, memory_order_relaxed);

    if (!real) {
        real = (create_fn)image_precedence_next("pthread_create");
        if (!real)
            base_fatal(1, "the C library has no pthread_create; is this glibc?");
        atomic_store_explicit(&found, real, memory_order_relaxed);
    }
    return real;
}

static bool has_mask(const pthread_attr_t *attr)
{
    sigset_t mask;

    return attr && pthread_attr_getsigmask_np(attr, &mask) == 0;
}

/* Starts *wanted, copied into memory of its own. Returns an error number. */
static int start_thread(pthread_t *thread, const pthread_attr_t *attr, const struct start *wanted)
{
    struct start *start = malloc(sizeof *start);
    sigset_t own;
    int error;

    if (!start)
        return EAGAIN;
    *start = *wanted;
    start->has_others =
        start->image && !has_mask(attr) && image_libc_room.mask_of_others(&own, &start->others);
    if (start->image && image_rebind_client.thread_begins)
        image_rebind_client.thread_begins();
    if (start->image)
        image_thread_count(start->image, 1);
    error = real_create()(thread, attr, run_thread, start);
    if (error && start->image)
        image_thread_count(start->image, -1);
    if (error)
        free(start);
    return error;
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*function)(void *), void *arg)
{
    struct image *image = image_thread_heir(__builtin_return_address(0));

    if (!image) {
        if (image_rebind_client.thread_begins && !image_thread_serves_all(__builtin_return_address(0)))
            image_rebind_client.thread_begins();
        return real_create()(thread, attr, function, arg);
    }
    return start_thread(thread, attr, &(struct start){.image = image, .function = function, .arg = arg});
}

EXPORT int thrd_create(thrd_t *thread, thrd_start_t function, void *arg)
{
    struct image *image = image_thread_heir(__builtin_return_address(0));
    int error;

    if (!image && image_rebind_client.thread_begins && !image_thread_serves_all(__builtin_return_address(0)))
        image_rebind_client.thread_begins();
    error = start_thread(thread, NULL, &(struct start){.image = image, .c11_function = function, .arg = arg});
    return error == 0 ? thrd_success : error == EAGAIN || error == ENOMEM ? thrd_nomem : thrd_error;
}

/* For std::thread::join, which is the C++ library's and calls pthread_join: other ranks run meanwhile. Libraries that serve all
 * ranks may hold locks that other ranks need. */
EXPORT int pthread_join(pthread_t thread, void **value_out)
{
    const void *caller = __builtin_return_address(0);

    return image_thread_serves_all(caller) ? image_libc_room.join_blocking(thread, value_out)
                                           : image_libc_room.join(thread, value_out, caller);
}

/* ---- Threads of the C library ---- */

static void *real_function(const char *name)
{
    void *real = dlsym(RTLD_NEXT, name);

    if (!real)
        base_fatal(1, "the C library has no %s; is this glibc?", name);
    return real;
}

EXPORT int timer_create(clockid_t clock, struct sigevent *event, timer_t *timer)
{
    int (*real)(clockid_t, struct sigevent *, timer_t *);

    *(void **)&real = real_function("timer_create");
    image_threads_expect(event, __builtin_return_address(0));
    return real(clock, event, timer);
}

EXPORT int mq_notify(mqd_t queue, const struct sigevent *event)
{
    int (*real)(mqd_t, const struct sigevent *);

    *(void **)&real = real_function("mq_notify");
    image_threads_expect(event, __builtin_return_address(0));
    return real(queue, event);
}
