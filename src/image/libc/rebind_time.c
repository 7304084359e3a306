/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_time.c: time zones per rank. A rank's TZ determines its local time.
 *
 * libc converts with one zone per process, which it reads from TZ in the process's environment. So before a
 * conversion the rank stores its own TZ there, if it differs, and excludes other ranks until it is done.
 * That entry is replaced in place: libc's getenv may run on any thread.
 */
#include "image/copy/instantiate.h"
#include "image/libc/rebind.h"

#include "base/log.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

pthread_mutex_t image_zone_lock = PTHREAD_MUTEX_INITIALIZER;

/* The environment of the process while ranks have changed its TZ: array[n] is the entry, or NULL. */
static struct {
    char **array;
    size_t n;
} process_environ;

/* All values "TZ=..." that the entry has had; never freed. */
static struct zone {
    struct zone *next;
    char entry[];
} * zones;

static char *zone_entry(const char *value)
{
    size_t len = strlen(value);
    struct zone *zone;

    for (zone = zones; zone; zone = zone->next)
        if (strcmp(zone->entry + 3, value) == 0)
            return zone->entry;
    zone = base_malloc(sizeof *zone + len + 4, "a time zone");
    memcpy(zone->entry, "TZ=", 3);
    memcpy(zone->entry + 3, value, len + 1);
    zone->next = zones;
    zones = zone;
    return zone->entry;
}

/* Makes an array with room for TZ at its end. The old array is kept: other threads may be reading it. */
static void prepare_environ(void)
{
    size_t n = 0, n_kept = 0;
    char **array;

    while (environ && environ[n])
        n++;
    array = base_calloc(n + 2, sizeof *array, "the environment");
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "TZ=", 3) != 0)
            array[n_kept++] = environ[i];
    process_environ.array = array;
    process_environ.n = n_kept;
}

/* Makes the rank's zone libc's zone. With image_zone_lock held. */
static void enter_zone(struct image_libc *libc)
{
    const char *wanted = image_env_get(libc, "TZ");
    const char *there = getenv("TZ");

    if ((!wanted && !there) || (wanted && there && strcmp(wanted, there) == 0))
        return;
    if (environ != process_environ.array)
        prepare_environ();
    __atomic_store_n(&process_environ.array[process_environ.n], wanted ? zone_entry(wanted) : NULL,
                     __ATOMIC_RELEASE);
    __atomic_store_n(&environ, process_environ.array, __ATOMIC_RELEASE);
}

void image_zone_init(struct image_libc *libc)
{
    memcpy(libc->variables[IMAGE_TIMEZONE], &timezone, sizeof timezone);
    memcpy(libc->variables[IMAGE_DAYLIGHT], &daylight, sizeof daylight);
    memcpy(libc->variables[IMAGE_TZNAME], tzname, sizeof tzname);
}

/* Makes libc's zone the rank's until leave(). Returns the rank's state; NULL: the caller belongs to none. */
static struct image_libc *enter(const void *caller)
{
    struct image_libc *libc = image_libc_at(caller);

    pthread_mutex_lock(&image_zone_lock);
    if (libc)
        enter_zone(libc);
    tzset();
    return libc;
}

static void leave(struct image_libc *libc)
{
    if (libc)
        image_zone_init(libc);
    pthread_mutex_unlock(&image_zone_lock);
}

static void image_libc_tzset(void)
{
    leave(enter(__builtin_return_address(0)));
}
IMAGE_REBINDS(image_libc_tzset, "tzset");

struct tm *image_zone_localtime(const time_t *when, struct tm *tm, const void *caller)
{
    struct image_libc *libc = enter(caller);
    struct tm *result = localtime_r(when, tm);

    leave(libc);
    return result;
}

static struct tm *image_libc_localtime_r(const time_t *when, struct tm *tm)
{
    return image_zone_localtime(when, tm, __builtin_return_address(0));
}
IMAGE_REBINDS(image_libc_localtime_r, "localtime_r");

static char *image_libc_ctime_r(const time_t *when, char *text)
{
    struct tm tm;

    return image_zone_localtime(when, &tm, __builtin_return_address(0)) ? asctime_r(&tm, text) : NULL;
}
IMAGE_REBINDS(image_libc_ctime_r, "ctime_r");

static time_t image_libc_mktime(struct tm *tm)
{
    struct image_libc *libc = enter(__builtin_return_address(0));
    time_t result = mktime(tm);

    leave(libc);
    return result;
}
IMAGE_REBINDS(image_libc_mktime, "mktime", "timelocal");

static size_t image_libc_strftime(char *text, size_t size_bytes, const char *fmt, const struct tm *tm)
{
    struct image_libc *libc = enter(__builtin_return_address(0));
    size_t result = strftime(text, size_bytes, fmt, tm);

    leave(libc);
    return result;
}
IMAGE_REBINDS(image_libc_strftime, "strftime");

IMAGE_REBINDS_VARIABLE(IMAGE_TIMEZONE, "timezone", "__timezone");
IMAGE_REBINDS_VARIABLE(IMAGE_DAYLIGHT, "daylight", "__daylight");
IMAGE_REBINDS_VARIABLE(IMAGE_TZNAME, "tzname", "__tzname");
