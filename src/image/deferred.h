/* SPDX-License-Identifier: BSD-3-Clause
 *
 * deferred.h: constructors of libraries that ld.so has not run. Private to src/image.
 */
#ifndef IMAGE_DEFERRED_H
#define IMAGE_DEFERRED_H

#include "image/program.h"

/* Keeps ld.so from running the constructors of all libraries that may become private. At the start of the
 * program, before any of them has run. */
void image_deferred_begin(char **envp);

/* Makes the dynamic sections what they were. What the constructors will get as arguments. */
void image_deferred_end(int argc, char **argv, char **envp);

/* Runs the constructors that were deferred of modules[index] and of all that it needs, dependencies first, on
 * the prototypes. */
void image_deferred_run(const struct image_module *modules, size_t count, size_t index);

/* The same for all modules of the process. */
void image_deferred_run_all(void);

/* Are the module's variables in the prototype as ld.so left them: its constructors were deferred and have not
 * run? */
bool image_deferred_has(const struct image_module *module);

/* Keeps ld.so from running the destructors of what was not constructed. */
void image_deferred_drop_destructors(void);

/* A word of a module's dynamic section or of its arrays of functions, which may be read-only by now. */
void image_patch_word(uintptr_t bias, const ElfW(Phdr) * phdr, size_t n_phdrs, void *word, size_t value);

#endif
