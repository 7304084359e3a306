/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tls.h: the program's thread_local bytes, which are switched with the ULT; for the files of src/ult alone.
 */
#ifndef ULT_TLS_H
#define ULT_TLS_H

#include "ult/ult.h"

struct ult_carrier;

/* Additional work of a switch, which is rare: a sum of these. ULT_EXTRA_OWN: the ULTs have thread pointers of their own; then
 * not ULT_EXTRA_TLS. */
enum ult_extra { ULT_EXTRA_TLS = 1, ULT_EXTRA_ASAN = 2, ULT_EXTRA_OWN = 4 };
extern int ult_switch_extras;

/* Saves this thread's regions to *from and loads them from *to; either may be NULL: nothing to save, or to
 * load. */
void ult_tls_swap(unsigned char *from, const unsigned char *to);

/* Gives the calling OS thread the thread pointer of this ULT, or its own again. Every thread-local variable has another
 * address and value afterwards, except those of the OS thread: ult_current and ult_has_lock have another address only. */
void ult_tls_set_pointer(const struct ult *u) BASE_NOINLINE;
void ult_tls_reset_pointer(const struct ult_carrier *carrier) BASE_NOINLINE;

/* Moves the bytes that are saved for this ULT into the block of its own thread pointer. They are not swapped any more. */
void ult_tls_init_own(struct ult *u);

/* Ends the OS threads that lend their thread pointers; no ULT runs any more. (lender.c) */
void ult_lenders_end(void);

#endif
