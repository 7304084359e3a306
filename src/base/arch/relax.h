/* SPDX-License-Identifier: BSD-3-Clause
 *
 * relax.h: a spin loop's turn.
 */
#ifndef BASE_RELAX_H
#define BASE_RELAX_H

/* Tells the core that this is a spin loop. */
static inline void base_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#else
#error "how does a core of this kind wait for a moment?"
#endif
}

#endif
