/* SPDX-License-Identifier: BSD-3-Clause
 *
 * log.h: one-line messages to stderr. Every line is one write(2), so that lines of several threads
 * and processes do not mix.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/base.h"

/* Length limit of a line in bytes, the newline included; longer lines are truncated. */
#define BASE_LOG_LINE_MAX 2048

/* Prints "heddle: <text>\n". Never switches. */
void base_log(const char *fmt, ...) BASE_PRINTF(1, 2) BASE_COLD;

/* Prints the line unchanged, with a newline. Never switches. */
void base_log_plain(const char *fmt, ...) BASE_PRINTF(1, 2) BASE_COLD;

/* Like base_log, but only the first time for each value of *done (a static atomic of the caller). */
void base_log_once(atomic_bool *done, const char *fmt, ...) BASE_PRINTF(2, 3) BASE_COLD;

/* Like base_log, if the verbosity (option +v) is at least level. */
void base_log_verbose(int level, const char *fmt, ...) BASE_PRINTF(2, 3) BASE_COLD;
void base_log_set_verbosity(int level);

/* Flushes stdout, but waits only briefly for a reader or for a thread that holds stdout's lock. For ends of
 * the process that must not block. */
void base_flush_stdout(void);

/* base_log, then _exit(code). For errors during set-up and in the command line. */
void base_fatal(int code, const char *fmt, ...) BASE_PRINTF(2, 3) BASE_NORETURN BASE_COLD;

/* malloc, calloc and realloc for set-up code. They never return NULL: if memory is exhausted they end the
 * job with a message that names the size and the purpose. */
void *base_malloc(size_t size_bytes, const char *what) __attribute__((malloc, returns_nonnull));
void *base_calloc(size_t count, size_t size_bytes, const char *what) __attribute__((malloc, returns_nonnull));
void *base_realloc(void *old, size_t size_bytes, const char *what) __attribute__((returns_nonnull));

/* Zeroed and aligned to a cache line; freed with free. */
void *base_calloc_aligned(size_t count, size_t size_bytes, const char *what)
    __attribute__((malloc, returns_nonnull));

#endif
