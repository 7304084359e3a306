/* SPDX-License-Identifier: BSD-3-Clause
 *
 * precedence.h: makes this library's definitions of the C library's functions precede the C library's own,
 * wherever this library is in the order of look-up. Private to src/image.
 */
#ifndef IMAGE_PRECEDENCE_H
#define IMAGE_PRECEDENCE_H

#include "image/copy/program.h"

/* The next definition of the name behind this library's in the order of look-up; NULL: there is none. Any
 * thread, never switches. */
void *image_precedence_next(const char *name);

/* Binds the module's references to the function to this definition, in read-only pages, too. Called before
 * the module's code runs. */
void image_precedence_bind(const struct image_module *module, const char *name, void *definition);

/* Binds the references of loaded modules to all functions that this library defines in place of the C library's; does
 * nothing if the order of look-up has done so. */
void image_precedence_bind_all(const struct image_module *modules, size_t count);

/* The same for all modules, at the program's start. */
void image_precedence_begin(void);

/* True if the program needs this library, itself or through other libraries. Else this library is in the
 * process because of LD_PRELOAD alone. Allocates no memory. */
bool image_precedence_is_needed(void);

/* Removes this library from LD_PRELOAD in an environment: programs that the program starts do not get it. */
void image_precedence_unload(char **environment);

#endif
