/* SPDX-License-Identifier: BSD-3-Clause
 *
 * arch.h: what src/gpu has to know of this CPU. A new CPU needs a line here, and a dlsym like that of
 * x86_64.S.
 */
#ifndef GPU_ARCH_ARCH_H
#define GPU_ARCH_ARCH_H

/* The version of the first dlsym in the C library. */
#if defined(__x86_64__)
#define GPU_ARCH_DLSYM_VERSION "GLIBC_2.2.5"
#else
#error "write a dlsym for this CPU, like that of src/gpu/arch/x86_64.S"
#endif

#endif
