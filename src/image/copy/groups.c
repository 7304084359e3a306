/* SPDX-License-Identifier: BSD-3-Clause
 *
 * groups.c: load groups, and the groups of each rank. See groups.h.
 */
#include "image/copy/groups.h"

#include "base/log.h"
#include "image/copy/instantiate.h"
#include "image/copy/lazy_tls.h"
#include "image/copy/scope.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

struct image_program *image_groups[IMAGE_GROUPS_MAX] = {&image_program};
_Atomic size_t image_n_groups = 1;

/* ---- Planning ---- */

/* A group without a plan. */
static struct image_program *new_group(const struct image_module *modules, size_t count, size_t number)
{
    struct image_program *group = base_calloc(1, sizeof *group, "the plan of a library");

    group->number = number;
    group->is_relro_protected = image_program.is_relro_protected;
    group->needs = base_calloc(IMAGE_GROUPS_MAX, sizeof *group->needs, "the plan of a library");
    for (size_t i = 0; i < count; i++)
        image_array_push(&group->modules, &group->n_modules, sizeof *modules, &modules[i]);
    return group;
}

bool image_group_add(struct image *image, const struct image_module *modules, size_t count, bool is_deep,
                     size_t *number_out, const char **error_out)
{
    size_t number = atomic_load(&image_n_groups);
    struct image_program *group;

    if (number == IMAGE_GROUPS_MAX) {
        *error_out = image_error("libraries with per-rank variables were opened %d times, which is the limit",
                                 IMAGE_GROUPS_MAX - 1);
        return false;
    }
    group = new_group(modules, count, number);
    group->is_deep = is_deep;
    for (size_t i = 0; i < count; i++) {
        group->modules[i].is_pristine = true;
        image_lazy_tls_add(&group->modules[i]);
    }
    image_modules_order(group);
    group->scope = image_scope_for(image_group_scope(image), group);
    if (!image_program_plan(group, error_out))
        return false; /* allocations stay: this is rare */
    group->is_open = true;
    image_groups[number] = group;
    atomic_store_explicit(&image_n_groups, number + 1, memory_order_release);
    *number_out = number;
    return true;
}

/* Plans a published group again, for ranks with another scope. */
static struct image_program *add_variant(struct image_program *group, struct image_scope scope)
{
    struct image_program *variant = new_group(group->modules, group->n_modules, group->number);
    const char *error;

    for (size_t i = 0; i < variant->n_modules; i++)
        variant->modules[i].n_data = 0;
    variant->init_order = group->init_order;
    variant->is_deep = group->is_deep;
    variant->scope = scope;
    if (!image_program_plan(variant, &error))
        base_fatal(1, "cannot make a rank's copy of %s, which it opens: %s", group->modules[0].name, error);
    variant->is_open = true;
    variant->variant = group->variant;
    group->variant = variant;
    base_log_verbose(1, "%s: another plan of load group %zu", group->modules[0].name, group->number);
    return variant;
}

/* The plan of the group for a rank with this scope. Any thread. */
static const struct image_program *plan_for(struct image_program *group, const struct image_scope *rank)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards variants, and answers kept in groups */
    struct image_program *plan = group;
    struct image_scope scope;

    pthread_mutex_lock(&lock);
    scope = image_scope_for(rank, group);
    while (plan && !image_scope_is_equal(&plan->scope, &scope))
        plan = plan->variant;
    if (plan)
        image_scope_free(&scope);
    else
        plan = add_variant(group, scope);
    pthread_mutex_unlock(&lock);
    return plan;
}

const struct image_module *image_module_of_map(const struct link_map *map)
{
    size_t n_groups = atomic_load_explicit(&image_n_groups, memory_order_acquire);

    for (size_t number = 0; number < n_groups; number++)
        for (size_t i = 0; i < image_groups[number]->n_modules; i++)
            if (image_groups[number]->modules[i].link_map == map)
                return &image_groups[number]->modules[i];
    return NULL;
}

/* ---- The groups of a rank ---- */

/* A library that the rank has opened. */
struct opened {
    struct opened *next;
    const void *handle;
    int count;
};

struct image_late {
    pthread_mutex_t lock; /* recursive: a constructor may open more; held while constructors run */
    _Atomic bool has_group[IMAGE_GROUPS_MAX];
    struct image_scope scope;
    struct opened *opened;
    const struct image_module **to_end; /* in the order of their constructors; their destructors have not
                                         * run */
    size_t n_to_end;
};

/* The rank's list, created at its first dlopen. */
static struct image_late *late_of(struct image *image)
{
    struct image_late *late = atomic_load(&image->late), *other = NULL;
    pthread_mutexattr_t attributes;

    if (late)
        return late;
    late = base_calloc(1, sizeof *late, "the libraries that a rank has opened");
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&late->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    if (atomic_compare_exchange_strong(&image->late, &other, late))
        return late;
    free(late); /* another thread of the rank was faster */
    return other;
}

bool image_has_group(const struct image *image, size_t number)
{
    struct image_late *late = atomic_load(&image->late);

    return number == 0 || (late && atomic_load(&late->has_group[number]));
}

const struct image_scope *image_group_scope(const struct image *image)
{
    static const struct image_scope nothing;
    const struct image_late *late = atomic_load(&image->late);

    return late ? &late->scope : &nothing;
}

/* Gives the rank the groups that this one needs by name. */
static void enter_needed(struct image *image, const struct image_program *group)
{
    for (size_t i = 0; i < group->n_modules; i++)
        for (size_t j = 0; j < group->modules[i].n_needed; j++) {
            const struct image_module *needed = image_module_of_map(group->modules[i].needed[j]);

            if (needed && needed->group > 0)
                image_group_enter(image, needed->group, NULL);
        }
}

/* Runs no code of the program in between: a group becomes available as a whole. */
static void enter_one(struct image *image, struct image_late *late, struct image_program *group,
                      const struct image_module *global)
{
    const struct image_program *plan;

    atomic_store(&late->has_group[group->number], true);
    enter_needed(image, group);
    plan = plan_for(group, &late->scope);
    for (size_t i = 1; i < group->number; i++)
        if (plan->needs[i])
            image_group_enter(image, i, NULL);
    if (!image_fill(image, plan))
        base_fatal(1, "out of memory: cannot make a rank's copy of %s, which it opens: %s",
                   group->modules[0].name, strerror(errno));
    image_scope_add_group(&late->scope, group->number);
    if (global)
        image_scope_add_globals(&late->scope, global);
    for (size_t i = 0; i < group->n_modules; i++) {
        const struct image_module *module = &group->modules[group->init_order[i]];

        image_array_push(&late->to_end, &late->n_to_end, sizeof module, &module);
        image_construct(image, module);
    }
}

void image_group_enter(struct image *image, size_t number, const struct image_module *global)
{
    struct image_late *late = late_of(image);

    pthread_mutex_lock(&late->lock);
    if (!atomic_load(&late->has_group[number]))
        enter_one(image, late, image_groups[number], global);
    else if (global)
        image_scope_add_globals(&late->scope, global);
    pthread_mutex_unlock(&late->lock);
}

void image_groups_finish(struct image *image)
{
    struct image_late *late = atomic_load(&image->late);

    while (late && late->n_to_end > 0) {
        image_destruct(image, late->to_end[late->n_to_end - 1]);
        late->n_to_end--;
    }
}

bool image_group_count(struct image *image, const void *handle, int n)
{
    struct image_late *late = late_of(image);
    struct opened *opened;
    bool is_counted;

    pthread_mutex_lock(&late->lock);
    opened = late->opened;
    while (opened && opened->handle != handle)
        opened = opened->next;
    if (!opened && n > 0) {
        opened = base_calloc(1, sizeof *opened, "the libraries that a rank has opened");
        opened->handle = handle;
        opened->next = late->opened;
        late->opened = opened;
    }
    is_counted = opened && opened->count + n >= 0;
    if (is_counted)
        opened->count += n;
    pthread_mutex_unlock(&late->lock);
    return is_counted;
}
