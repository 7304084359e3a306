/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_io.c: lets other ranks run while a call waits for a pipe, a terminal or a socket (several: rebind_poll.c).
 *
 * The other end may be a rank of the same PE. So the descriptor is polled until it is ready; then libc's
 * function is called, which returns at once. Files on disk are always ready.
 */
#include "image/libc/rebind.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- Waiting ---- */

static bool is_ready(int fd, short events)
{
    struct pollfd one = {.fd = fd, .events = events};

    return poll(&one, 1, 0) != 0; /* also true if the call will fail at once */
}

bool image_has_limit(int fd, int option)
{
    struct timeval limit = {0};
    socklen_t len = sizeof limit;

    return (fcntl(fd, F_GETFL) & O_NONBLOCK) ||
           (getsockopt(fd, SOL_SOCKET, option, &limit, &len) == 0 && (limit.tv_sec || limit.tv_usec));
}

bool image_wait_until_ready(int fd, short events, const char *call)
{
    struct image_wait wait = {.call = call, .fd = fd};

    if (!image_is_on_rank())
        return true;
    image_cancel_point();
    if (is_ready(fd, events) || !image_can_wait() ||
        image_has_limit(fd, events == POLLIN ? SO_RCVTIMEO : SO_SNDTIMEO))
        return true;
    do {
        image_wait_pause(&wait);
        image_cancel_point();
    } while (!is_ready(fd, events) && !image_wait_is_interrupted(&wait, true));
    return is_ready(fd, events) || !image_wait_is_interrupted(&wait, true);
}

/* ---- Reading ---- */

static ssize_t image_libc_read(int fd, void *buffer, size_t size_bytes)
{
    return image_wait_until_ready(fd, POLLIN, "read") ? read(fd, buffer, size_bytes) : -1;
}
IMAGE_REBINDS(image_libc_read, "read", "__read");

static ssize_t image_libc_read_chk(int fd, void *buffer, size_t size_bytes, size_t buffer_bytes)
{
    if (size_bytes > buffer_bytes)
        __chk_fail();
    return image_libc_read(fd, buffer, size_bytes);
}
IMAGE_REBINDS(image_libc_read_chk, "__read_chk");

static int image_libc_eventfd_read(int fd, eventfd_t *value_out)
{
    return image_libc_read(fd, value_out, sizeof *value_out) == sizeof *value_out ? 0 : -1;
}
IMAGE_REBINDS(image_libc_eventfd_read, "eventfd_read");

static ssize_t image_libc_readv(int fd, const struct iovec *parts, int n_parts)
{
    return image_wait_until_ready(fd, POLLIN, "readv") ? readv(fd, parts, n_parts) : -1;
}
IMAGE_REBINDS(image_libc_readv, "readv");

/* Flags with which the C library's function returns at once. */
enum { NEVER_WAITS = MSG_DONTWAIT | MSG_ERRQUEUE };

/* MSG_WAITALL: until the buffer is full, the stream ends, or an error. */
static ssize_t receive_all(int fd, char *buffer, size_t size_bytes, int flags, struct sockaddr *address,
                           socklen_t *address_len)
{
    size_t done = 0;
    ssize_t part;
    int type = SOCK_STREAM;
    socklen_t len = sizeof type;

    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len);
    do {
        part = image_wait_until_ready(fd, POLLIN, "recv")
                   ? recvfrom(fd, buffer + done, size_bytes - done, flags, address, address_len)
                   : -1;
        done += part > 0 ? (size_t)part : 0;
    } while (part > 0 && done < size_bytes && type == SOCK_STREAM);
    return done > 0 ? (ssize_t)done : part;
}

static ssize_t image_libc_recvfrom(int fd, void *buffer, size_t size_bytes, int flags,
                                   struct sockaddr *address, socklen_t *address_len)
{
    if ((flags & (MSG_WAITALL | MSG_PEEK | NEVER_WAITS)) == MSG_WAITALL && image_can_wait())
        return receive_all(fd, buffer, size_bytes, flags & ~MSG_WAITALL, address, address_len);
    if (!(flags & NEVER_WAITS) && !image_wait_until_ready(fd, POLLIN, "recv"))
        return -1;
    return recvfrom(fd, buffer, size_bytes, flags, address, address_len);
}
IMAGE_REBINDS(image_libc_recvfrom, "recvfrom");

static ssize_t image_libc_recv(int fd, void *buffer, size_t size_bytes, int flags)
{
    return image_libc_recvfrom(fd, buffer, size_bytes, flags, NULL, NULL);
}
IMAGE_REBINDS(image_libc_recv, "recv");

static ssize_t image_libc_recv_chk(int fd, void *buffer, size_t size_bytes, size_t buffer_bytes, int flags)
{
    if (size_bytes > buffer_bytes)
        __chk_fail();
    return image_libc_recv(fd, buffer, size_bytes, flags);
}
IMAGE_REBINDS(image_libc_recv_chk, "__recv_chk");

static ssize_t image_libc_recvfrom_chk(int fd, void *buffer, size_t size_bytes, size_t buffer_bytes,
                                       int flags, struct sockaddr *address, socklen_t *address_len)
{
    if (size_bytes > buffer_bytes)
        __chk_fail();
    return image_libc_recvfrom(fd, buffer, size_bytes, flags, address, address_len);
}
IMAGE_REBINDS(image_libc_recvfrom_chk, "__recvfrom_chk");

static ssize_t image_libc_recvmsg(int fd, struct msghdr *message, int flags)
{
    if (!(flags & NEVER_WAITS) && !image_wait_until_ready(fd, POLLIN, "recvmsg"))
        return -1;
    return recvmsg(fd, message, flags);
}
IMAGE_REBINDS(image_libc_recvmsg, "recvmsg");

/* With a time limit the thread waits: the C library checks it after each message only. */
static int image_libc_recvmmsg(int fd, struct mmsghdr *messages, unsigned n_messages, int flags,
                               struct timespec *timeout)
{
    unsigned n = 0;

    if ((flags & NEVER_WAITS) || timeout || !image_can_wait())
        return recvmmsg(fd, messages, n_messages, flags, timeout);
    for (; n < n_messages; n++) {
        ssize_t received = image_libc_recvmsg(fd, &messages[n].msg_hdr, flags & ~MSG_WAITFORONE);

        if (received < 0)
            break;
        messages[n].msg_len = (unsigned)received;
        if (flags & MSG_WAITFORONE)
            flags |= MSG_DONTWAIT;
    }
    return n > 0 || n_messages == 0 ? (int)n : -1;
}
IMAGE_REBINDS(image_libc_recvmmsg, "recvmmsg");

static int image_libc_accept4(int fd, struct sockaddr *address, socklen_t *address_len, int flags)
{
    return image_wait_until_ready(fd, POLLIN, "accept") ? accept4(fd, address, address_len, flags) : -1;
}
IMAGE_REBINDS(image_libc_accept4, "accept4");

static int image_libc_accept(int fd, struct sockaddr *address, socklen_t *address_len)
{
    return image_libc_accept4(fd, address, address_len, 0);
}
IMAGE_REBINDS(image_libc_accept, "accept");

/* ---- Writing ---- */

/* A ready pipe is only guaranteed to take PIPE_BUF bytes without blocking. */
static ssize_t write_to_pipe(int fd, const char *bytes, size_t size_bytes)
{
    size_t done = 0;

    do {
        size_t part = size_bytes - done < PIPE_BUF ? size_bytes - done : PIPE_BUF;
        ssize_t written;

        written = image_wait_until_ready(fd, POLLOUT, "write") ? write(fd, bytes + done, part) : -1;
        if (written < 0)
            return done > 0 ? (ssize_t)done : -1;
        done += (size_t)written;
    } while (done < size_bytes);
    return (ssize_t)done;
}

/* A stream may take a part of the message: with MSG_DONTWAIT as many bytes as fit. */
static ssize_t send_when_ready(int fd, const struct msghdr *message, int flags)
{
    struct image_wait wait = {.call = "send", .fd = fd};

    for (;;) {
        ssize_t sent;

        if (!image_wait_until_ready(fd, POLLOUT, "send"))
            return -1;
        sent = sendmsg(fd, message, flags | MSG_DONTWAIT);
        if (sent >= 0 || errno != EAGAIN)
            return sent;
        image_wait_pause(&wait); /* the receiver of a datagram has no room; poll does not know the receiver */
    }
}

static ssize_t write_to_socket(int fd, const char *bytes, size_t size_bytes, int flags)
{
    size_t done = 0;

    do {
        struct iovec part = {.iov_base = (void *)(bytes + done), .iov_len = size_bytes - done};
        ssize_t written = send_when_ready(fd, &(struct msghdr){.msg_iov = &part, .msg_iovlen = 1}, flags);

        if (written < 0)
            return done > 0 ? (ssize_t)done : -1;
        done += (size_t)written;
    } while (done < size_bytes);
    return (ssize_t)done;
}

/* S_IFIFO or S_IFSOCK if a rank has to wait here for room in a pipe or a socket, else 0. */
static mode_t kind_to_wait_for(int fd)
{
    struct stat file;

    if (!image_is_on_rank() || fstat(fd, &file) != 0 || !(S_ISFIFO(file.st_mode) || S_ISSOCK(file.st_mode)) ||
        !image_can_wait() || image_has_limit(fd, SO_SNDTIMEO))
        return 0;
    return file.st_mode & S_IFMT;
}

const struct image_output *image_output;

static int image_libc_fileno(FILE *stream)
{
    int number = image_output ? image_output->number(stream) : -1;

    return number >= 0 ? number : fileno(stream);
}
/* Streams of --tag-output stand for descriptors 1 and 2. */
IMAGE_REBINDS(image_libc_fileno, "fileno", "fileno_unlocked");

static ssize_t image_libc_write(int fd, const void *bytes, size_t size_bytes)
{
    mode_t kind;
    ssize_t n_written;

    if (image_output && image_output->write(fd, bytes, size_bytes, &n_written))
        return n_written;
    kind = kind_to_wait_for(fd);
    return kind == S_IFIFO    ? write_to_pipe(fd, bytes, size_bytes)
           : kind == S_IFSOCK ? write_to_socket(fd, bytes, size_bytes, 0)
                              : write(fd, bytes, size_bytes);
}
IMAGE_REBINDS(image_libc_write, "write", "__write");

static int image_libc_eventfd_write(int fd, eventfd_t value)
{
    return image_wait_until_ready(fd, POLLOUT, "eventfd_write") ? eventfd_write(fd, value) : -1;
}
IMAGE_REBINDS(image_libc_eventfd_write, "eventfd_write");

static size_t total_of(const struct iovec *parts, size_t n_parts)
{
    size_t total = 0;

    for (size_t i = 0; i < n_parts; i++)
        total += parts[i].iov_len;
    return total;
}

/* Sends or writes the parts from byte `done` on; returns the bytes in all, or -1 if there are none. */
static ssize_t write_rest(int fd, const struct iovec *parts, size_t n_parts, size_t done, mode_t kind,
                          int flags)
{
    size_t skipped = done;

    for (size_t i = 0; i < n_parts; i++) {
        size_t from = skipped < parts[i].iov_len ? skipped : parts[i].iov_len, left = parts[i].iov_len - from;
        const char *bytes = (const char *)parts[i].iov_base + from;
        ssize_t written = 0;

        skipped -= from;
        if (left > 0)
            written =
                kind == S_IFIFO ? write_to_pipe(fd, bytes, left) : write_to_socket(fd, bytes, left, flags);
        if (written < 0)
            return done > 0 ? (ssize_t)done : -1;
        done += (size_t)written;
        if ((size_t)written < left)
            break;
    }
    return (ssize_t)done;
}

static ssize_t image_libc_sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t sent;

    if ((flags & MSG_DONTWAIT) || kind_to_wait_for(fd) != S_IFSOCK)
        return sendmsg(fd, message, flags);
    sent = send_when_ready(fd, message, flags);
    if (sent < 0 || (size_t)sent == total_of(message->msg_iov, message->msg_iovlen))
        return sent;
    return write_rest(fd, message->msg_iov, message->msg_iovlen, (size_t)sent, S_IFSOCK, flags);
}
IMAGE_REBINDS(image_libc_sendmsg, "sendmsg");

static ssize_t image_libc_sendto(int fd, const void *bytes, size_t size_bytes, int flags,
                                 const struct sockaddr *address, socklen_t address_len)
{
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = size_bytes};
    struct msghdr message = {
        .msg_name = (void *)address, .msg_namelen = address_len, .msg_iov = &part, .msg_iovlen = 1};

    return image_libc_sendmsg(fd, &message, flags);
}
IMAGE_REBINDS(image_libc_sendto, "sendto");

static ssize_t image_libc_send(int fd, const void *bytes, size_t size_bytes, int flags)
{
    return image_libc_sendto(fd, bytes, size_bytes, flags, NULL, 0);
}
IMAGE_REBINDS(image_libc_send, "send", "__send");

static int image_libc_sendmmsg(int fd, struct mmsghdr *messages, unsigned n_messages, int flags)
{
    unsigned n_sent = 0;

    if ((flags & MSG_DONTWAIT) || kind_to_wait_for(fd) != S_IFSOCK)
        return sendmmsg(fd, messages, n_messages, flags);
    for (; n_sent < n_messages; n_sent++) {
        ssize_t sent = image_libc_sendmsg(fd, &messages[n_sent].msg_hdr, flags);

        if (sent < 0)
            break;
        messages[n_sent].msg_len = (unsigned)sent;
    }
    return n_sent > 0 || n_messages == 0 ? (int)n_sent : -1;
}
IMAGE_REBINDS(image_libc_sendmmsg, "sendmmsg");

/* Up to PIPE_BUF bytes go into a pipe as a whole. */
static ssize_t image_libc_writev(int fd, const struct iovec *parts, int n_parts)
{
    mode_t kind = n_parts > 0 ? kind_to_wait_for(fd) : 0;

    if (kind == S_IFSOCK)
        return image_libc_sendmsg(
            fd, &(struct msghdr){.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)n_parts}, 0);
    if (kind == S_IFIFO && total_of(parts, (size_t)n_parts) > PIPE_BUF)
        return write_rest(fd, parts, (size_t)n_parts, 0, kind, 0);
    if (kind == S_IFIFO && !image_wait_until_ready(fd, POLLOUT, "writev"))
        return -1;
    return writev(fd, parts, n_parts);
}
IMAGE_REBINDS(image_libc_writev, "writev");
