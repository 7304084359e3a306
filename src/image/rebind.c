/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind.c: which of the C library's names a rank's code is bound to another version of.
 *
 * The table is consulted while relocating (reloc.c), and only for references from the program and its private libraries
 * to names that neither of them defines. Shared libraries and this library itself keep libc's versions. Functions
 * called from an OS thread that runs no rank do what libc's do.
 */
#include "image/rebind.h"

#include "image/instantiate.h"

#include <string.h>

#define FUNCTION(name, replacement, why) {name, (void *)(replacement), -1, why}
#define VARIABLE(name, field, why) {name, NULL, field, why}

static const struct image_rebinding libc_table[] = {
    /* The rank's end (rebind_exit.c) */
    FUNCTION("exit", image_libc_exit, "ends the rank, not the process"),
    FUNCTION("_exit", image_libc__exit, "ends the rank, not the process"),
    FUNCTION("_Exit", image_libc__exit, "ends the rank, not the process"),
    FUNCTION("quick_exit", image_libc_quick_exit, "ends the rank, not the process"),
    FUNCTION("abort", image_libc_abort, "aborts the job and names the rank"),
    FUNCTION("__assert_fail", image_libc_assert_fail, "aborts the job and names the rank"),
    FUNCTION("err", image_libc_err, "calls exit"),
    FUNCTION("errx", image_libc_errx, "calls exit"),
    FUNCTION("atexit", image_libc_atexit, "called at the rank's end"),
    FUNCTION("on_exit", image_libc_on_exit, "called at the rank's end"),
    FUNCTION("at_quick_exit", image_libc_at_quick_exit, "called at the rank's end"),
    FUNCTION("__cxa_atexit", image_libc_cxa_atexit, "destroys the rank's static objects"),
    FUNCTION("__cxa_at_quick_exit", image_libc_cxa_at_quick_exit, "called at the rank's end"),
    FUNCTION("__cxa_finalize", image_libc_cxa_finalize, "a copy's handlers are in its own list"),
    FUNCTION("__cxa_thread_atexit_impl", image_libc_cxa_thread_atexit, "a rank's thread_local objects die with it"),
    FUNCTION("__cxa_thread_atexit", image_libc_cxa_thread_atexit, "a rank's thread_local objects die with it"),

    /* Shared, but the program's own variables follow (rebind_env.c) */
    FUNCTION("setenv", image_libc_setenv, "brings the rank's environ up to date"),
    FUNCTION("unsetenv", image_libc_unsetenv, "brings the rank's environ up to date"),
    FUNCTION("putenv", image_libc_putenv, "brings the rank's environ up to date"),
    FUNCTION("clearenv", image_libc_clearenv, "brings the rank's environ up to date"),
    FUNCTION("tzset", image_libc_tzset, "brings the rank's timezone and tzname up to date"),
};

/* Tables of the layers above. */
static struct {
    const struct image_rebinding *table;
    size_t count;
} more_tables[8];
static size_t n_more_tables;

void image_rebind_add(const struct image_rebinding *table, size_t count)
{
    BASE_ASSERT(n_more_tables < BASE_COUNT(more_tables));
    more_tables[n_more_tables].table = table;
    more_tables[n_more_tables++].count = count;
}

static const struct image_rebinding *find_in(const struct image_rebinding *table, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

const struct image_rebinding *image_rebinding_find(const char *name)
{
    const struct image_rebinding *found = find_in(libc_table, BASE_COUNT(libc_table), name);

    for (size_t i = 0; i < n_more_tables; i++) {
        const struct image_rebinding *other = find_in(more_tables[i].table, more_tables[i].count, name);

        if (other)
            found = other;
    }
    return found;
}

size_t image_libc_field_offset(int field)
{
    switch (field) {
    case IMAGE_OPTARG:
        return offsetof(struct image_libc, getopt.optarg);
    case IMAGE_OPTIND:
        return offsetof(struct image_libc, getopt.optind);
    case IMAGE_OPTERR:
        return offsetof(struct image_libc, getopt.opterr);
    default:
        return offsetof(struct image_libc, getopt.optopt);
    }
}

void image_libc_init(struct image_libc *libc)
{
    *(int *)libc->variables[IMAGE_OPTIND] = 1;
    *(int *)libc->variables[IMAGE_OPTERR] = 1;
    *(int *)libc->variables[IMAGE_OPTOPT] = '?';
}

void image_libc_fini(struct image_libc *libc)
{
    free(libc->at_exit.items);
    free(libc->at_quick_exit.items);
    free(libc->at_thread_exit.items);
    libc->at_exit = libc->at_quick_exit = libc->at_thread_exit = (struct image_handlers){0};
}
