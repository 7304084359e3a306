/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_streams.c: functions that let a stream of the C library, or its log, use memory or code of the caller. The process writes
 * its streams at its exit, so the copy of a rank that has called one of these functions stays mapped (image_unmap).
 */
#include "image/copy/threads.h"
#include "image/libc/rebind.h"

#include <stdio.h>
#include <syslog.h>
#include <wchar.h>

static void mark(void)
{
    struct image_libc *libc = image_libc_current();

    if (libc)
        atomic_store(&libc->has_buffers, true);
}

static int image_libc_setvbuf(FILE *stream, char *buffer, int mode, size_t size)
{
    if (buffer)
        mark();
    return setvbuf(stream, buffer, mode, size);
}
IMAGE_REBINDS(image_libc_setvbuf, "setvbuf");

static void image_libc_setbuffer(FILE *stream, char *buffer, size_t size)
{
    if (buffer)
        mark();
    setbuffer(stream, buffer, size);
}
IMAGE_REBINDS(image_libc_setbuffer, "setbuffer");

static void image_libc_setbuf(FILE *stream, char *buffer)
{
    image_libc_setbuffer(stream, buffer, BUFSIZ);
}
IMAGE_REBINDS(image_libc_setbuf, "setbuf");

static FILE *image_libc_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions)
{
    mark();
    return fopencookie(cookie, mode, functions);
}
IMAGE_REBINDS(image_libc_fopencookie, "fopencookie");

static FILE *image_libc_fmemopen(void *buffer, size_t size, const char *mode)
{
    mark();
    return fmemopen(buffer, size, mode);
}
IMAGE_REBINDS(image_libc_fmemopen, "fmemopen");

static FILE *image_libc_open_memstream(char **text, size_t *size)
{
    mark();
    return open_memstream(text, size);
}
IMAGE_REBINDS(image_libc_open_memstream, "open_memstream");

static FILE *image_libc_open_wmemstream(wchar_t **text, size_t *size)
{
    mark();
    return open_wmemstream(text, size);
}
IMAGE_REBINDS(image_libc_open_wmemstream, "open_wmemstream");

static void image_libc_openlog(const char *name, int options, int facility)
{
    mark();
    openlog(name, options, facility);
}
IMAGE_REBINDS(image_libc_openlog, "openlog");
