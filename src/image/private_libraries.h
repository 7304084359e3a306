/* SPDX-License-Identifier: BSD-3-Clause
 *
 * private_libraries.h: which shared libraries each rank gets a copy of. Private to src/image.
 */
#ifndef IMAGE_PRIVATE_LIBRARIES_H
#define IMAGE_PRIVATE_LIBRARIES_H

#include "image/program.h"

/* Decides for every loaded module; modules[0] is the program. */
void image_private_libraries_mark(const struct image_module *modules, size_t count);

/* What was decided for modules[index]. */
bool image_private_libraries_has(size_t index);

/* Is the file one of those that are never private (the C and C++ runtime and the like)? */
bool image_is_runtime_library(const char *path);

#endif
