/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_buffers.c: functions whose result or position is in static storage of libc: per rank here.
 */
#include "image/copy/instantiate.h"
#include "image/libc/rebind.h"

#include "base/log.h"

#include <search.h>
#include <string.h>

struct image_buffers {
    struct tm tm;              /* of localtime and gmtime */
    char text[64];             /* of ctime and asctime */
    struct hsearch_data table; /* of hcreate */
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

char *image_libc_strtok(char *text, const char *delimiters)
{
    struct image_libc *libc = image_libc_current();

    return libc ? strtok_r(text, delimiters, &libc->strtok_next) : strtok(text, delimiters);
}

struct tm *image_libc_localtime(const time_t *when)
{
    struct image_buffers *buffers = current();

    if (!buffers)
        return localtime(when);
    return image_zone_localtime(when, &buffers->tm, __builtin_return_address(0));
}

struct tm *image_libc_gmtime(const time_t *when)
{
    struct image_buffers *buffers = current();

    return buffers ? gmtime_r(when, &buffers->tm) : gmtime(when);
}

char *image_libc_asctime(const struct tm *tm)
{
    struct image_buffers *buffers = current();

    return buffers ? asctime_r(tm, buffers->text) : asctime(tm);
}

char *image_libc_ctime(const time_t *when)
{
    struct tm *tm = image_libc_localtime(when);

    return tm ? image_libc_asctime(tm) : NULL;
}

int image_libc_hcreate(size_t n_entries)
{
    struct image_buffers *buffers = current();

    return buffers ? hcreate_r(n_entries, &buffers->table) : hcreate(n_entries);
}

void image_libc_hdestroy(void)
{
    struct image_buffers *buffers = current();

    if (buffers)
        hdestroy_r(&buffers->table);
    else
        hdestroy();
}

ENTRY *image_libc_hsearch(ENTRY item, ACTION action)
{
    struct image_buffers *buffers = current();
    ENTRY *found = NULL;

    if (!buffers)
        return hsearch(item, action);
    hsearch_r(item, action, &found, &buffers->table);
    return found;
}
