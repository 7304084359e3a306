/* SPDX-License-Identifier: BSD-3-Clause
 *
 * groups.h: load groups: modules that were loaded together. Private to src/image.
 *
 * Group 0 is the program with the libraries that were loaded with it (image_program). Each dlopen by a rank
 * that loads private libraries creates another one. A group has the same offset from the base in all
 * copies, whether or not a rank has it. A rank gets it when it opens one of its libraries, or a library
 * that needs one of them.
 *
 * A program that is loaded later (load_program.c) is a group, too: its ranks have it in place of group 0, and it is the root of
 * what they open. Each group has one root; a library that ranks of two programs have is in a group of each.
 *
 * Groups are never removed. The count publishes them, so that the unwinder reads them without a lock;
 * everything else is written under the lock of rebind_dlopen.c.
 *
 * ld.so binds all symbols when a group is loaded, whichever mode the caller passes, so that it handles
 * RTLD_LOCAL, versions and DEEPBIND; only if that fails, and the caller passed RTLD_LAZY, those that can be
 * bound are. If a rank has opened other libraries with RTLD_GLOBAL, or has other definitions of symbols that exist once
 * per process, its copy has another plan (scope.h). dlclose only counts: destructors run at the rank's end, and a
 * second dlopen returns the same variables. RTLD_DEFAULT and RTLD_NOLOAD answer for the rank: what only other ranks have
 * opened does not exist.
 *
 * A library that cannot be copied is shared, with a message: thread_local variables at fixed distances,
 * relocations in code, no address space left (2 TiB for all ranks, at most 64 GiB each). dlopen in the code
 * of a shared library, and dlmopen, are ld.so's.
 */
#ifndef IMAGE_GROUPS_H
#define IMAGE_GROUPS_H

#include "image/copy/program.h"

#define IMAGE_GROUPS_MAX 1024

struct image;

extern struct image_program *image_groups[IMAGE_GROUPS_MAX];
extern _Atomic size_t image_n_groups;

/* Plans a group of these modules, none of whose code has run, and publishes it; the modules are copied into
 * it. modules[0]: the library that the rank opens. is_deep: with RTLD_DEEPBIND. Returns false if that is impossible; *error_out
 * says why. */
bool image_group_add(struct image *image, const struct image_module *modules, size_t count, bool is_deep,
                     size_t *number_out, const char **error_out) BASE_MUST_CHECK;

/* The same for a program: modules[0], and its private libraries. */
bool image_group_add_program(const struct image_module *modules, size_t count,
                             struct image_program **program_out, const char **error_out) BASE_MUST_CHECK;

/* True if there is more than one program. */
bool image_groups_have_programs(void);

/* Finds the modules that a group needs for the library with this handle of ld.so: the library and its dependencies
 * that are private (loaded[] just now, or for ranks of other programs) and that ranks of the program root (NULL: a
 * program that does not exist yet) do not have. *modules_out: free() it. */
void image_groups_collect(const struct image_program *root, const struct link_map *map,
                          const struct image_module *loaded, size_t n_loaded,
                          struct image_module **modules_out, size_t *count_out);

/* True if ranks of some program have their own copies of this library. */
bool image_module_is_private(const struct link_map *map);

/* The module with this descriptor of ld.so among those that ranks of the program can have; NULL: none. */
const struct image_module *image_module_of_map(const struct image_program *root, const struct link_map *map);

/* ---- The groups of a rank ---- */

/* True if the rank has this group. Any thread. */
bool image_has_group(const struct image *image, size_t number);

/* Gives the rank the group and its dependencies, and runs their constructors. global: a module of the group that the rank
 * opens with RTLD_GLOBAL; NULL: none. On the rank's ULT or one of its threads. May switch. Ends the process with a message if
 * memory is exhausted. */
void image_group_enter(struct image *image, size_t number, const struct image_module *global);

/* The libraries that the rank has opened; may be empty. */
const struct image_scope *image_group_scope(const struct image *image);

/* Runs the destructors of all groups but 0, the newest first, each destructor once. May switch. */
void image_groups_finish(struct image *image);

/* True if the process may keep addresses of code of the groups that the rank has opened (image_program_lends_code). */
bool image_groups_lend_code(const struct image *image);

/* Frees the list of what a rank has opened, whose copy is unmapped. */
void image_groups_free(struct image *image);

/* Adds n (1 or -1) to the number of times the rank has opened a library. Returns false if the rank has not
 * opened it. */
bool image_group_count(struct image *image, const void *handle, int n);

/* ---- opener.c: loading without running constructors ---- */

/* The libraries loaded by a dlopen. */
struct image_loaded {
    struct image_module *modules; /* the private ones, whose constructors have not run; free() it */
    size_t count;
    const char *stranger; /* of a program: a sentence about a library that is another file; NULL: none */
};

/* Loads the library `name` for a rank and returns its handle, as a dlopen called by the prototype of
 * `caller` (NULL: this library) would. Constructors of private libraries do not run. NULL: dlerror says
 * why. Never switches. One thread at a time. */
void *image_opener_open(const struct image_module *caller, const char *name, int mode,
                        struct image_loaded *loaded_out);

/* The same for several names; the handle is that of the first. folders: a search list, which has the meaning of search_tag
 * (DT_RPATH or DT_RUNPATH); NULL: none. is_program: names[0] is a program's copy, of which no rank runs. */
void *image_opener_open_all(const char *const *names, size_t n_names, const char *folders,
                            ElfW(Sxword) search_tag, int mode, bool is_program,
                            struct image_loaded *loaded_out);

/* Writes a path of a file in memory, of which no path has been written before, although numbers of descriptors repeat: ld.so
 * takes a loaded file of this path. Under base_loader_lock. */
enum { IMAGE_MEMORY_PATH_MAX = 96 };
void image_memory_path(int fd, char *path_out);

/* Runs the constructors of the modules on the prototype after all: the ranks will share them. */
void image_opener_construct(const struct image_loaded *loaded);

/* Keeps the prototypes' destructors from running. */
void image_opener_drop_destructors(const struct image_loaded *loaded);

#endif
