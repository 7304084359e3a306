/* SPDX-License-Identifier: BSD-3-Clause
 *
 * instantiate.h: what a copy of the program is, private to src/image.
 */
#ifndef IMAGE_INSTANTIATE_H
#define IMAGE_INSTANTIATE_H

#include "image/program.h"
#include "image/rebind.h"

struct image_link_map;
struct image_late; /* what a rank has opened later (groups.c) */

struct image {
    char *base;            /* where the copy lies: image_program.span_bytes from here */
    struct image *next;    /* link of the list of all images */
    size_t modules_to_end; /* the modules init_order[0 .. modules_to_end) have not run all of their
                              destructors */
    size_t finis_done;     /* entries of DT_FINI_ARRAY called, of module init_order[modules_to_end - 1] */
    bool is_fini_done;     /* of the same: DT_FINI was called */
    _Atomic(struct image_link_map *)
        link_maps;                     /* descriptors of its modules, for those who ask (rebind_symbols.c) */
    _Atomic(struct image_late *) late; /* NULL: nothing opened yet */
    int argc;                          /* what constructors are told */
    char **argv;
    struct image_libc libc; /* what the C library would keep for a process */
};

/* Does the address lie in the image's address space? */
bool image_has_address(const struct image *image, const void *addr);

/* Maps, fills and protects the image's copy of a program or group. false: errno is set. */
bool image_fill(struct image *image, const struct image_program *program) BASE_MUST_CHECK;

/* Runs the constructors, or the destructors that have not run yet, of a module in the image. May switch. */
void image_construct(struct image *image, const struct image_module *module);
void image_destruct(struct image *image, const struct image_module *module);

/* The module of the image that the address lies in; NULL: none (a gap between modules). */
const struct image_module *image_module_at(const struct image *image, const void *addr);

/* The initial values of a module's thread_local variables in this copy. */
void image_tls_init_block(const struct image *image, const struct image_module *module, void *block);

/* Sets the calling thread's thread_local variables to their initial values in this copy: ld.so has filled in
 * the prototype's. */
void image_tls_init_thread(const struct image *image);

/* Around constructors and destructors of copies: other ranks' wait, but not while this one waits. May
 * switch. */
void image_begin_exclusive(void);
void image_end_exclusive(void);

#endif
