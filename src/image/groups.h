/* SPDX-License-Identifier: BSD-3-Clause
 *
 * groups.h: load groups: what came into the process at one time. Private to src/image.
 *
 * Group 0 is the program with the libraries that were loaded with it (image_program). Each dlopen of a rank
 * that brings private libraries makes one more. A group has one offset from the base in all copies, whether
 * or not a rank has it; a rank gets it when it opens one of its libraries, or one that needs them.
 *
 * Groups are never taken away. They are published by the count, so that the unwinder reads them without a
 * lock; all else is written under the lock of rebind_dlopen.c.
 */
#ifndef IMAGE_GROUPS_H
#define IMAGE_GROUPS_H

#include "image/program.h"

#define IMAGE_GROUPS_MAX 1024

extern struct image_program *image_groups[IMAGE_GROUPS_MAX];
extern _Atomic size_t image_n_groups;

/* Plans a group of these modules, of which no code has run, and publishes it; they are copied into it. false:
 * that cannot be done; *error_out says why. */
bool image_group_add(const struct image_module *modules, size_t count, size_t *number_out,
                     const char **error_out) BASE_MUST_CHECK;

/* The module of any group that ld.so describes so; NULL: none. */
const struct image_module *image_module_of_map(const struct link_map *map);

/* ---- What a rank has of them ---- */

struct image;

/* Has the rank this group? Any thread. */
bool image_has_group(const struct image *image, size_t number);

/* Gives the rank the group and those that it needs, and runs their constructors. On the rank's ULT or one of
 * its threads. May switch. Ends the process with a message if there is no memory. */
void image_group_enter(struct image *image, size_t number);

/* Runs the destructors of all groups but 0, the newest first; what is done is not done again. May switch. */
void image_groups_finish(struct image *image);

/* Counts one more (n = 1) or one less (n = -1) dlopen of a library by the rank. false: it has not opened
 * it. */
bool image_group_count(struct image *image, const void *handle, int n);

/* ---- opener.c: loading without running constructors ---- */

/* The libraries that a dlopen has loaded. */
struct image_loaded {
    struct image_module *modules; /* the private ones: constructors have not run; free() it */
    size_t count;
};

/* Loads the library `name` for a rank, as dlopen would that the prototype of `caller` (NULL: this library)
 * called: its handle. Constructors of private libraries do not run. NULL: dlerror says why. Never switches.
 * One thread at a time. */
void *image_opener_open(const struct image_module *caller, const char *name, int mode,
                        struct image_loaded *loaded_out);

/* Runs the constructors of modules on the prototype after all: the ranks share them. */
void image_opener_construct(const struct image_loaded *loaded);

/* The prototypes' destructors will not run. */
void image_opener_drop_destructors(const struct image_loaded *loaded);

#endif
