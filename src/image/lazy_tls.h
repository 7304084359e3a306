/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lazy_tls.h: thread_local variables of copied modules, allocated at their first use. Private to src/image.
 */
#ifndef IMAGE_LAZY_TLS_H
#define IMAGE_LAZY_TLS_H

#include "image/program.h"
#include "image/rebind.h"

/* The argument of __tls_get_addr. */
struct image_tls_index {
    size_t module; /* the module number of ld.so, or one assigned by lazy_tls.c */
    size_t offset; /* in the module's block */
};

/* Decides which of the program's modules are lazy: sets module->tls_lazy. Called once all modules are
 * found. */
void image_lazy_tls_find(struct image_program *program);

/* True if the module's code calls __tls_get_addr for its variables. Otherwise they can only be static,
 * which is impossible per rank for a module that is loaded later. */
bool image_lazy_tls_can(const struct image_module *module);

/* Assigns a number to the module if it is lazy; also for modules that are loaded later. Never revoked. The
 * module must not move. */
void image_lazy_tls_add(struct image_module *module);

/* The number that replaces ld.so's module number in a copy. */
size_t image_lazy_tls_number(const struct image_program *program, size_t number);

/* __tls_get_addr for copies. */
void *image_tls_get_addr(const struct image_tls_index *index);

/* Translates the address of a thread_local variable of the prototype into that of the thread; returns
 * addresses outside of lazy blocks unchanged. For dlsym. */
void *image_lazy_tls_translate(struct image_thread *thread, void *prototype_addr);

/* Frees the thread's blocks. */
void image_lazy_tls_free(struct image_thread *thread);

#endif
