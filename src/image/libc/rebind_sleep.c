/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_sleep.c: lets other ranks run during calls that sleep or yield the processor.
 *
 * On a thread that runs no rank these calls are libc's.
 */
#include "image/copy/instantiate.h"
#include "image/libc/rebind.h"

#include <errno.h>
#include <sched.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000
#define LOOK_NS 10000000 /* how often a sleeper looks whether it has to end */

/* A rank's main thread checks for cancellation where it may sleep. */
static bool can_sleep(void)
{
    if (!image_can_wait())
        return false;
    image_cancel_point();
    return true;
}

static bool is_valid(const struct timespec *t)
{
    return t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < NS_PER_S;
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t to_ns(const struct timespec *t)
{
    return (uint64_t)t->tv_sec > UINT64_MAX / NS_PER_S - 1
               ? UINT64_MAX
               : (uint64_t)t->tv_sec * NS_PER_S + (uint64_t)t->tv_nsec;
}

/* Returns the time that is left if a handler of the rank has run, else 0. Threads and handlers may end the wait. */
static uint64_t sleep_ns(uint64_t duration_ns)
{
    const struct image_libc *libc = image_libc_current();
    struct image_handled before = image_handled_now();
    uint64_t end_ns = now_ns() + duration_ns, now;

    if (!atomic_load(&libc->has_threads) && !atomic_load(&libc->has_handlers)) {
        image_rebind_client.sleep_ns(duration_ns);
        return 0;
    }
    while ((now = now_ns()) < end_ns && image_handled_now().n_handled == before.n_handled) {
        image_pause_ns(end_ns - now < LOOK_NS ? end_ns - now : LOOK_NS);
        image_cancel_point();
    }
    return now < end_ns ? end_ns - now : 0;
}

/* Returns an error number. */
static int sleep_for(uint64_t duration_ns, struct timespec *remaining)
{
    uint64_t left_ns = sleep_ns(duration_ns);

    if (left_ns && remaining)
        *remaining = (struct timespec){(time_t)(left_ns / NS_PER_S), (long)(left_ns % NS_PER_S)};
    return left_ns ? EINTR : 0;
}

static int fail(int error)
{
    if (error)
        errno = error;
    return error ? -1 : 0;
}

static unsigned image_libc_sleep(unsigned seconds)
{
    if (!can_sleep())
        return sleep(seconds);
    return (unsigned)((sleep_ns((uint64_t)seconds * NS_PER_S) + NS_PER_S / 2) / NS_PER_S);
}
IMAGE_REBINDS(image_libc_sleep, "sleep");

static int image_libc_usleep(useconds_t duration_us)
{
    return can_sleep() ? fail(sleep_for((uint64_t)duration_us * 1000, NULL)) : usleep(duration_us);
}
IMAGE_REBINDS(image_libc_usleep, "usleep");

int image_libc_nanosleep(const struct timespec *duration, struct timespec *remaining)
{
    if (!can_sleep())
        return nanosleep(duration, remaining);
    return fail(is_valid(duration) ? sleep_for(to_ns(duration), remaining) : EINVAL);
}
IMAGE_REBINDS(image_libc_nanosleep, "nanosleep", "__nanosleep");

static int image_libc_clock_nanosleep(clockid_t clock, int flags, const struct timespec *when,
                                      struct timespec *remaining)
{
    struct timespec now;

    if (!can_sleep() || !is_valid(when) ||
        (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME &&
         clock != CLOCK_TAI))
        return clock_nanosleep(clock, flags, when, remaining);
    if (!(flags & TIMER_ABSTIME))
        return sleep_for(to_ns(when), remaining);
    /* Repeated if the clock was set meanwhile. */
    for (;;) {
        clock_gettime(clock, &now);
        if (to_ns(&now) >= to_ns(when))
            return 0;
        if (sleep_ns(to_ns(when) - to_ns(&now)))
            return EINTR;
    }
}
IMAGE_REBINDS(image_libc_clock_nanosleep, "clock_nanosleep");

static int image_libc_thrd_sleep(const struct timespec *duration, struct timespec *remaining)
{
    if (!can_sleep())
        return thrd_sleep(duration, remaining);
    return image_libc_nanosleep(duration, remaining) == 0 ? 0 : errno == EINTR ? -1 : -2;
}
IMAGE_REBINDS(image_libc_thrd_sleep, "thrd_sleep");

/* The rank may yield to its own threads: they need the core. */
static int image_libc_sched_yield(void)
{
    struct image *image = image_rebind_client.current ? image_rebind_client.current() : NULL;
    struct image_libc *libc = image ? image_libc_of(image) : NULL;

    if (!libc || !image_rebind_client.yield || image_is_in_handler(libc))
        return sched_yield();
    image_pause_yield();
    return atomic_load_explicit(&libc->n_threads, memory_order_relaxed) > 0 ? sched_yield() : 0;
}
IMAGE_REBINDS(image_libc_sched_yield, "sched_yield", "__sched_yield", "pthread_yield");

static void image_libc_thrd_yield(void)
{
    image_libc_sched_yield();
}
IMAGE_REBINDS(image_libc_thrd_yield, "thrd_yield");
