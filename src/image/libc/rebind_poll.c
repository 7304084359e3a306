/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_poll.c: lets other ranks run while a call waits for one of several descriptors.
 *
 * The descriptors are polled without waiting, with pauses in between. A signal mask of the caller's is the rank's meanwhile
 * (rebind_sigmask.c).
 */
#include "image/libc/rebind.h"

#include <time.h>
#include <sys/epoll.h>

#define NS_PER_S 1000000000
#define NS_PER_MS 1000000

static const struct timespec no_time = {0, 0};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* A limit of the caller's as a time of the monotonic clock. */
struct limit {
    bool is_none; /* wait for ever */
    uint64_t end_ns;
};

static struct limit after_ms(int timeout_ms)
{
    return (struct limit){timeout_ms < 0, now_ns() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * NS_PER_MS};
}

static struct limit after(const struct timespec *timeout)
{
    return (struct limit){
        !timeout, timeout ? now_ns() + (uint64_t)timeout->tv_sec * NS_PER_S + (uint64_t)timeout->tv_nsec : 0};
}

/* Pauses until the limit at most. Returns 1: go on, or the call's result: 0 if the time is over, -1 after a handler. */
static int pause_until(struct image_wait *wait, const struct limit *limit, const struct image_mask *changed)
{
    uint64_t now = limit->is_none ? 0 : now_ns();

    image_cancel_point();
    image_mask_poll(changed);
    if (image_wait_is_interrupted(wait, false))
        return -1;
    if (!limit->is_none && now >= limit->end_ns)
        return 0;
    wait->limit_ns = limit->is_none ? 0 : limit->end_ns - now;
    image_wait_pause(wait);
    return 1;
}

/* True if the call has to wait by itself, because the caller is no rank, or need not wait at all, or fails. */
static bool is_left_to_libc(const struct timespec *timeout, const sigset_t *mask)
{
    return !image_can_poll() ||
           (timeout && (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= NS_PER_S ||
                        (timeout->tv_sec == 0 && timeout->tv_nsec == 0 && !mask)));
}

/* ---- poll ---- */

static int image_libc_ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout,
                            const sigset_t *mask)
{
    struct image_wait wait = {0};
    struct image_mask changed;
    struct limit limit;
    int n;

    if (is_left_to_libc(timeout, mask))
        return ppoll(fds, nfds, timeout, mask);
    limit = after(timeout);
    image_mask_begin(&changed, mask, &wait);
    do
        n = poll(fds, nfds, 0);
    while (n == 0 && (n = pause_until(&wait, &limit, &changed)) > 0);
    image_mask_end(&changed);
    return n;
}
IMAGE_REBINDS(image_libc_ppoll, "ppoll");

static int image_libc_poll(struct pollfd *fds, nfds_t nfds, int timeout_ms)
{
    struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * (long)NS_PER_MS};

    if (timeout_ms == 0 || !image_can_poll())
        return poll(fds, nfds, timeout_ms);
    if (nfds == 0 && timeout_ms > 0)
        return image_libc_nanosleep(&timeout, NULL);
    return image_libc_ppoll(fds, nfds, timeout_ms < 0 ? NULL : &timeout, NULL);
}
IMAGE_REBINDS(image_libc_poll, "poll", "__poll");

static int image_libc_poll_chk(struct pollfd *fds, nfds_t nfds, int timeout_ms, size_t fds_bytes)
{
    if (fds_bytes / sizeof *fds < nfds)
        __chk_fail();
    return image_libc_poll(fds, nfds, timeout_ms);
}
IMAGE_REBINDS(image_libc_poll_chk, "__poll_chk");

static int image_libc_ppoll_chk(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout,
                                const sigset_t *mask, size_t fds_bytes)
{
    if (fds_bytes / sizeof *fds < nfds)
        __chk_fail();
    return image_libc_ppoll(fds, nfds, timeout, mask);
}
IMAGE_REBINDS(image_libc_ppoll_chk, "__ppoll_chk");

/* ---- epoll ---- */

static int wait_for_epoll(int epoll_fd, struct epoll_event *events, int max_events, const struct limit *limit,
                          const sigset_t *mask)
{
    struct image_wait wait = {0};
    struct image_mask changed;
    int n;

    image_mask_begin(&changed, mask, &wait);
    do
        n = epoll_wait(epoll_fd, events, max_events, 0);
    while (n == 0 && (n = pause_until(&wait, limit, &changed)) > 0);
    image_mask_end(&changed);
    return n;
}

static int image_libc_epoll_pwait(int epoll_fd, struct epoll_event *events, int max_events, int timeout_ms,
                                  const sigset_t *mask)
{
    struct limit limit = after_ms(timeout_ms);

    if ((timeout_ms == 0 && !mask) || !image_can_poll())
        return epoll_pwait(epoll_fd, events, max_events, timeout_ms, mask);
    return wait_for_epoll(epoll_fd, events, max_events, &limit, mask);
}
IMAGE_REBINDS(image_libc_epoll_pwait, "epoll_pwait");

static int image_libc_epoll_wait(int epoll_fd, struct epoll_event *events, int max_events, int timeout_ms)
{
    return image_libc_epoll_pwait(epoll_fd, events, max_events, timeout_ms, NULL);
}
IMAGE_REBINDS(image_libc_epoll_wait, "epoll_wait");

#if __GLIBC_PREREQ(2, 35)
static int image_libc_epoll_pwait2(int epoll_fd, struct epoll_event *events, int max_events,
                                   const struct timespec *timeout, const sigset_t *mask)
{
    struct limit limit;

    if (is_left_to_libc(timeout, mask))
        return epoll_pwait2(epoll_fd, events, max_events, timeout, mask);
    limit = after(timeout);
    return wait_for_epoll(epoll_fd, events, max_events, &limit, mask);
}
IMAGE_REBINDS(image_libc_epoll_pwait2, "epoll_pwait2");
#endif

/* ---- select ---- */

/* The descriptor sets of a select: requested ones and results. */
struct sets {
    fd_set readable, writable, exceptional;
};

static void copy_set(fd_set *to, const fd_set *from)
{
    if (to && from)
        *to = *from;
}

/* One poll without waiting: the sets hold the request before and, if the result is not 0, the answer
 * afterwards. */
static int select_now(int nfds, const struct sets *asked, fd_set *readable, fd_set *writable,
                      fd_set *exceptional)
{
    copy_set(readable, &asked->readable);
    copy_set(writable, &asked->writable);
    copy_set(exceptional, &asked->exceptional);
    return pselect(nfds, readable, writable, exceptional, &no_time, NULL);
}

static int image_libc_pselect(int nfds, fd_set *readable, fd_set *writable, fd_set *exceptional,
                              const struct timespec *timeout, const sigset_t *mask)
{
    struct image_wait wait = {0};
    struct image_mask changed;
    struct sets asked;
    struct limit limit;
    int n;

    if (is_left_to_libc(timeout, mask))
        return pselect(nfds, readable, writable, exceptional, timeout, mask);
    copy_set(&asked.readable, readable);
    copy_set(&asked.writable, writable);
    copy_set(&asked.exceptional, exceptional);
    limit = after(timeout);
    image_mask_begin(&changed, mask, &wait);
    do
        n = select_now(nfds, &asked, readable, writable, exceptional);
    while (n == 0 && (n = pause_until(&wait, &limit, &changed)) > 0);
    image_mask_end(&changed);
    return n;
}
IMAGE_REBINDS(image_libc_pselect, "pselect");

static int image_libc_select(int nfds, fd_set *readable, fd_set *writable, fd_set *exceptional,
                             struct timeval *timeout)
{
    struct timespec limit = {0};
    uint64_t end_ns, now;
    int n;

    if (timeout)
        limit = (struct timespec){timeout->tv_sec + timeout->tv_usec / 1000000,
                                  timeout->tv_usec % 1000000 * 1000};
    if (is_left_to_libc(timeout ? &limit : NULL, NULL))
        return select(nfds, readable, writable, exceptional, timeout);
    end_ns = now_ns() + (uint64_t)limit.tv_sec * NS_PER_S + (uint64_t)limit.tv_nsec;
    n = image_libc_pselect(nfds, readable, writable, exceptional, timeout ? &limit : NULL, NULL);
    now = now_ns();
    if (timeout) { /* as Linux does */
        uint64_t left_ns = now < end_ns ? end_ns - now : 0;

        timeout->tv_sec = (time_t)(left_ns / NS_PER_S);
        timeout->tv_usec = (suseconds_t)(left_ns % NS_PER_S / 1000);
    }
    return n;
}
IMAGE_REBINDS(image_libc_select, "select", "__select");
