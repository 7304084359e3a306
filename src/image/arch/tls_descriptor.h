/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tls_descriptor.h: the function of TLS descriptors in copies, one .S per CPU. Also included by these.
 */
#ifndef IMAGE_ARCH_TLS_DESCRIPTOR_H
#define IMAGE_ARCH_TLS_DESCRIPTOR_H

/* Offsets that the .S files use; tls_descriptors.c checks them. */
#define IMAGE_ARCH_ULT_THREAD_STATE 216 /* struct ult, thread_state */
#define IMAGE_ARCH_THREAD_LAZY_TLS 104  /* struct image_thread, lazy_tls */

#ifndef __ASSEMBLER__

/* In the GOT of copies. Has its own calling convention: not to be called from C. */
void image_arch_tls_descriptor(void);

/* Finds out how much space the registers take that a C function may change. Before the first use of
 * image_arch_tls_descriptor. */
void image_arch_measure_registers(void);

#endif

#endif
