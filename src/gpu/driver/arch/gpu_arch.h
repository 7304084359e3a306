/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_arch.h: the facts of this CPU that src/gpu needs. A new CPU needs lines here, and a dlsym like that
 * of gpu_x86_64.S.
 */
#ifndef GPU_ARCH_ARCH_H
#define GPU_ARCH_ARCH_H

#include <elf.h>
#include <stdbool.h>

/* The symbol version of the first dlsym in the C library. */
#if defined(__x86_64__)
#define GPU_ARCH_DLSYM_VERSION "GLIBC_2.2.5"

/* True if a relocation of this type stores the address of a function. */
static inline bool gpu_arch_stores_function(unsigned type)
{
    return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64;
}
#else
#error "write a dlsym for this CPU, like that of src/gpu/driver/arch/gpu_x86_64.S"
#endif

#endif
