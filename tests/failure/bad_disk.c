/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bad_disk.c: a library to preload that makes the disk bad, as the environment variable BAD_DISK says:
 *
 *      short     reads and writes move half of their bytes, and every third one is interrupted
 *      nolocks   the file system has no locks
 *      nosync    fsync fails with EIO
 *      timer     a signal interrupts system calls every millisecond
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

static bool is_bad(const char *how)
{
    const char *value = getenv("BAD_DISK");

    return value && strcmp(value, how) == 0;
}

static void nothing(int number)
{
    (void)number;
}

__attribute__((constructor)) static void begin(void)
{
    struct sigaction action = {.sa_handler = nothing}; /* without SA_RESTART */
    struct itimerval often = {{0, 1000}, {0, 1000}};

    if (!is_bad("timer"))
        return;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

static ssize_t move(long number, int fd, const struct iovec *iov, int n, off_t at, int flags)
{
    static _Atomic unsigned n_calls;
    struct iovec half;

    if (is_bad("short")) {
        if (n_calls++ % 3 == 0) {
            errno = EINTR;
            return -1;
        }
        half = (struct iovec){iov->iov_base, (iov->iov_len + 1) / 2};
        n = (n + 1) / 2;
        iov = n == 1 ? &half : iov;
    }
    return syscall(number, fd, iov, n, at, 0, flags);
}

ssize_t preadv(int fd, const struct iovec *iov, int n, off_t at)
{
    return move(SYS_preadv, fd, iov, n, at, 0);
}

ssize_t pwritev(int fd, const struct iovec *iov, int n, off_t at)
{
    return move(SYS_pwritev, fd, iov, n, at, 0);
}

ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
    return move(SYS_preadv2, fd, iov, n, at, flags);
}

int fsync(int fd)
{
    if (!is_bad("nosync"))
        return (int)syscall(SYS_fsync, fd);
    errno = EIO;
    return -1;
}

int fcntl(int fd, int command, ...)
{
    va_list args;
    void *arg;

    va_start(args, command);
    arg = va_arg(args, void *);
    va_end(args);
    if (is_bad("nolocks") && (command == F_OFD_GETLK || command == F_OFD_SETLK || command == F_OFD_SETLKW)) {
        errno = ENOLCK;
        return -1;
    }
    return (int)syscall(SYS_fcntl, fd, command, arg);
}
