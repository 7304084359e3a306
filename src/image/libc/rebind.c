/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind.c: finds the C library's names that resolve to a replacement in a rank's code (IMAGE_REBINDS).
 *
 * Relocation asks for them (reloc.c), only for references from the program and its private libraries
 * to names that neither of them defines. Shared libraries and this library itself keep libc's functions. On
 * an OS thread that runs no rank, the replacements behave like libc's functions.
 */
#include "image/libc/rebind_signal.h"
#include "image/libc/rebind_timer.h"

#include "image/copy/instantiate.h"
#include "image/copy/lazy_tls.h"
#include "image/copy/private_libraries.h"
#include "image/copy/threads.h"

#include <string.h>

/* Of libraries that a rank may have a copy of (rebind_openmp.c): whichever defines them. */
static const struct image_rebinding library_table[] = {
    {{"GOMP_critical_start"}, (void *)image_libc_gomp_critical_start, -1},
    {{"GOMP_critical_end"}, (void *)image_libc_gomp_critical_end, -1},
};

/* The rows of IMAGE_REBINDS, in a section of their own, of which the linker defines the bounds. */
extern const struct image_rebinding *const __start_image_rebindings[] __attribute__((visibility("hidden")));
extern const struct image_rebinding *const __stop_image_rebindings[] __attribute__((visibility("hidden")));

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

static bool is_named(const struct image_rebinding *rebinding, const char *name)
{
    for (size_t i = 0; i < IMAGE_REBINDING_NAMES && rebinding->names[i]; i++)
        if (rebinding->names[i][0] == name[0] && strcmp(rebinding->names[i], name) == 0)
            return true;
    return false;
}

static const struct image_rebinding *find_in(const struct image_rebinding *table, size_t count,
                                             const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (is_named(&table[i], name))
            return &table[i];
    return NULL;
}

static const struct image_rebinding *find_in_libc(const char *name)
{
    for (const struct image_rebinding *const *row = __start_image_rebindings; row < __stop_image_rebindings;
         row++)
        if (is_named(*row, name))
            return *row;
    return NULL;
}

static const struct image_rebinding *find(const char *name)
{
    const struct image_rebinding *found = NULL;

    for (size_t i = n_more_tables; i-- > 0 && !found;)
        found = find_in(more_tables[i].table, more_tables[i].count, name);
    if (!found)
        found = find_in_libc(name);
    return found ? found : find_in(library_table, BASE_COUNT(library_table), name);
}

static const struct image_rebinding *find_for(const char *name, const void *definition)
{
    const struct image_rebinding *found = definition ? find(name) : NULL;
    Dl_info info, own;

    if (!found || found != find_in_libc(name))
        return found;
    if (!dladdr(definition, &info) || image_is_runtime_library(info.dli_fname))
        return found;
    /* This library defines some, too (copy/precedence.c). */
    return dladdr(&image_libc_room, &own) && own.dli_fbase == info.dli_fbase ? found : NULL;
}

static void init(struct image_libc *libc)
{
    *(int *)libc->variables[IMAGE_OPTIND] = 1;
    *(int *)libc->variables[IMAGE_OPTERR] = 1;
    *(int *)libc->variables[IMAGE_OPTOPT] = '?';
    pthread_mutex_init(&libc->lock, NULL);
    pthread_mutex_init(&libc->critical, NULL);
    image_signals_begin(libc);
    image_env_init(libc);
    image_zone_init(libc);
    image_stack_init(libc);
}

void image_libc_lock(struct image_libc *libc)
{
    if (atomic_load_explicit(&libc->has_threads, memory_order_relaxed))
        pthread_mutex_lock(&libc->lock);
}

void image_libc_unlock(struct image_libc *libc)
{
    if (atomic_load_explicit(&libc->has_threads, memory_order_relaxed))
        pthread_mutex_unlock(&libc->lock);
}

/* Threads of the rank that have not ended continue, as they do until the end of a process; memory they may
 * use stays. */
static void fini(struct image_libc *libc)
{
    image_locks_release(libc);
    image_timers_forget(libc);
    image_signals_forget(libc);
    if (atomic_load(&libc->has_threads))
        return;
    image_random_destroy(libc->random);
    image_buffers_destroy(libc->buffers);
    image_databases_destroy(libc->databases);
    libc->random = NULL;
    libc->buffers = NULL;
    libc->databases = NULL;
    free(libc->at_exit.items);
    free(libc->at_quick_exit.items);
    free(libc->fork_handlers);
    free(libc->children);
    libc->fork_handlers = NULL;
    libc->children = NULL;
    libc->n_fork_handlers = libc->n_children = 0;
    free(libc->fault_actions);
    libc->fault_actions = NULL;
    free(libc->affinity);
    libc->affinity = NULL;
    libc->at_exit = libc->at_quick_exit = (struct image_handlers){0};
    image_thread_fini(&libc->main_thread);
    image_keys_free(libc);
}

static bool is_unused(const struct image_libc *libc)
{
    return !atomic_load(&libc->has_threads) && !atomic_load(&libc->has_buffers) &&
           image_signals_have_ended(libc);
}

static void free_rest(struct image *image)
{
    image_env_free(image);
    image_link_maps_free(image);
    free(image->libc.streams);
}

const struct image_libc_room image_libc_room = {.find = find,
                                                .find_for = find_for,
                                                .open = image_env_open,
                                                .init = init,
                                                .begin = image_stack_begin,
                                                .fini = fini,
                                                .is_unused = is_unused,
                                                .free = free_rest,
                                                .environment = image_env_of,
                                                .move_environment = image_env_move,
                                                .destroy_values = image_keys_destroy_values,
                                                .free_values = image_keys_free_values,
                                                .join = image_libc_join_from,
                                                .join_blocking = image_libc_join_blocking,
                                                .mask_of_others = image_mask_of_others};
