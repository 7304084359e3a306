/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_open.c: lets other ranks run while a call waits for the other end of a FIFO or of a connection, which may be a rank
 * of the same PE.
 *
 * Only a blocking open of a FIFO waits for its other end, so a thread of its own makes the call, and the rank waits for the
 * thread.
 */
#include "image/libc/rebind.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int __open_2(const char *path, int flags);
int __openat_2(int folder, const char *path, int flags);

/* ---- A call on a thread of its own ---- */

struct offload {
    void (*run)(struct offload *offload);
    int folder, flags, result; /* of openat */
    mode_t mode;
    const char *path, *stream_mode;
    FILE *stream; /* of fopen and freopen */
    int error;    /* errno of the call */
    _Atomic bool is_done;
};

static void *run_offload(void *arg)
{
    struct offload *offload = arg;

    errno = 0;
    offload->run(offload);
    offload->error = errno;
    atomic_store_explicit(&offload->is_done, true, memory_order_release);
    return NULL;
}

/* Runs it, on the caller's thread if there is no other. */
static void run_and_wait(struct offload *offload)
{
    struct image_wait wait = {0};
    sigset_t all, before;
    pthread_t thread;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, NULL, run_offload, offload);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        offload->run(offload);
        return;
    }
    while (!atomic_load_explicit(&offload->is_done, memory_order_acquire))
        image_wait_pause(&wait);
    pthread_join(thread, NULL);
    errno = offload->error;
}

/* ---- open ---- */

static void open_offload(struct offload *offload)
{
    offload->result = openat(offload->folder, offload->path, offload->flags, offload->mode);
}

static bool is_fifo(int folder, const char *path)
{
    int error = errno;
    struct stat file;
    bool is_one = image_can_wait() && fstatat(folder, path, &file, 0) == 0 && S_ISFIFO(file.st_mode);

    errno = error;
    return is_one;
}

static int open_file(int folder, const char *path, int flags, mode_t mode)
{
    struct offload offload = {
        .run = open_offload, .folder = folder, .path = path, .flags = flags, .mode = mode};

    image_cancel_point();
    if ((flags & (O_NONBLOCK | O_PATH)) || (flags & O_ACCMODE) == O_RDWR || !is_fifo(folder, path))
        return openat(folder, path, flags, mode);
    run_and_wait(&offload);
    return offload.result;
}

/* The third argument of open exists with these flags only. */
static bool has_mode(int flags)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

static int image_libc_open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list args;

    va_start(args, flags);
    if (has_mode(flags))
        mode = va_arg(args, mode_t);
    va_end(args);
    return open_file(AT_FDCWD, path, flags, mode);
}
IMAGE_REBINDS(image_libc_open, "open", "open64", "__open", "__open64");

static int image_libc_openat(int folder, const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list args;

    va_start(args, flags);
    if (has_mode(flags))
        mode = va_arg(args, mode_t);
    va_end(args);
    return open_file(folder, path, flags, mode);
}
IMAGE_REBINDS(image_libc_openat, "openat", "openat64");

static int image_libc_open_2(const char *path, int flags)
{
    return has_mode(flags) ? __open_2(path, flags) /* fails */ : open_file(AT_FDCWD, path, flags, 0);
}
IMAGE_REBINDS(image_libc_open_2, "__open_2", "__open64_2");

static int image_libc_openat_2(int folder, const char *path, int flags)
{
    return has_mode(flags) ? __openat_2(folder, path, flags) /* fails */ : open_file(folder, path, flags, 0);
}
IMAGE_REBINDS(image_libc_openat_2, "__openat_2", "__openat64_2");

static int image_libc_creat(const char *path, mode_t mode)
{
    return open_file(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
IMAGE_REBINDS(image_libc_creat, "creat", "creat64");

/* ---- fopen ---- */

static void fopen_offload(struct offload *offload)
{
    offload->stream = fopen(offload->path, offload->stream_mode);
}

static FILE *image_libc_fopen(const char *path, const char *mode)
{
    struct offload offload = {.run = fopen_offload, .path = path, .stream_mode = mode};

    if (!is_fifo(AT_FDCWD, path))
        return fopen(path, mode);
    run_and_wait(&offload);
    return offload.stream;
}
IMAGE_REBINDS(image_libc_fopen, "fopen", "fopen64", "_IO_fopen");

static void freopen_offload(struct offload *offload)
{
    offload->stream = freopen(offload->path, offload->stream_mode, offload->stream);
}

/* The stream writes to mpirun as long as the descriptor is the file of the start (image_output): the descriptor is replaced, because
 * libc cannot reopen such a stream. */
static FILE *reopen_output(int fd, const char *path, const char *mode, FILE *stream)
{
    FILE *file = path ? image_libc_fopen(path, mode) : NULL;
    struct stat status;

    if (!file)
        return path ? NULL : stream;
    fflush(stream);
    if (dup2(fileno(file), fd) < 0)
        stream = NULL;
    else if (fstat(fd, &status) == 0)
        image_libc_check_redirection(fd, &status);
    fclose(file);
    return stream;
}

static FILE *image_libc_freopen(const char *path, const char *mode, FILE *stream)
{
    struct offload offload = {.run = freopen_offload, .path = path, .stream_mode = mode, .stream = stream};
    int fd = image_output ? image_output->number(stream) : -1;
    struct stat file;

    if (fd >= 0)
        return reopen_output(fd, path, mode, stream);
    if (!path || !is_fifo(AT_FDCWD, path)) {
        stream = freopen(path, mode, stream);
        if (path && stream && fileno(stream) <= STDERR_FILENO && fstat(fileno(stream), &file) == 0)
            image_libc_check_redirection(fileno(stream), &file);
        return stream;
    }
    run_and_wait(&offload);
    return offload.stream;
}
IMAGE_REBINDS(image_libc_freopen, "freopen", "freopen64");

/* ---- connect ---- */

/* The connection is under way: returns its result. */
static int wait_for_connection(int fd)
{
    int error = 0;
    socklen_t len = sizeof error;

    if (!image_wait_until_ready(fd, POLLOUT, "connect") ||
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        return -1;
    errno = error ? error : errno;
    return error ? -1 : 0;
}

static int image_libc_connect(int fd, const struct sockaddr *address, socklen_t address_len)
{
    struct image_wait wait = {.call = "connect", .fd = fd};
    int flags, result;

    if (!image_can_wait() || image_has_limit(fd, SO_SNDTIMEO))
        return connect(fd, address, address_len);
    image_cancel_point();
    flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    while ((result = connect(fd, address, address_len)) != 0 && errno == EAGAIN)
        image_wait_pause(&wait); /* the listener's queue is full */
    fcntl(fd, F_SETFL, flags);
    return result != 0 && errno == EINPROGRESS ? wait_for_connection(fd) : result;
}
IMAGE_REBINDS(image_libc_connect, "connect", "__connect");
