/* SPDX-License-Identifier: BSD-3-Clause
 *
 * scope.c: see scope.h.
 */
#include "image/copy/scope.h"

#include "image/copy/groups.h"

#include "base/log.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef _Atomic(struct image_scope_item *) list_end;

/* ---- Lists ---- */

/* Appends an item unless the list has an equal one. */
static void add(list_end *end, const struct link_map *map, size_t group)
{
    struct image_scope_item *item = atomic_load(end);

    for (; item; end = &item->next, item = atomic_load(end))
        if (item->map == map && item->group == group)
            return;
    item = base_calloc(1, sizeof *item, "the libraries that a rank has opened");
    item->map = map;
    item->group = group;
    atomic_store(end, item);
}

/* The number of the load group that brought the library; 0: it is the program's, or the ranks share it. */
static size_t group_of(const struct image_program *root, const struct link_map *map)
{
    const struct image_module *module = image_module_of_map(root, map);

    return module && module->is_late ? module->group : 0;
}

void image_scope_add_globals(struct image_scope *scope, const struct image_module *opened)
{
    const struct image_program *root = scope->root;

    for (size_t i = 0; i < opened->n_scope; i++)
        if (image_modules_index(root->modules, root->n_modules, opened->scope[i]) == root->n_modules)
            add(&scope->globals, opened->scope[i], group_of(root, opened->scope[i]));
}

void image_scope_add_group(struct image_scope *scope, size_t number)
{
    add(&scope->groups, NULL, number);
}

static bool lists_are_equal(const list_end *a_end, const list_end *b_end)
{
    const struct image_scope_item *a = atomic_load(a_end), *b = atomic_load(b_end);

    for (; a && b && a->map == b->map && a->group == b->group; a = atomic_load(&a->next))
        b = atomic_load(&b->next);
    return !a && !b;
}

bool image_scope_is_equal(const struct image_scope *a, const struct image_scope *b)
{
    return lists_are_equal(&a->globals, &b->globals) && lists_are_equal(&a->groups, &b->groups);
}

static void free_list(struct image_scope_item *item)
{
    while (item) {
        struct image_scope_item *next = atomic_load(&item->next);

        free(item);
        item = next;
    }
}

void image_scope_free(struct image_scope *scope)
{
    free_list(atomic_load(&scope->globals));
    free_list(atomic_load(&scope->groups));
}

/* ---- What matters to a group ---- */

/* One past the largest index of a symbol in the relocations. */
static size_t end_of_symbols(const ElfW(Rela) * table, size_t count, size_t end)
{
    for (size_t i = 0; i < count; i++)
        if (ELF64_R_SYM(table[i].r_info) >= end)
            end = ELF64_R_SYM(table[i].r_info) + 1;
    return end;
}

/* True if a module defines a symbol that the user refers to, or may. is_unique: only those that exist once per process. */
static bool module_defines(const struct image_module *module, const struct image_module *user, bool is_unique)
{
    size_t end =
        end_of_symbols(user->plt_rela, user->n_plt_relas, end_of_symbols(user->rela, user->n_relas, 1));

    for (size_t i = 1; i < end; i++) {
        const ElfW(Sym) *symbol = &user->symtab[i];

        if (ELF64_ST_BIND(symbol->st_info) == STB_LOCAL || image_symbol_is_own(user, i) ||
            (is_unique && ELF64_ST_BIND(symbol->st_info) != IMAGE_STB_UNIQUE))
            continue;
        if (image_symbol_find(module, user->strtab + symbol->st_name, NULL))
            return true;
    }
    return false;
}

static bool group_defines(size_t number, const struct image_program *user, bool is_unique)
{
    const struct image_program *group = image_groups[number];

    for (size_t i = 0; i < group->n_modules; i++)
        for (size_t j = 0; j < user->n_modules; j++)
            if (module_defines(&group->modules[i], &user->modules[j], is_unique))
                return true;
    return false;
}

/* The answer of group_defines, which is kept in the user. */
static bool matters(size_t number, struct image_program *user, bool is_unique)
{
    enum { KNOWN = 1, YES = 2, UNIQUE_SHIFT = 2 };
    int shift = is_unique ? UNIQUE_SHIFT : 0;

    if (!user->matters)
        user->matters = base_calloc(IMAGE_GROUPS_MAX, 1, "the plan of a library");
    if (!(user->matters[number] >> shift & KNOWN))
        user->matters[number] |=
            (unsigned char)((KNOWN | (group_defines(number, user, is_unique) ? YES : 0)) << shift);
    return user->matters[number] >> shift & YES;
}

struct image_scope image_scope_for(const struct image_scope *rank, struct image_program *group)
{
    struct image_scope scope = {NULL, NULL, rank->root};
    const struct image_scope_item *item;

    for (item = atomic_load(&rank->globals); item; item = atomic_load(&item->next))
        if (item->group == 0 || matters(item->group, group, false))
            add(&scope.globals, item->map, item->group);
    for (item = atomic_load(&rank->groups); item; item = atomic_load(&item->next))
        if (item->group != group->number && matters(item->group, group, true))
            add(&scope.groups, NULL, item->group);
    return scope;
}

/* ---- Looking up ---- */

/* The module with this descriptor: of the group, which may not be published yet, or of a published one. */
static const struct image_module *module_of_map(const struct image_program *root,
                                                const struct image_program *group, const struct link_map *map)
{
    size_t i = group ? image_modules_index(group->modules, group->n_modules, map) : 0;

    return group && i < group->n_modules ? &group->modules[i] : image_module_of_map(root, map);
}

static bool find_one(const struct image_scope *scope, const struct image_program *group,
                     const struct link_map *map, const char *name, const char *version,
                     struct image_definition *definition_out)
{
    struct image_module shared = {.name = map->l_name, .bias = map->l_addr};
    const struct image_module *module = module_of_map(scope->root, group, map);
    const ElfW(Sym) * symbol;

    if (!module)
        image_module_read_dynamic(&shared, map->l_ld);
    symbol = image_symbol_find(module ? module : &shared, name, version);
    if (symbol)
        *definition_out = (struct image_definition){map, module, symbol};
    return symbol;
}

/* Replaces the definition of a symbol that exists once per process by that of the rank's first group with one. */
static void make_unique(const struct image_scope *scope, const char *name, const char *version,
                        struct image_definition *definition)
{
    const struct image_scope_item *item = atomic_load(&scope->groups);

    if (!definition->module || !definition->module->is_late ||
        ELF64_ST_BIND(definition->symbol->st_info) != IMAGE_STB_UNIQUE)
        return;
    for (; item; item = atomic_load(&item->next))
        for (size_t i = 0; i < image_groups[item->group]->n_modules; i++) {
            const struct image_module *module = &image_groups[item->group]->modules[i];
            const ElfW(Sym) *symbol = image_symbol_find(module, name, version);

            if (symbol && ELF64_ST_BIND(symbol->st_info) == IMAGE_STB_UNIQUE) {
                *definition = (struct image_definition){module->link_map, module, symbol};
                return;
            }
        }
}

bool image_scope_find_in(const struct image_scope *scope, const struct image_program *group,
                         const struct link_map *const *maps, size_t n_maps, const char *name,
                         const char *version, struct image_definition *definition_out)
{
    size_t i = 0;

    while (i < n_maps && !find_one(scope, group, maps[i], name, version, definition_out))
        i++;
    if (i == n_maps)
        return false;
    make_unique(scope, name, version, definition_out);
    return true;
}

static bool find_global(const struct image_scope *scope, const char *name, const char *version,
                        struct image_definition *definition_out)
{
    const struct image_scope_item *item = atomic_load(&scope->globals);

    while (item && !find_one(scope, NULL, item->map, name, version, definition_out))
        item = atomic_load(&item->next);
    if (!item)
        return false;
    make_unique(scope, name, version, definition_out);
    return true;
}

bool image_scope_find(const struct image_scope *scope, const struct image_program *group,
                      const struct link_map *const *maps, size_t n_maps, const char *name,
                      const char *version, struct image_definition *definition_out)
{
    if (group && group->is_deep)
        return image_scope_find_in(scope, group, maps, n_maps, name, version, definition_out) ||
               find_global(scope, name, version, definition_out);
    return find_global(scope, name, version, definition_out) ||
           image_scope_find_in(scope, group, maps, n_maps, name, version, definition_out);
}

/* ---- Values ---- */

/* True if ld.so's value is that of another program, or of a library that a rank has opened. */
static bool is_foreign(const struct image_program *group, const void *value)
{
    const struct image_module *module = image_module_of(group, (uintptr_t)value);

    return group->root != &image_program || (module && module->is_late);
}

bool image_scope_may_differ(const struct image_program *group, const void *value)
{
    const struct image_module *module = value ? image_module_of(group, (uintptr_t)value) : NULL;

    return !value || group->root != &image_program || atomic_load(&group->scope.globals) ||
           atomic_load(&group->scope.groups) || (module && module->is_late && module->group != group->number);
}

/* Step 1, for a program other than the process's, whose look-ups are not ld.so's. */
static bool find_in_program(const struct image_program *group, const char *name, const char *version,
                            struct image_definition *definition_out)
{
    const struct image_module *program = &group->root->modules[0];

    return group->root != &image_program && group->root != group &&
           image_scope_find_in(&group->scope, group, program->scope, program->n_scope, name, version,
                               definition_out);
}

void *image_scope_value(const struct image_program *group, const char *name, const char *version,
                        void *by_loader)
{
    const struct image_module *root = &group->modules[0];
    struct image_definition definition;

    if (by_loader && is_foreign(group, by_loader))
        by_loader = NULL;
    if (by_loader && !group->is_deep)
        return by_loader;
    if ((!group->is_deep && find_in_program(group, name, version, &definition)) ||
        image_scope_find(&group->scope, group, root->scope, root->n_scope, name, version, &definition) ||
        (group->is_deep && find_in_program(group, name, version, &definition)))
        return image_definition_value(&definition, name, version);
    return by_loader;
}

/* ld.so's value, which it may have to compute. In glibc a link map is a handle only if its library was opened by itself. */
static void *value_by_loader(const struct link_map *map, const char *name, const char *version)
{
    void *handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    void *value = !handle ? NULL : version ? dlvsym(handle, name, version) : dlsym(handle, name);

    if (handle)
        dlclose(handle);
    return value;
}

void *image_definition_value(const struct image_definition *definition, const char *name, const char *version)
{
    const struct image_module *module = definition->module;
    int type = ELF64_ST_TYPE(definition->symbol->st_info);
    void *value;

    if (!module || (type == STT_TLS && !module->tls_lazy))
        return value_by_loader(definition->map, name, version);
    if (type == STT_TLS)
        return NULL;
    if (definition->symbol->st_shndx == SHN_ABS)
        return (void *)definition->symbol->st_value;
    value = (void *)(module->bias + definition->symbol->st_value);
    return type == STT_GNU_IFUNC ? ((void *(*)(void))value)() : value;
}
