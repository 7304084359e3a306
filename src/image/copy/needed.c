/* SPDX-License-Identifier: BSD-3-Clause
 *
 * needed.c: the libraries that a module needs, the order of constructors, and the order in which a module's symbols are
 * looked up.
 *
 * A module names the libraries that it needs (DT_NEEDED). ld.so may have found such a name in several ways: as a DT_SONAME,
 * or as a file's name, which can be that of a symbolic link. Only ld.so knows all names of a library, so it is asked where
 * nothing else answers.
 *
 * Constructors run as ld.so (glibc 2.35 and later) runs them: depth first, from the module that was loaded last, along
 * DT_NEEDED in its order. Symbols are looked up breadth first along DT_NEEDED.
 */
#include "image/copy/program.h"

#include "base/log.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The last component of a path. */
static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* ---- Names ---- */

/* The name in an entry of the dynamic section; NULL: it is not DT_NEEDED. */
static const char *needed_name(const struct image_module *module, const ElfW(Dyn) * entry)
{
    bool is_name = entry->d_tag == DT_NEEDED && module->strtab && entry->d_un.d_val < module->strtab_bytes;

    return is_name ? module->strtab + entry->d_un.d_val : NULL;
}

bool image_module_names(const struct image_module *module, const struct image_module *other)
{
    if (!module->dynamic || !other->soname)
        return false;
    for (const ElfW(Dyn) *d = module->dynamic; d->d_tag != DT_NULL; d++) {
        const char *name = needed_name(module, d);

        if (name && (strcmp(file_name(name), other->soname) == 0 ||
                     strcmp(file_name(name), file_name(other->name)) == 0))
            return true;
    }
    return false;
}

/* ---- Modules ---- */

/* True if the name, in the folder of the module's file, is this file: its own name, or that of a symbolic link. A name with
 * a '/' is a path. */
static bool is_file(const struct image_module *module, const char *name)
{
    size_t folder_len = strchr(name, '/') ? 0 : (size_t)(file_name(module->name) - module->name);
    struct stat file, named;
    char path[1024];

    if (!strchr(module->name, '/') ||
        snprintf(path, sizeof path, "%.*s%s", (int)folder_len, module->name, name) >= (int)sizeof path)
        return false;
    return stat(path, &named) == 0 && stat(module->name, &file) == 0 && named.st_ino == file.st_ino &&
           named.st_dev == file.st_dev;
}

/* ld.so's descriptor of the loaded library with this name; NULL: none. */
static const struct link_map *find_loaded(const struct image_module *modules, size_t count, const char *name,
                                          bool is_loading)
{
    const struct link_map *found = NULL;
    size_t n_found = 0;
    void *handle = NULL;

    for (size_t i = 0; i < count; i++)
        if (modules[i].dynamic && modules[i].link_map && strcmp(modules[i].soname, name) == 0 &&
            n_found++ == 0)
            found = modules[i].link_map;
    for (size_t i = 0; i < count && !found; i++)
        if (modules[i].dynamic && is_file(&modules[i], name))
            found = modules[i].link_map;
    if (!is_loading && (!found || n_found > 1))
        handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (handle)
        dlclose(handle);
    return handle ? handle : found;
}

void image_modules_resolve(struct image_module *modules, size_t count, bool is_loading)
{
    for (size_t i = 0; i < count; i++)
        for (const ElfW(Dyn) *d = modules[i].dynamic; d && d->d_tag != DT_NULL; d++) {
            const char *name = needed_name(&modules[i], d);
            const struct link_map *map = name ? find_loaded(modules, count, name, is_loading) : NULL;

            if (map)
                image_array_push(&modules[i].needed, &modules[i].n_needed, sizeof map, &map);
        }
}

bool image_module_needs(const struct image_module *module, const struct image_module *other)
{
    size_t i = 0;

    while (i < module->n_needed && module->needed[i] != other->link_map)
        i++;
    return i < module->n_needed;
}

size_t image_modules_index(const struct image_module *modules, size_t count, const struct link_map *map)
{
    size_t i = 0;

    while (i < count && modules[i].link_map != map)
        i++;
    return i;
}

/* ---- The order of look-up ---- */

static void add_to_scope(struct image_module *module, const struct link_map *map)
{
    size_t i = 0;

    while (i < module->n_scope && module->scope[i] != map)
        i++;
    if (i == module->n_scope)
        image_array_push(&module->scope, &module->n_scope, sizeof map, &map);
}

/* Adds the libraries of LD_PRELOAD, which follow the program. */
static void add_preloaded(struct image_module *program)
{
    const char *list = secure_getenv("LD_PRELOAD");

    while (list && *list) {
        size_t len = strcspn(list, ": ");
        char *name = strndup(list, len);
        void *handle = name && len ? dlopen(name, RTLD_LAZY | RTLD_NOLOAD) : NULL;

        if (handle) {
            add_to_scope(program, handle);
            dlclose(handle);
        }
        free(name);
        list += len;
        list += strspn(list, ": ");
    }
}

void image_modules_set_scope(struct image_module *modules, size_t count, size_t index, bool is_program)
{
    struct image_module *module = &modules[index];

    module->n_scope = 0;
    add_to_scope(module, module->link_map);
    if (is_program)
        add_preloaded(module);
    for (size_t i = 0; i < module->n_scope; i++) {
        size_t next = image_modules_index(modules, count, module->scope[i]);

        for (size_t j = 0; next < count && j < modules[next].n_needed; j++)
            add_to_scope(module, modules[next].needed[j]);
    }
}

/* ---- The order of constructors ---- */

/* Appends a module's private dependencies, and then itself, to the order of constructors. */
static void add_init_order(struct image_program *program, size_t index, bool *is_seen, size_t *count)
{
    const struct image_module *module = &program->modules[index];

    if (is_seen[index])
        return;
    is_seen[index] = true;
    for (size_t i = 0; i < module->n_needed; i++) {
        size_t needed = image_modules_index(program->modules, program->n_modules, module->needed[i]);

        if (needed < program->n_modules)
            add_init_order(program, needed, is_seen, count);
    }
    program->init_order[(*count)++] = index;
}

void image_modules_order(struct image_program *program)
{
    bool *is_seen = base_calloc(program->n_modules, sizeof *is_seen, "the order of constructors");
    size_t n_ordered = 0;

    program->init_order =
        base_calloc(program->n_modules, sizeof *program->init_order, "the order of constructors");
    /* Last first: modules without a DT_NEEDED entry elsewhere (opened by a constructor) come before the
     * program, too. */
    for (size_t i = program->n_modules; i-- > 0;)
        add_init_order(program, i, is_seen, &n_ordered);
    free(is_seen);
}
