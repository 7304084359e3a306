/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lazy_tls.h: thread_local variables of copied modules that are allocated at their first use. Private to
 * src/image.
 */
#ifndef IMAGE_LAZY_TLS_H
#define IMAGE_LAZY_TLS_H

#include "image/program.h"
#include "image/rebind.h"

/* The argument of __tls_get_addr. */
struct image_tls_index {
    size_t module; /* ld.so's number of the module, or one of ours */
    size_t offset; /* in the module's block */
};

/* Decides which of the program's modules are lazy: sets module->tls_lazy. Once all are found. */
void image_lazy_tls_find(struct image_program *program);

/* Does the module's code ask where its variables are? Else they can only be static, which a module that comes
 * later cannot have for each rank. */
bool image_lazy_tls_can(const struct image_module *module);

/* Gives the module a number of ours, if it is lazy; modules that are found later, too. Never removed. The
 * module must stay where it is. */
void image_lazy_tls_add(struct image_module *module);

/* The word that a copy has where the prototype has ld.so's number of a module. */
size_t image_lazy_tls_number(const struct image_program *program, size_t number);

/* __tls_get_addr for copies. */
void *image_tls_get_addr(const struct image_tls_index *index);

/* The address of the thread's own variable for that of the prototype's; the same address if it lies in no
 * lazy block. For dlsym. */
void *image_lazy_tls_translate(struct image_thread *thread, void *prototype_addr);

/* Frees the thread's blocks. */
void image_lazy_tls_free(struct image_thread *thread);

#endif
