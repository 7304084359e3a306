/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_buffers.c: functions whose result or position is in storage of libc, one per process or thread: per rank here.
 */
#include "image/copy/instantiate.h"
#include "image/libc/rebind.h"

#include "base/fork_lock.h"
#include "base/log.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <string.h>
#include <uchar.h>
#include <unistd.h>
#include <wchar.h>

struct image_buffers {
    struct tm tm;                  /* of localtime and gmtime */
    char text[64];                 /* of ctime and asctime */
    struct hsearch_data table;     /* of hcreate */
    char address[INET_ADDRSTRLEN]; /* of inet_ntoa */
    char error[256];               /* of strerror, for numbers without a fixed text */
    char signal[256];              /* of strsignal */
    char file[L_tmpnam];           /* of tmpnam */
    char terminal[256];            /* of ttyname */
    char login[256];               /* of getlogin */
    char load_error[1024];         /* of dlerror; longer ones are cut */
    bool has_load_error;
    /* The incomplete characters of functions that were called without a state of the program's: */
    mbstate_t mblen_state, mbtowc_state, mbrlen_state, mbrtowc_state, mbrtoc16_state, mbrtoc32_state;
};

void image_buffers_destroy(struct image_buffers *buffers)
{
    if (buffers)
        hdestroy_r(&buffers->table);
    free(buffers);
}

/* NULL on a thread of no rank. */
static struct image_buffers *current(void)
{
    struct image_libc *libc = image_libc_current();
    struct image_buffers *made, *none = NULL;

    if (!libc || libc->buffers)
        return libc ? libc->buffers : NULL;
    made = base_calloc(1, sizeof *made, "a rank's buffers");
    if (atomic_compare_exchange_strong(&libc->buffers, &none, made))
        return made;
    free(made); /* another thread of the rank was faster */
    return none;
}

static char *image_libc_strtok(char *text, const char *delimiters)
{
    struct image_libc *libc = image_libc_current();

    return libc ? strtok_r(text, delimiters, &libc->strtok_next) : strtok(text, delimiters);
}
IMAGE_REBINDS(image_libc_strtok, "strtok");

static struct tm *image_libc_localtime(const time_t *when)
{
    struct image_buffers *buffers = current();

    if (!buffers)
        return localtime(when);
    return image_zone_localtime(when, &buffers->tm, __builtin_return_address(0));
}
IMAGE_REBINDS(image_libc_localtime, "localtime");

static struct tm *image_libc_gmtime(const time_t *when)
{
    struct image_buffers *buffers = current();

    return buffers ? gmtime_r(when, &buffers->tm) : gmtime(when);
}
IMAGE_REBINDS(image_libc_gmtime, "gmtime");

static char *image_libc_asctime(const struct tm *tm)
{
    struct image_buffers *buffers = current();

    return buffers ? asctime_r(tm, buffers->text) : asctime(tm);
}
IMAGE_REBINDS(image_libc_asctime, "asctime");

static char *image_libc_ctime(const time_t *when)
{
    struct tm *tm = image_libc_localtime(when);

    return tm ? image_libc_asctime(tm) : NULL;
}
IMAGE_REBINDS(image_libc_ctime, "ctime");

static int image_libc_hcreate(size_t n_entries)
{
    struct image_buffers *buffers = current();

    return buffers ? hcreate_r(n_entries, &buffers->table) : hcreate(n_entries);
}
IMAGE_REBINDS(image_libc_hcreate, "hcreate");

static void image_libc_hdestroy(void)
{
    struct image_buffers *buffers = current();

    if (buffers)
        hdestroy_r(&buffers->table);
    else
        hdestroy();
}
IMAGE_REBINDS(image_libc_hdestroy, "hdestroy");

static ENTRY *image_libc_hsearch(ENTRY item, ACTION action)
{
    struct image_buffers *buffers = current();
    ENTRY *found = NULL;

    if (!buffers)
        return hsearch(item, action);
    hsearch_r(item, action, &found, &buffers->table);
    return found;
}
IMAGE_REBINDS(image_libc_hsearch, "hsearch");

/* ---- Texts ---- */

static char *image_libc_inet_ntoa(struct in_addr address)
{
    struct image_buffers *buffers = current();

    return buffers ? (char *)inet_ntop(AF_INET, &address, buffers->address, sizeof buffers->address)
                   : inet_ntoa(address);
}
IMAGE_REBINDS(image_libc_inet_ntoa, "inet_ntoa");

static char *image_libc_strerror(int number)
{
    struct image_buffers *buffers = current();
    bool is_delayed = base_fork_delay();
    char *text = buffers ? strerror_r(number, buffers->error, sizeof buffers->error) : strerror(number);

    base_fork_allow(is_delayed);
    return text;
}
IMAGE_REBINDS(image_libc_strerror, "strerror");

static char *image_libc_strsignal(int number)
{
    struct image_buffers *buffers = current();
    bool is_delayed = base_fork_delay();
    char *text = strsignal(number);

    base_fork_allow(is_delayed);
    if (!buffers)
        return text;
    snprintf(buffers->signal, sizeof buffers->signal, "%s", text);
    return buffers->signal;
}
IMAGE_REBINDS(image_libc_strsignal, "strsignal");

/* Found at run time: the linker warns of each reference to libc's functions. */
static char *image_libc_tmpnam(char *file)
{
    struct image_buffers *buffers = file ? NULL : current();
    char *(*real)(char *);

    *(void **)&real = dlsym(RTLD_DEFAULT, "tmpnam");
    return real ? real(buffers ? buffers->file : file) : NULL;
}
IMAGE_REBINDS(image_libc_tmpnam, "tmpnam");

static char *image_libc_ttyname(int fd)
{
    struct image_buffers *buffers = current();
    int error;

    if (!buffers)
        return ttyname(fd);
    error = ttyname_r(fd, buffers->terminal, sizeof buffers->terminal);
    if (error)
        errno = error;
    return error ? NULL : buffers->terminal;
}
IMAGE_REBINDS(image_libc_ttyname, "ttyname");

static char *image_libc_getlogin(void)
{
    struct image_buffers *buffers = current();
    int error;

    if (!buffers)
        return getlogin();
    error = getlogin_r(buffers->login, sizeof buffers->login);
    if (error)
        errno = error;
    return error ? NULL : buffers->login;
}
IMAGE_REBINDS(image_libc_getlogin, "getlogin");

/* ---- Errors of dlopen and dlsym ---- */

/* libc keeps the last error per thread: here the PE's, which other ranks use before this one calls dlerror. Threads of the
 * rank have their own. */
void *image_load_error_keep(void *result)
{
    struct image_buffers *buffers = result || !image_is_on_rank() ? NULL : current();
    const char *error = buffers ? dlerror() : NULL;

    if (error) {
        snprintf(buffers->load_error, sizeof buffers->load_error, "%s", error);
        buffers->has_load_error = true;
    }
    return result;
}

void image_load_error_set(const char *path, const char *error)
{
    struct image_buffers *buffers = image_is_on_rank() ? current() : NULL;

    (void)dlerror(); /* an earlier attempt's */
    if (buffers) {
        snprintf(buffers->load_error, sizeof buffers->load_error, "%s: no copy for this rank: %s", path,
                 error);
        buffers->has_load_error = true;
    } else { /* libc's text is the caller's thread's, and cannot be set */
        base_log("%s: no copy for this rank: %s", path, error);
    }
}

static char *image_libc_dlerror(void)
{
    struct image_buffers *buffers = image_is_on_rank() ? current() : NULL;

    if (!buffers || !buffers->has_load_error)
        return dlerror();
    buffers->has_load_error = false;
    return buffers->load_error;
}
IMAGE_REBINDS(image_libc_dlerror, "dlerror"); /* other ranks of the PE may have failed since */

/* ---- Multibyte characters ---- */

#define CONVERTS(function, parameters, ...)                                                  \
    static size_t image_libc_##function parameters                                           \
    {                                                                                        \
        struct image_buffers *buffers = state ? NULL : current();                            \
                                                                                             \
        return function(__VA_ARGS__, n_bytes, buffers ? &buffers->function##_state : state); \
    }

CONVERTS(mbrtowc, (wchar_t * wide, const char *text, size_t n_bytes, mbstate_t *state), wide, text)
CONVERTS(mbrtoc16, (char16_t *wide, const char *text, size_t n_bytes, mbstate_t *state), wide, text)
CONVERTS(mbrtoc32, (char32_t *wide, const char *text, size_t n_bytes, mbstate_t *state), wide, text)
CONVERTS(mbrlen, (const char *text, size_t n_bytes, mbstate_t *state), text)
IMAGE_REBINDS(image_libc_mbrtowc, "mbrtowc"); /* a character's first bytes may be the rank's */
IMAGE_REBINDS(image_libc_mbrtoc16, "mbrtoc16");
IMAGE_REBINDS(image_libc_mbrtoc32, "mbrtoc32");
IMAGE_REBINDS(image_libc_mbrlen, "mbrlen", "__mbrlen");

/* mbtowc with a state. Without a text it forgets the state, and tells whether the encoding has one. */
static int convert(wchar_t *wide, const char *text, size_t n_bytes, mbstate_t *state)
{
    size_t used;

    if (!text) {
        memset(state, 0, sizeof *state);
        return mbtowc(NULL, NULL, 0);
    }
    used = mbrtowc(wide, text, n_bytes, state);
    return used >= (size_t)-2 ? -1 : (int)used;
}

static int image_libc_mbtowc(wchar_t *wide, const char *text, size_t n_bytes)
{
    struct image_buffers *buffers = current();

    return buffers ? convert(wide, text, n_bytes, &buffers->mbtowc_state) : mbtowc(wide, text, n_bytes);
}
IMAGE_REBINDS(image_libc_mbtowc, "mbtowc");

static int image_libc_mblen(const char *text, size_t n_bytes)
{
    struct image_buffers *buffers = current();

    return buffers ? convert(NULL, text, n_bytes, &buffers->mblen_state) : mblen(text, n_bytes);
}
IMAGE_REBINDS(image_libc_mblen, "mblen");
