/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bad_disk.c: a library to preload that makes the disk bad, as the environment variable BAD_DISK says:
 *
 *      short     reads and writes move half of their bytes, and every third call is interrupted
 *      nolocks   the file system has no locks
 *      nosync    fsync fails with EIO
 *      none      nothing; calls of fsync are counted
 *      timer     a signal interrupts system calls every millisecond
 *      slow      calls that concern a file heddle_io_... do not return before files.c opens a gate
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
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

/* True for every third call; it fails with EINTR. */
static bool is_interrupted(void)
{
    static _Atomic unsigned n_calls;

    if (!is_bad("short") || n_calls++ % 3)
        return false;
    errno = EINTR;
    return true;
}

/* True if it is a file of io_random.c. */
static bool is_tested(int fd)
{
    char path[32], name[300] = "";

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return readlink(path, name, sizeof name - 1) > 0 && strstr(name, "/heddle_io_");
}

_Atomic int bad_disk_is_open;    /* the gate; set by files.c */
_Atomic int bad_disk_is_waiting; /* a call waits at the gate; read by files.c */

static void pass_gate(int fd)
{
    if (!is_bad("slow") || !is_tested(fd))
        return;
    while (!bad_disk_is_open) {
        bad_disk_is_waiting = 1;
        usleep(100);
    }
}

static ssize_t move(long number, int fd, const struct iovec *iov, int n, off_t at, int flags)
{
    struct iovec half;

    pass_gate(fd);
    if (is_interrupted())
        return -1;
    if (is_bad("short")) {
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

_Atomic int bad_disk_syncs; /* read by files.c */

int fsync(int fd)
{
    bad_disk_syncs++;
    pass_gate(fd);
    if (is_bad("nosync"))
        errno = EIO;
    else if (!is_interrupted())
        return (int)syscall(SYS_fsync, fd);
    return -1;
}

int ftruncate(int fd, off_t size)
{
    pass_gate(fd);
    return is_tested(fd) && is_interrupted() ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

int posix_fallocate(int fd, off_t from, off_t n_bytes)
{
    pass_gate(fd);
    return is_tested(fd) && is_interrupted()              ? EINTR
           : syscall(SYS_fallocate, fd, 0, from, n_bytes) ? errno
                                                          : 0;
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
    if (command == F_OFD_SETLK && is_interrupted())
        return -1;
    return (int)syscall(SYS_fcntl, fd, command, arg);
}
