/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_io.c: lets other ranks run while a call waits for a pipe, a terminal or a socket.
 *
 * The other end may be a rank of the same PE. So the descriptor is polled until it is ready; then libc's
 * function is called, which returns at once. Files on disk are always ready.
 */
#include "image/libc/rebind.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000
#define NS_PER_MS 1000000

/* ---- One descriptor ---- */

static bool is_ready(int fd, short events)
{
    struct pollfd one = {.fd = fd, .events = events};

    return poll(&one, 1, 0) != 0; /* also true if the call will fail at once */
}

/* True if libc's function returns by itself: on a nonblocking descriptor, or a socket with a timeout. */
static bool has_limit(int fd, int option)
{
    struct timeval limit = {0};
    socklen_t len = sizeof limit;

    return (fcntl(fd, F_GETFL) & O_NONBLOCK) ||
           (getsockopt(fd, SOL_SOCKET, option, &limit, &len) == 0 && (limit.tv_sec || limit.tv_usec));
}

static void wait_until_ready(int fd, short events, const char *call)
{
    struct image_wait wait = {.call = call, .fd = fd};

    if (!image_is_on_rank())
        return;
    image_cancel_point();
    if (is_ready(fd, events) || !image_can_wait() ||
        has_limit(fd, events == POLLIN ? SO_RCVTIMEO : SO_SNDTIMEO))
        return;
    do {
        image_wait_pause(&wait);
        image_cancel_point();
    } while (!is_ready(fd, events));
}

ssize_t image_libc_read(int fd, void *buffer, size_t size_bytes)
{
    wait_until_ready(fd, POLLIN, "read");
    return read(fd, buffer, size_bytes);
}

ssize_t image_libc_readv(int fd, const struct iovec *parts, int n_parts)
{
    wait_until_ready(fd, POLLIN, "readv");
    return readv(fd, parts, n_parts);
}

ssize_t image_libc_recvfrom(int fd, void *buffer, size_t size_bytes, int flags, struct sockaddr *address,
                            socklen_t *address_len)
{
    if (!(flags & MSG_DONTWAIT))
        wait_until_ready(fd, POLLIN, "recv");
    return recvfrom(fd, buffer, size_bytes, flags, address, address_len);
}

ssize_t image_libc_recv(int fd, void *buffer, size_t size_bytes, int flags)
{
    return image_libc_recvfrom(fd, buffer, size_bytes, flags, NULL, NULL);
}

ssize_t image_libc_recvmsg(int fd, struct msghdr *message, int flags)
{
    if (!(flags & MSG_DONTWAIT))
        wait_until_ready(fd, POLLIN, "recvmsg");
    return recvmsg(fd, message, flags);
}

int image_libc_accept4(int fd, struct sockaddr *address, socklen_t *address_len, int flags)
{
    wait_until_ready(fd, POLLIN, "accept");
    return accept4(fd, address, address_len, flags);
}

int image_libc_accept(int fd, struct sockaddr *address, socklen_t *address_len)
{
    return image_libc_accept4(fd, address, address_len, 0);
}

/* A ready pipe is only guaranteed to take PIPE_BUF bytes without blocking. */
static ssize_t write_to_pipe(int fd, const char *bytes, size_t size_bytes)
{
    size_t done = 0;

    do {
        size_t part = size_bytes - done < PIPE_BUF ? size_bytes - done : PIPE_BUF;
        ssize_t written;

        wait_until_ready(fd, POLLOUT, "write");
        written = write(fd, bytes + done, part);
        if (written < 0)
            return done > 0 ? (ssize_t)done : -1;
        done += (size_t)written;
    } while (done < size_bytes);
    return (ssize_t)done;
}

/* With MSG_DONTWAIT a socket takes as many bytes as fit. */
static ssize_t write_to_socket(int fd, const char *bytes, size_t size_bytes)
{
    size_t done = 0;

    do {
        ssize_t written;

        wait_until_ready(fd, POLLOUT, "write");
        written = send(fd, bytes + done, size_bytes - done, MSG_DONTWAIT);
        if (written < 0 && errno == EAGAIN)
            continue;
        if (written < 0)
            return done > 0 ? (ssize_t)done : -1;
        done += (size_t)written;
    } while (done < size_bytes);
    return (ssize_t)done;
}

ssize_t image_libc_write(int fd, const void *bytes, size_t size_bytes)
{
    struct stat file;

    if (!image_is_on_rank() || fstat(fd, &file) != 0 || !(S_ISFIFO(file.st_mode) || S_ISSOCK(file.st_mode)) ||
        !image_can_wait() || has_limit(fd, SO_SNDTIMEO))
        return write(fd, bytes, size_bytes);
    return S_ISFIFO(file.st_mode) ? write_to_pipe(fd, bytes, size_bytes)
                                  : write_to_socket(fd, bytes, size_bytes);
}

/* ---- Many descriptors ---- */

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Pauses until the limit at most, which may be NULL. Returns false if the time is over. */
static bool pause_until(struct image_wait *wait, const uint64_t *end_ns)
{
    uint64_t now = end_ns ? now_ns() : 0;

    image_cancel_point();
    if (end_ns && now >= *end_ns)
        return false;
    wait->limit_ns = end_ns ? *end_ns - now : 0;
    image_wait_pause(wait);
    return true;
}

int image_libc_poll(struct pollfd *fds, nfds_t nfds, int timeout_ms)
{
    struct image_wait wait = {0};
    uint64_t end_ns;
    int n;

    if (timeout_ms == 0 || !image_can_wait())
        return poll(fds, nfds, timeout_ms);
    if (nfds == 0 && timeout_ms > 0) {
        image_cancel_point();
        image_rebind_client.sleep_ns((uint64_t)timeout_ms * NS_PER_MS);
        return 0;
    }
    end_ns = now_ns() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * NS_PER_MS;
    while ((n = poll(fds, nfds, 0)) == 0)
        if (!pause_until(&wait, timeout_ms < 0 ? NULL : &end_ns))
            break;
    return n;
}

int image_libc_epoll_wait(int epoll_fd, struct epoll_event *events, int max_events, int timeout_ms)
{
    struct image_wait wait = {0};
    uint64_t end_ns = now_ns() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * NS_PER_MS;
    int n;

    if (timeout_ms == 0 || !image_can_wait())
        return epoll_wait(epoll_fd, events, max_events, timeout_ms);
    while ((n = epoll_wait(epoll_fd, events, max_events, 0)) == 0)
        if (!pause_until(&wait, timeout_ms < 0 ? NULL : &end_ns))
            break;
    return n;
}

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
static int select_now(int nfds, struct sets *asked, fd_set *readable, fd_set *writable, fd_set *exceptional)
{
    struct timeval none = {0};

    copy_set(readable, &asked->readable);
    copy_set(writable, &asked->writable);
    copy_set(exceptional, &asked->exceptional);
    return select(nfds, readable, writable, exceptional, &none);
}

int image_libc_select(int nfds, fd_set *readable, fd_set *writable, fd_set *exceptional,
                      struct timeval *timeout)
{
    struct image_wait wait = {0};
    struct sets asked;
    uint64_t end_ns;
    int n;

    if (!image_can_wait() || (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0 ||
                                          (timeout->tv_sec == 0 && timeout->tv_usec == 0))))
        return select(nfds, readable, writable, exceptional, timeout);
    copy_set(&asked.readable, readable);
    copy_set(&asked.writable, writable);
    copy_set(&asked.exceptional, exceptional);
    end_ns =
        timeout ? now_ns() + (uint64_t)timeout->tv_sec * NS_PER_S + (uint64_t)timeout->tv_usec * 1000 : 0;
    while ((n = select_now(nfds, &asked, readable, writable, exceptional)) == 0)
        if (!pause_until(&wait, timeout ? &end_ns : NULL))
            break;
    if (timeout) { /* as Linux does */
        uint64_t now = now_ns(), left_ns = now < end_ns ? end_ns - now : 0;

        timeout->tv_sec = (time_t)(left_ns / NS_PER_S);
        timeout->tv_usec = (suseconds_t)(left_ns % NS_PER_S / 1000);
    }
    return n;
}
