/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_exit.c: exit, abort, atexit and similar functions, for the running rank instead of the process.
 *
 * A process forked by a rank is not a rank: there these functions act on the process.
 */
#include "image/copy/instantiate.h"
#include "image/copy/threads.h"
#include "image/libc/rebind.h"

#include "base/log.h"

#include <err.h>
#include <errno.h>
#include <error.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The state of the rank whose copy contains dso, the module that registers a function. If dso is in no
 * copy: the calling thread's rank, or else the rank whose copy contains the function. */
static struct image_libc *owner(const void *dso, const void *fn)
{
    struct image *image = dso ? image_find(dso) : NULL;

    if (!image)
        image = image_of_thread();
    if (!image)
        image = image_find(fn);
    return image ? image_libc_of(image) : NULL;
}

static int image_libc_cxa_atexit(void (*fn)(void *), void *arg, void *dso)
{
    struct image_libc *libc = owner(dso, (const void *)fn);

    return libc ? image_handlers_add(&libc->at_exit,
                                     (struct image_handler){.fn.cxa = fn, .arg = arg, .dso = dso})
                : -1;
}
IMAGE_REBINDS(image_libc_cxa_atexit, "__cxa_atexit"); /* destroys the rank's static objects */

static int image_libc_atexit(void (*fn)(void))
{
    return image_libc_cxa_atexit((void (*)(void *))(void *)fn, NULL, NULL);
}
IMAGE_REBINDS(image_libc_atexit, "atexit");

static int image_libc_on_exit(void (*fn)(int, void *), void *arg)
{
    struct image_libc *libc = owner(NULL, (const void *)fn);

    return libc ? image_handlers_add(
                      &libc->at_exit,
                      (struct image_handler){.fn.on_exit = fn, .arg = arg, .is_status_first = true})
                : -1;
}
IMAGE_REBINDS(image_libc_on_exit, "on_exit");

static int image_libc_cxa_at_quick_exit(void (*fn)(void *), void *dso)
{
    struct image_libc *libc = owner(dso, (const void *)fn);

    return libc ? image_handlers_add(&libc->at_quick_exit, (struct image_handler){.fn.cxa = fn, .dso = dso})
                : -1;
}
IMAGE_REBINDS(image_libc_cxa_at_quick_exit, "__cxa_at_quick_exit");

static int image_libc_at_quick_exit(void (*fn)(void))
{
    return image_libc_cxa_at_quick_exit((void (*)(void *))(void *)fn, NULL);
}
IMAGE_REBINDS(image_libc_at_quick_exit, "at_quick_exit");

static int image_libc_cxa_thread_atexit(void (*fn)(void *), void *arg, void *dso)
{
    struct image_thread *thread = image_thread_of(dso ? dso : (const void *)fn);

    return thread ? image_handlers_add(&thread->at_exit,
                                       (struct image_handler){.fn.cxa = fn, .arg = arg, .dso = dso})
                  : -1;
}
/* A rank's thread_local objects die with it. */
IMAGE_REBINDS(image_libc_cxa_thread_atexit, "__cxa_thread_atexit_impl", "__cxa_thread_atexit");

static void image_libc_cxa_finalize(void *dso)
{
    struct image_libc *libc = image_libc_current();

    if (libc)
        image_handlers_run(&libc->at_exit, dso, libc->exit_status);
}
IMAGE_REBINDS(image_libc_cxa_finalize, "__cxa_finalize"); /* a copy's handlers are in its own list */

/* ---- Ending ---- */

/* True if a call by the caller ends the rank. False in a child of vfork, which runs on the rank's stack. */
static bool ends_rank(void)
{
    return image_is_on_rank() && !image_is_forked_child();
}

static void exit_from(int status, const void *caller) BASE_NORETURN;
static void exit_from(int status, const void *caller)
{
    struct image_libc *libc = image_libc_at(caller);
    struct image *image = libc ? libc->main_thread.image : NULL;

    if (image) {
        libc->exit_status = status;
        image_mask_begin_exit(libc);
        image_finish(image);
    }
    if (image && ends_rank() && image_rebind_client.exit)
        image_rebind_client.exit(status);
    if (image && !image_is_forked_child() && image_rebind_client.exit_by_thread)
        image_rebind_client.exit_by_thread(image, status);
    exit(status);
}

void image_libc_exit(int status)
{
    exit_from(status, __builtin_return_address(0));
}
IMAGE_REBINDS(image_libc_exit, "exit");

void image_end(struct image_libc *libc, int status)
{
    if (libc && ends_rank() && image_rebind_client.quick_exit)
        image_rebind_client.quick_exit(status);
    if (libc && !image_is_forked_child() && image_rebind_client.exit_by_thread)
        image_rebind_client.exit_by_thread(libc->main_thread.image, status);
    _exit(status);
}

void image_raw_exit(int status)
{
    image_end(image_libc_current(), status);
}

static BASE_NORETURN void image_libc__exit(int status)
{
    image_end(image_libc_at(__builtin_return_address(0)), status);
}
IMAGE_REBINDS(image_libc__exit, "_exit", "_Exit");

static BASE_NORETURN void image_libc_quick_exit(int status)
{
    struct image_libc *libc = image_libc_at(__builtin_return_address(0));

    if (libc)
        image_handlers_run(&libc->at_quick_exit, NULL, status);
    image_end(libc, status);
}
IMAGE_REBINDS(image_libc_quick_exit, "quick_exit");

void image_libc_abort(void)
{
    if (ends_rank() && image_rebind_client.abort)
        image_rebind_client.abort();
    abort();
}
IMAGE_REBINDS(image_libc_abort, "abort"); /* aborts the job and names the rank */

static BASE_NORETURN void image_libc_assert_fail(const char *condition, const char *file, unsigned line,
                                                 const char *function)
{
    fflush(stdout);
    base_log_plain("%s: %s:%u: %s%sAssertion `%s' failed.", program_invocation_short_name, file, line,
                   function ? function : "", function ? ": " : "", condition);
    image_libc_abort();
}
IMAGE_REBINDS(image_libc_assert_fail, "__assert_fail");

static BASE_NORETURN void image_libc_verr(int status, const char *fmt, va_list args)
{
    vwarn(fmt, args);
    image_libc_exit(status);
}
IMAGE_REBINDS(image_libc_verr, "verr");

static BASE_NORETURN void image_libc_verrx(int status, const char *fmt, va_list args)
{
    vwarnx(fmt, args);
    image_libc_exit(status);
}
IMAGE_REBINDS(image_libc_verrx, "verrx");

static BASE_NORETURN void image_libc_err(int status, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    image_libc_verr(status, fmt, args);
}
IMAGE_REBINDS(image_libc_err, "err");

static BASE_NORETURN void image_libc_errx(int status, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    image_libc_verrx(status, fmt, args);
}
IMAGE_REBINDS(image_libc_errx, "errx");

static void image_libc_error(int status, int error_number, const char *fmt, ...)
{
    char text[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    error(0, error_number, "%s", text); /* flushes stdout first, prints the program's name */
    if (status)
        image_libc_exit(status);
}
IMAGE_REBINDS(image_libc_error, "error");
