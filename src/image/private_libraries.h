/* SPDX-License-Identifier: BSD-3-Clause
 *
 * private_libraries.h: which shared libraries each rank gets a copy of. Private to src/image.
 */
#ifndef IMAGE_PRIVATE_LIBRARIES_H
#define IMAGE_PRIVATE_LIBRARIES_H

#include "image/program.h"

/* ---- shared_libraries.c: the list ---- */

enum {
    IMAGE_SHARED_ALWAYS = 1, /* the user's list cannot make it private */
    IMAGE_SHARED_ALONE = 2,  /* the libraries that it needs may be private: it uses the prototypes, and ranks
                                pass it none of their objects */
};

struct image_shared_library {
    const char *names; /* of files, up to ".so", separated by spaces; a '*' at the end stands for anything */
    unsigned flags;    /* IMAGE_SHARED_* */
    const char *why;   /* a sentence's end: "NAME is shared: it ..." */
};

/* The row of the list that fits the file; NULL: none does. */
const struct image_shared_library *image_shared_library_find(const char *path);

/* Private even where a shared library needs it. */
bool image_is_private_for_all(const char *path);

/* May a library that libmpi opens need it? */
bool image_is_used_by_shared(const char *path);

/* Is the file one of those that are never private (the C and C++ runtime and the like)? */
bool image_is_runtime_library(const char *path);

/* ---- private_libraries.c ---- */

/* Decides for every loaded module; modules[0] is the program. false: the user's list names a library that is
 * not there, or that is always shared. */
bool image_private_libraries_mark(struct image_module *modules, size_t count,
                                  const char **error_out) BASE_MUST_CHECK;

/* Decides for modules that a rank has opened now (is_late): leaves is_late set of those that are private, and
 * says on stderr which others' variables the ranks share. The modules that were there before are shared or
 * private as they were. */
void image_private_libraries_mark_late(struct image_module *modules, size_t count, bool *is_late);

/* The decision for modules[index]. */
bool image_private_libraries_has(size_t index);

#endif
