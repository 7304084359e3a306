/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libc_state.c: functions that are called at a rank's end; the places of the C library's variables. See libc_state.h.
 */
#include "image/copy/libc_state.h"

#include <string.h>

/* ---- Functions called at the end ---- */

static int append(struct image_handlers *handlers, const struct image_handler *handler)
{
    if (handlers->count == handlers->room) {
        size_t room = handlers->room ? handlers->room * 2 : 4;
        struct image_handler *items = realloc(handlers->items, room * sizeof *items);

        if (!items)
            return -1;
        handlers->items = items;
        handlers->room = room;
    }
    handlers->items[handlers->count++] = *handler;
    return 0;
}

int image_handlers_add(struct image_handlers *handlers, struct image_handler handler)
{
    int result;

    pthread_mutex_lock(&handlers->lock);
    result = append(handlers, &handler);
    pthread_mutex_unlock(&handlers->lock);
    return result;
}

static bool remove_last(struct image_handlers *handlers, const void *dso, struct image_handler *handler_out)
{
    for (size_t i = handlers->count; i-- > (dso ? 0 : handlers->n_early);) {
        if (dso && handlers->items[i].dso != dso)
            continue;
        handlers->n_early -= i < handlers->n_early;
        *handler_out = handlers->items[i];
        handlers->count--;
        memmove(&handlers->items[i], &handlers->items[i + 1],
                (handlers->count - i) * sizeof *handlers->items);
        return true;
    }
    return false;
}

/* Removes the newest handler from the list: of the module, or of those that are not early ones if dso is NULL. Returns
 * false if there is none. */
static bool take_last(struct image_handlers *handlers, const void *dso, struct image_handler *handler_out)
{
    bool found;

    pthread_mutex_lock(&handlers->lock);
    found = remove_last(handlers, dso, handler_out);
    pthread_mutex_unlock(&handlers->lock);
    return found;
}

static void set_early(struct image_handlers *handlers, bool is_early)
{
    pthread_mutex_lock(&handlers->lock);
    handlers->n_early = is_early ? handlers->count : 0;
    pthread_mutex_unlock(&handlers->lock);
}

void image_handlers_begin(struct image_handlers *handlers)
{
    set_early(handlers, true);
}

void image_handlers_run_all(struct image_handlers *handlers, int status)
{
    set_early(handlers, false);
    image_handlers_run(handlers, NULL, status);
}

void image_handlers_run(struct image_handlers *handlers, const void *dso, int status)
{
    struct image_handler handler;

    while (take_last(handlers, dso, &handler)) {
        if (handler.is_status_first)
            handler.fn.on_exit(status, handler.arg);
        else
            handler.fn.cxa(handler.arg);
    }
}

/* ---- Variables ---- */

size_t image_libc_field_offset(int field)
{
    static const size_t offsets[IMAGE_LIBC_FIELDS] = {
        [IMAGE_OPTARG] = offsetof(struct image_libc, getopt.optarg),
        [IMAGE_OPTIND] = offsetof(struct image_libc, getopt.optind),
        [IMAGE_OPTERR] = offsetof(struct image_libc, getopt.opterr),
        [IMAGE_OPTOPT] = offsetof(struct image_libc, getopt.optopt),
        [IMAGE_ENVIRON] = offsetof(struct image_libc, environ),
        [IMAGE_TIMEZONE] = offsetof(struct image_libc, timezone),
        [IMAGE_DAYLIGHT] = offsetof(struct image_libc, daylight),
        [IMAGE_TZNAME] = offsetof(struct image_libc, tzname),
        [IMAGE_SIGNGAM] = offsetof(struct image_libc, signgam),
        [IMAGE_STACK_END] = offsetof(struct image_libc, stack_end),
    };

    return offsets[field];
}
