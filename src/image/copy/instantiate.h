/* SPDX-License-Identifier: BSD-3-Clause
 *
 * instantiate.h: a copy of the program; private to src/image.
 */
#ifndef IMAGE_INSTANTIATE_H
#define IMAGE_INSTANTIATE_H

#include "image/copy/libc_state.h"
#include "image/copy/program.h"

struct image_link_map;
struct image_late; /* libraries that a rank has opened (groups.c) */

struct image {
    char *base;                    /* the copy's address: image_program.span_bytes from here */
    struct image_program *program; /* what it is a copy of */
    struct image *next;            /* next in the list of all images */
    size_t modules_to_end;         /* modules init_order[0 .. modules_to_end) still have destructors to run */
    size_t finis_done;       /* called entries of DT_FINI_ARRAY of module init_order[modules_to_end - 1] */
    bool is_fini_done;       /* DT_FINI of that module was called */
    bool is_shown;           /* to debuggers (debugger.c) */
    atomic_bool is_unmapped; /* image_unmap */
    _Atomic(struct image_link_map *)
        link_maps;                     /* descriptors of its modules, for queries (rebind_symbols.c) */
    _Atomic(struct image_late *) late; /* NULL: nothing opened yet */
    int argc;                          /* arguments of constructors */
    char **argv;
    char **arguments;       /* argv, if it is allocated: struct image_arguments is too small */
    struct image_libc libc; /* per-rank replacement of the C library's per-process state */
};

/* True if the address is in the image's address space. */
bool image_has_address(const struct image *image, const void *addr);

/* Maps, fills and protects the image's copy of a program or group. On failure returns false with errno
 * set. */
bool image_fill(struct image *image, const struct image_program *program) BASE_MUST_CHECK;

/* Shows the image's copy of a program or group to debuggers, if it is one of the first images. */
void image_show_debugger(struct image *image, const struct image_program *program);

/* Runs the constructors of a module in the image, or its destructors that have not run yet. May switch. */
void image_construct(struct image *image, const struct image_module *module);
void image_destruct(struct image *image, const struct image_module *module);

/* The module of the image that contains the address; NULL: none (a gap between modules). */
const struct image_module *image_module_at(const struct image *image, const void *addr);

/* Sets the calling thread's thread_local variables to their initial values in this copy; ld.so has filled
 * in the prototype's values. */
void image_tls_init_thread(const struct image *image);

/* ---- std::cout and the other stream objects of libstdc++, one of each per rank (cxx_streams.c) ---- */

/* The number of the stream object that this symbol names and the C++ runtime defines; -1: another symbol. Constructs the
 * streams of the prototype. One thread at a time. */
int image_stream_find(const char *name, const void *definition);

/* True if this symbol is one of these objects. */
bool image_stream_is(const char *name);

/* The rank's address for one in a prototype's object; any other address unchanged. Never switches. */
void *image_stream_of(const struct image *image, void *address);

/* Makes the pointers in the bytes of a prototype's object, which are in the copy, lead to the rank's objects. */
void image_stream_translate(const struct image *image, char *object, size_t size_bytes);

/* Writes the addresses of the rank's stream objects into the copy of a program or group, and makes these objects if they do
 * not exist. */
void image_streams_fill(const struct image_program *program, struct image *image);

#endif
