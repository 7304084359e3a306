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

/* A group without a plan. root NULL: it is a program. */
static struct image_program *new_group(struct image_program *root, const struct image_module *modules,
                                       size_t count, size_t number)
{
    struct image_program *group = base_calloc(1, sizeof *group, "the plan of a library");

    group->number = number;
    group->root = root ? root : group;
    group->scope.root = group->root;
    group->is_relro_protected = image_program.is_relro_protected;
    group->needs = base_calloc(IMAGE_GROUPS_MAX, sizeof *group->needs, "the plan of a library");
    for (size_t i = 0; i < count; i++)
        image_array_push(&group->modules, &group->n_modules, sizeof *modules, &modules[i]);
    return group;
}

/* A group that is not published. image: of the rank that opens it; NULL: it is a program. NULL: there are too many, with the
 * reason. */
static struct image_program *begin_group(struct image *image, const struct image_module *modules,
                                         size_t count, const char **error_out)
{
    size_t number = atomic_load(&image_n_groups);
    struct image_program *group;

    if (number == IMAGE_GROUPS_MAX) {
        *error_out = image_error("libraries with per-rank variables were opened %d times, which is the limit",
                                 IMAGE_GROUPS_MAX - 1);
        return NULL;
    }
    group = new_group(image ? image->program : NULL, modules, count, number);
    for (size_t i = 0; i < count; i++)
        image_lazy_tls_add(&group->modules[i]);
    image_modules_order(group);
    if (image)
        group->scope = image_scope_for(image_group_scope(image), group);
    return group;
}

/* Plans and publishes it. */
static bool add_group(struct image_program *group, const char **error_out)
{
    if (!image_program_plan(group, error_out))
        return false; /* allocations stay: this is rare */
    group->is_open = true;
    image_groups[group->number] = group;
    atomic_store_explicit(&image_n_groups, group->number + 1, memory_order_release);
    return true;
}

bool image_group_add(struct image *image, const struct image_module *modules, size_t count, bool is_deep,
                     size_t *number_out, const char **error_out)
{
    struct image_program *group = begin_group(image, modules, count, error_out);

    if (!group)
        return false;
    group->is_deep = is_deep;
    *number_out = group->number;
    return add_group(group, error_out);
}

bool image_group_add_program(const struct image_module *modules, size_t count,
                             struct image_program **program_out, const char **error_out)
{
    struct image_program *program = begin_group(NULL, modules, count, error_out);

    if (!program || !add_group(program, error_out))
        return false;
    *program_out = program;
    return true;
}

/* Plans a published group again, for ranks with another scope. */
static struct image_program *add_variant(struct image_program *group, struct image_scope scope)
{
    struct image_program *variant = new_group(group->root, group->modules, group->n_modules, group->number);
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

const struct image_module *image_module_of_map(const struct image_program *root, const struct link_map *map)
{
    size_t n_groups = atomic_load_explicit(&image_n_groups, memory_order_acquire);

    for (size_t number = 0; number < n_groups; number++)
        for (size_t i = 0; image_groups[number]->root == root && i < image_groups[number]->n_modules; i++)
            if (image_groups[number]->modules[i].link_map == map)
                return &image_groups[number]->modules[i];
    return NULL;
}

/* ---- Several programs ---- */

bool image_groups_have_programs(void)
{
    size_t n_groups = atomic_load_explicit(&image_n_groups, memory_order_acquire);
    size_t number = 0;

    while (number < n_groups && image_groups[number]->root == &image_program)
        number++;
    return number < n_groups;
}

/* The module with this descriptor for ranks of any program; NULL: none. */
static const struct image_module *module_anywhere(const struct link_map *map)
{
    size_t n_groups = atomic_load_explicit(&image_n_groups, memory_order_acquire);
    const struct image_module *module = NULL;

    for (size_t number = 0; number < n_groups && !module; number++)
        if (image_groups[number]->root == image_groups[number])
            module = image_module_of_map(image_groups[number], map);
    return module;
}

bool image_module_is_private(const struct link_map *map)
{
    return module_anywhere(map) != NULL;
}

void image_groups_collect(const struct image_program *root, const struct link_map *map,
                          const struct image_module *loaded, size_t n_loaded,
                          struct image_module **modules_out, size_t *count_out)
{
    struct image_module *all;
    size_t n_all, first;
    bool *is_kept;

    *modules_out = NULL;
    *count_out = 0;
    image_modules_list(false, &all, &n_all);
    is_kept = base_calloc(n_all, sizeof *is_kept, "the list of libraries");
    first = image_modules_index(all, n_all, map);
    image_modules_set_scope(all, n_all, first, !root);
    for (size_t i = 0; i < all[first].n_scope; i++) {
        size_t index = image_modules_index(all, n_all, all[first].scope[i]);
        size_t new = image_modules_index(loaded, n_loaded, all[first].scope[i]);
        const struct image_module *module =
            new < n_loaded ? &loaded[new] : module_anywhere(all[first].scope[i]);

        if (index == n_all || !module || (root && image_module_of_map(root, module->link_map)))
            continue;
        if (index != first)
            image_modules_set_scope(all, n_all, index, false);
        is_kept[index] = true;
        image_array_push(modules_out, count_out, sizeof *module, module);
        module = &all[index];
        (*modules_out)[*count_out - 1].needed = module->needed;
        (*modules_out)[*count_out - 1].n_needed = module->n_needed;
        (*modules_out)[*count_out - 1].scope = module->scope;
        (*modules_out)[*count_out - 1].n_scope = module->n_scope;
        (*modules_out)[*count_out - 1].n_data = 0;
        (*modules_out)[*count_out - 1].tls_lazy = 0;
    }
    image_modules_free(all, n_all, is_kept);
    free(is_kept);
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
    late->scope.root = image->program;
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

    return number == image->program->number || (late && atomic_load(&late->has_group[number]));
}

const struct image_scope *image_group_scope(const struct image *image)
{
    const struct image_late *late = atomic_load(&image->late);

    return late ? &late->scope : &image->program->scope;
}

/* Gives the rank the groups that this one needs by name. */
static void enter_needed(struct image *image, const struct image_program *group)
{
    for (size_t i = 0; i < group->n_modules; i++)
        for (size_t j = 0; j < group->modules[i].n_needed; j++) {
            const struct image_module *needed = image_module_of_map(group->root, group->modules[i].needed[j]);

            if (needed && needed->is_late)
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
        if (plan->needs[i] && i != image->program->number)
            image_group_enter(image, i, NULL);
    if (!image_fill(image, plan))
        base_fatal(1,
                   "cannot make a rank's copy of %s, which it opens: %s; use fewer ranks, or raise "
                   "vm.max_map_count or `ulimit -v`",
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

bool image_groups_lend_code(const struct image *image)
{
    size_t n_groups = atomic_load_explicit(&image_n_groups, memory_order_acquire);

    for (size_t number = 1; number < n_groups; number++)
        if (image_has_group(image, number) && image_program_lends_code(image_groups[number]))
            return true;
    return false;
}

void image_groups_free(struct image *image)
{
    struct image_late *late = atomic_exchange(&image->late, NULL);

    if (!late)
        return;
    while (late->opened) {
        struct opened *next = late->opened->next;
        free(late->opened);
        late->opened = next;
    }
    image_scope_free(&late->scope);
    free(late->to_end);
    pthread_mutex_destroy(&late->lock);
    free(late);
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
