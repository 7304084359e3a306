/* SPDX-License-Identifier: BSD-3-Clause
 *
 * imports.h: replaces functions that a loaded library imports (CUDA's driver, UCX's modules), in its global offset table.
 */
#ifndef GPU_IMPORTS_H
#define GPU_IMPORTS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

/* A function that a library imports, and its replacement. */
struct gpu_import {
    const char *name;
    void (*function)(void);
};

/* The first entry of the loader's list: the program. NULL: unknown. */
struct link_map *gpu_imports_first_library(void);

/* True if the basename of path starts with name. */
bool gpu_imports_is_library(const char *path, const char *name);

/* Redirects these imports of a library; sets is_found[i] for each of them that the library has. Calls under way are not
 * affected. */
void gpu_imports_redirect(const struct link_map *map, const struct gpu_import *imports, size_t n_imports,
                          bool *is_found);

/* True if the library imports a function of this name. */
bool gpu_imports_has(const struct link_map *map, const char *name);

#endif
