/* SPDX-License-Identifier: BSD-3-Clause
 *
 * private_libraries.h: the shared libraries that each rank gets a copy of. Private to src/image.
 */
#ifndef IMAGE_PRIVATE_LIBRARIES_H
#define IMAGE_PRIVATE_LIBRARIES_H

#include "image/copy/program.h"

/* ---- shared_libraries.c: the list ---- */

enum {
    IMAGE_SHARED_ALWAYS = 1, /* the user's list cannot make it private */
    IMAGE_SHARED_ALONE = 2,  /* its dependencies may be private: it uses the prototypes, and ranks pass it
                              * none of their objects */
};

struct image_shared_library {
    const char *names; /* of files, up to ".so", separated by spaces; a trailing '*' matches any suffix */
    unsigned flags;    /* IMAGE_SHARED_* */
    const char *why;   /* end of a sentence: "NAME is shared: it ..." */
};

/* The row that matches the file; NULL: none. */
const struct image_shared_library *image_shared_library_find(const char *path);

/* Private even where a shared library needs it. */
bool image_is_private_for_all(const char *path);

/* True if a library that libmpi opens may need it. */
bool image_is_used_by_shared(const char *path);

/* True if the file is one of those that are never private (the C and C++ runtime, for example). */
bool image_is_runtime_library(const char *path);

/* ---- private_libraries.c ---- */

/* Decides for every loaded module; modules[0] is the program. Returns false if the user's list names a
 * library that does not exist, or that is always shared. */
bool image_private_libraries_mark(struct image_module *modules, size_t count,
                                  const char **error_out) BASE_MUST_CHECK;

/* Decides for the modules that a rank has just opened (is_late): clears is_late of those that are shared,
 * and reports their variables on stderr. Earlier modules stay shared or private. */
void image_private_libraries_mark_late(struct image_module *modules, size_t count, bool *is_late);

/* The decision for modules[index]. */
bool image_private_libraries_has(size_t index);

#endif
