/* SPDX-License-Identifier: BSD-3-Clause
 *
 * log.c: one-line messages to stderr, and the allocators that cannot fail.
 */
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int log_verbosity;

/* Formats into one buffer and writes it with one system call. */
static void write_line(const char *prefix, const char *fmt, va_list args)
{
    char line[BASE_LOG_LINE_MAX];
    int prefix_len = snprintf(line, sizeof line, "%s", prefix);
    int text_len = vsnprintf(line + prefix_len, sizeof line - (size_t)prefix_len, fmt, args);
    size_t len = (size_t)prefix_len + (size_t)(text_len > 0 ? text_len : 0);
    int saved_errno = errno;

    if (len > sizeof line - 1)
        len = sizeof line - 1;
    line[len++] = '\n';
    for (size_t done = 0; done < len;) {
        ssize_t n = write(STDERR_FILENO, line + done, len - done);
        if (n < 0 && errno != EINTR)
            break;
        if (n > 0)
            done += (size_t)n;
    }
    errno = saved_errno;
}

void base_log(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    write_line("heddle: ", fmt, args);
    va_end(args);
}

void base_log_plain(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    write_line("", fmt, args);
    va_end(args);
}

void base_log_once(atomic_bool *done, const char *fmt, ...)
{
    va_list args;

    if (atomic_exchange(done, true))
        return;
    va_start(args, fmt);
    write_line("heddle: ", fmt, args);
    va_end(args);
}

void base_log_verbose(int level, const char *fmt, ...)
{
    va_list args;

    if (level > log_verbosity)
        return;
    va_start(args, fmt);
    write_line("heddle: ", fmt, args);
    va_end(args);
}

void base_log_set_verbosity(int level)
{
    log_verbosity = level;
}

/* Attempts to flush; then the process ends, even if nobody reads its output. */
#define FLUSH_TRIES 500
#define FLUSH_TRY_US 1000

/* Writes at most one buffer of stdout. A buffer is as large as the amount that a writable pipe accepts
 * without blocking. */
static bool try_to_flush(void)
{
    struct pollfd output = {.fd = fileno_unlocked(stdout), .events = POLLOUT};
    bool is_done;

    if (ftrylockfile(stdout) != 0)
        return false;
    is_done = output.fd < 0 || poll(&output, 1, 0) != 0;
    if (is_done)
        fflush_unlocked(stdout);
    funlockfile(stdout);
    return is_done;
}

void base_flush_stdout(void)
{
    for (int i = 0; i < FLUSH_TRIES && !try_to_flush(); i++)
        usleep(FLUSH_TRY_US);
}

void base_fatal(int code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    write_line("heddle: ", fmt, args);
    va_end(args);
    base_flush_stdout();
    _exit(code);
}

void base_assert_failed(const char *cond, const char *file, int line)
{
    base_log("internal error: assertion %s failed at %s:%d; please report it", cond, file, line);
    abort();
}

/* Ends the job because memory is exhausted. */
static void no_memory(size_t size_bytes, const char *what) BASE_NORETURN;
static void no_memory(size_t size_bytes, const char *what)
{
    base_fatal(1,
               "out of memory: cannot allocate %zu bytes for %s; use fewer ranks (+vp) or raise `ulimit -v`",
               size_bytes, what);
}

void *base_malloc(size_t size_bytes, const char *what)
{
    void *p = malloc(size_bytes ? size_bytes : 1);

    if (!p)
        no_memory(size_bytes, what);
    return p;
}

void *base_calloc(size_t count, size_t size_bytes, const char *what)
{
    void *p = calloc(count ? count : 1, size_bytes ? size_bytes : 1);

    if (!p)
        no_memory(count * size_bytes, what);
    return p;
}

void *base_calloc_aligned(size_t count, size_t size_bytes, const char *what)
{
    size_t total_bytes = base_round_up(count * size_bytes + !count, BASE_CACHE_LINE);
    void *p = aligned_alloc(BASE_CACHE_LINE, total_bytes);

    if (!p)
        no_memory(total_bytes, what);
    return memset(p, 0, total_bytes);
}

void *base_realloc(void *old, size_t size_bytes, const char *what)
{
    void *p = realloc(old, size_bytes ? size_bytes : 1);

    if (!p)
        no_memory(size_bytes, what);
    return p;
}
