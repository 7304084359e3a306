/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_sleep.c: lets other ranks run during calls that sleep or yield the processor.
 *
 * On a thread that runs no rank these calls are libc's.
 */
#include "image/libc/rebind.h"

#include <errno.h>
#include <sched.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000

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

static uint64_t to_ns(const struct timespec *t)
{
    return (uint64_t)t->tv_sec > UINT64_MAX / NS_PER_S - 1
               ? UINT64_MAX
               : (uint64_t)t->tv_sec * NS_PER_S + (uint64_t)t->tv_nsec;
}

unsigned image_libc_sleep(unsigned seconds)
{
    if (!can_sleep())
        return sleep(seconds);
    image_rebind_client.sleep_ns((uint64_t)seconds * NS_PER_S);
    return 0;
}

int image_libc_usleep(useconds_t duration_us)
{
    if (!can_sleep())
        return usleep(duration_us);
    image_rebind_client.sleep_ns((uint64_t)duration_us * 1000);
    return 0;
}

int image_libc_nanosleep(const struct timespec *duration, struct timespec *remaining)
{
    if (!can_sleep())
        return nanosleep(duration, remaining);
    if (!is_valid(duration)) {
        errno = EINVAL;
        return -1;
    }
    image_rebind_client.sleep_ns(to_ns(duration));
    return 0;
}

int image_libc_clock_nanosleep(clockid_t clock, int flags, const struct timespec *when,
                               struct timespec *remaining)
{
    struct timespec now;

    if (!can_sleep() || !is_valid(when) ||
        (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME &&
         clock != CLOCK_TAI))
        return clock_nanosleep(clock, flags, when, remaining);
    if (!(flags & TIMER_ABSTIME)) {
        image_rebind_client.sleep_ns(to_ns(when));
        return 0;
    }
    /* Repeated if the clock was set meanwhile. */
    for (;;) {
        clock_gettime(clock, &now);
        if (to_ns(&now) >= to_ns(when))
            return 0;
        image_rebind_client.sleep_ns(to_ns(when) - to_ns(&now));
    }
}

int image_libc_thrd_sleep(const struct timespec *duration, struct timespec *remaining)
{
    if (!can_sleep())
        return thrd_sleep(duration, remaining);
    return image_libc_nanosleep(duration, remaining) == 0 ? 0 : -2;
}

/* The rank may yield to its own threads: they need the core. */
int image_libc_sched_yield(void)
{
    if (!image_rebind_client.yield || !image_is_on_rank())
        return sched_yield();
    image_rebind_client.yield();
    return atomic_load_explicit(&image_libc_current()->n_threads, memory_order_relaxed) > 0 ? sched_yield()
                                                                                            : 0;
}

void image_libc_thrd_yield(void)
{
    image_libc_sched_yield();
}
