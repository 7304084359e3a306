/* SPDX-License-Identifier: BSD-3-Clause
 *
 * scope.h: where the symbols of opened libraries are looked up, for each rank. Private to src/image.
 *
 * ld.so binds the symbols of a library once, in a process in which other ranks may have opened other libraries: with
 * RTLD_GLOBAL, or with symbols that exist once per process (STB_GNU_UNIQUE). For a rank, the order of look-up is that of a
 * process of its own:
 *
 *   1. the program and the libraries that were loaded with it (ld.so's answer, for the process's program);
 *   2. the libraries that the rank has opened with RTLD_GLOBAL, in the order of opening;
 *   3. the opened library and those that it needs; with RTLD_DEEPBIND before all others.
 *
 * A symbol that exists once per process exists once per rank: its definition is that of the load group that the rank
 * got first.
 */
#ifndef IMAGE_SCOPE_H
#define IMAGE_SCOPE_H

#include "image/copy/program.h"

/* STB_GNU_UNIQUE: a symbol with one definition in a process. */
#define IMAGE_STB_UNIQUE 10

struct image_scope_item {
    const struct link_map *map;              /* a library; NULL in a list of groups */
    size_t group;                            /* number of a load group */
    _Atomic(struct image_scope_item *) next; /* next in its list */
};

/* A definition of a symbol. */
struct image_definition {
    const struct link_map *map;        /* the library that has it */
    const struct image_module *module; /* the same; NULL: the ranks share it */
    const ElfW(Sym) * symbol;
};

/* Adds what a rank has opened, unless the list has it. One thread of the rank at a time; others may read. */
void image_scope_add_globals(struct image_scope *scope, const struct image_module *opened);
void image_scope_add_group(struct image_scope *scope, size_t number);

/* The part of a rank's scope that can change the definitions that the group's symbols are bound to. Not thread-safe: it
 * keeps answers in the group. */
struct image_scope image_scope_for(const struct image_scope *rank, struct image_program *group);
bool image_scope_is_equal(const struct image_scope *a, const struct image_scope *b);
void image_scope_free(struct image_scope *scope);

/* Finds the first definition in steps 2 and 3. group: the load group whose libraries maps[] are, which is possibly not
 * published yet; NULL: none. maps: the libraries of step 3. */
bool image_scope_find(const struct image_scope *scope, const struct image_program *group,
                      const struct link_map *const *maps, size_t n_maps, const char *name,
                      const char *version, struct image_definition *definition_out);

/* The same in step 3 only. */
bool image_scope_find_in(const struct image_scope *scope, const struct image_program *group,
                         const struct link_map *const *maps, size_t n_maps, const char *name,
                         const char *version, struct image_definition *definition_out);

/* True if the prototype's value for a symbol of the group may not be the rank's: it is in another group, or nowhere, or there
 * are libraries in the group's scope. */
bool image_scope_may_differ(const struct image_program *group, const void *value);

/* The value in the prototype for a symbol of the group. by_loader: ld.so's answer for the whole process (RTLD_DEFAULT). */
void *image_scope_value(const struct image_program *group, const char *name, const char *version,
                        void *by_loader);

/* The address in the prototype, or in a shared library; NULL for a thread_local variable that is allocated at its first
 * use. */
void *image_definition_value(const struct image_definition *definition, const char *name,
                             const char *version);

#endif
