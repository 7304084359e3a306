/* SPDX-License-Identifier: BSD-3-Clause
 *
 * deferred.h: postpones constructors of libraries. Private to src/image.
 */
#ifndef IMAGE_DEFERRED_H
#define IMAGE_DEFERRED_H

#include "image/copy/program.h"

/* Keeps ld.so from running the constructors of all libraries that may become private. Called at the
 * program's start, before any of them has run. */
void image_deferred_begin(char **envp);

/* Restores the dynamic sections. The arguments are passed to the constructors later. */
void image_deferred_end(int argc, char **argv, char **envp);

/* Runs the deferred constructors of modules[index] and its dependencies, dependencies first, on the
 * prototypes. */
void image_deferred_run(const struct image_module *modules, size_t count, size_t index);

/* The same for all modules of the process. */
void image_deferred_run_all(void);

/* True if the module's variables in the prototype are as ld.so left them: its constructors were deferred
 * and have not run. */
bool image_deferred_has(const struct image_module *module);

/* Keeps ld.so from running the destructors of libraries that were not constructed. */
void image_deferred_drop_destructors(void);

/* Writes a word of a module's dynamic section or function arrays, which may be read-only by now. */
void image_patch_word(uintptr_t bias, const ElfW(Phdr) * phdr, size_t n_phdrs, void *word, size_t value);

#endif
