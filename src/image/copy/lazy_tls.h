/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lazy_tls.h: thread_local variables of copied modules, allocated at their first use. Private to src/image.
 */
#ifndef IMAGE_LAZY_TLS_H
#define IMAGE_LAZY_TLS_H

#include "image/copy/libc_state.h"
#include "image/copy/program.h"

/* The argument of __tls_get_addr. */
struct image_tls_index {
    size_t module; /* the module number of ld.so, or one assigned by lazy_tls.c */
    size_t offset; /* in the module's block */
};

/* A thread's blocks, by module number without the bit that marks numbers of lazy_tls.c. */
struct image_lazy_blocks {
    size_t count;
    void *blocks[]; /* NULL: not used yet */
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

/* The lazy module with ld.so's module number, in the program or group or in a published group; NULL: none. Its
 * tls_lazy replaces that number in a copy. */
const struct image_module *image_lazy_tls_find_number(const struct image_program *program, size_t number);

/* The number in tables of blocks. */
size_t image_lazy_tls_index(const struct image_module *module);

/* The address of a variable for the calling thread; creates its block if necessary. index->module: in tables
 * of blocks. in_copy: an address in the copy of the calling code. */
void *image_tls_address(const struct image_tls_index *index, const void *in_copy);

/* __tls_get_addr for copies. */
void *image_tls_get_addr(const struct image_tls_index *index);

/* The lazy module whose prototype has this address in its block for the calling OS thread; NULL: none. */
const struct image_module *image_lazy_tls_of(const void *prototype_addr, size_t *offset_out);

/* A lazy module's block for the thread, created if necessary. */
char *image_lazy_tls_block(struct image_thread *thread, const struct image_module *module);

/* The same; NULL: not created yet. Safe wherever dl_iterate_phdr is. */
char *image_lazy_tls_peek(const struct image_thread *thread, const struct image_module *module);

/* Frees the thread's blocks. */
void image_lazy_tls_free(struct image_thread *thread);

#endif
