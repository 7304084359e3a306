/* SPDX-License-Identifier: BSD-3-Clause
 *
 * image_arch.h: selects the facts of this CPU. A new CPU needs one header with the same definitions as
 * image_x86_64.h.
 */
#ifndef IMAGE_ARCH_ARCH_H
#define IMAGE_ARCH_ARCH_H

/* The kinds of relocations, independent of their numbers on this CPU (see reloc.c). */
enum image_reloc_kind {
    IMAGE_RELOC_UNSUPPORTED,
    IMAGE_RELOC_NONE,
    IMAGE_RELOC_RELATIVE,   /* load address + addend */
    IMAGE_RELOC_GOT,        /* address of a symbol, in the GOT: the linker's own slot */
    IMAGE_RELOC_PLT,        /* the same for a function; may be bound at its first call */
    IMAGE_RELOC_ABSOLUTE,   /* address of a symbol + addend, in the program's data */
    IMAGE_RELOC_IRELATIVE,  /* result of the function at load address + addend */
    IMAGE_RELOC_COPY,       /* the bytes of a library's variable */
    IMAGE_RELOC_TLS,        /* distance from the thread pointer: one word, the same in every copy */
    IMAGE_RELOC_TLS_MODULE, /* number of a module, for __tls_get_addr */
    IMAGE_RELOC_TLS_OFFSET, /* offset in that module's block, the same in every copy */
    IMAGE_RELOC_TLSDESC,    /* TLS descriptor: two words, the same in every copy */
};

#if defined(__x86_64__)
#include "image/arch/image_x86_64.h"
#else
#error "the image layer has no header for this CPU yet: write one like src/image/arch/image_x86_64.h"
#endif

/* Calls the function on another stack, which ends at this address (grows downwards from it). */
void image_arch_call_on_stack(void (*function)(void *), void *arg, void *stack_end);

/* In place of exit_group (raw_exit_*.S). Has its own calling convention: not to be called from C. */
void image_arch_raw_exit(void);

#endif
