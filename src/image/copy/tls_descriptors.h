/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tls_descriptors.h: thread_local variables that are reached by TLS descriptors (gcc -mtls-dialect=gnu2).
 * Private to src/image.
 *
 * A descriptor is two words in the GOT: a function and its argument. The function returns the distance of the
 * variable from the thread pointer and keeps all registers but its result's. ld.so has chosen the function when
 * it loaded the module. In a copy, the descriptor of a lazy module's variable (lazy_tls.h) has
 * image_arch_tls_descriptor, whose argument is the same in all copies. Others are as in the prototype.
 */
#ifndef IMAGE_TLS_DESCRIPTORS_H
#define IMAGE_TLS_DESCRIPTORS_H

#include "image/copy/lazy_tls.h"

/* The words of a descriptor, as they are in memory. */
struct image_tls_descriptor {
    size_t function;
    size_t arg;
};

/* True if ld.so has resolved all descriptors of the module; before glibc 2.34 it may do so at the first use. */
bool image_tls_descriptors_are_bound(const struct image_module *module);

/* The lazy module of the variable that a descriptor of this module leads to, and the variable's offset in the
 * block; NULL: the variable is not in a lazy module. */
const struct image_module *image_tls_descriptor_target(const struct image_program *program,
                                                       const struct image_module *module,
                                                       const ElfW(Rela) * rela, size_t *offset_out);

/* The descriptor for copies of a variable in a lazy module. */
struct image_tls_descriptor image_tls_descriptor_make(const struct image_module *target, size_t offset);

#endif
