/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tls.h: the program's thread_local bytes, which are switched with the ULT; for the files of src/ult alone.
 */
#ifndef ULT_TLS_H
#define ULT_TLS_H

#include "ult/ult.h"

struct ult_carrier;

/* Additional work of a switch, which is rare: a sum of these. ULT_EXTRA_OWN: ULTs have thread pointers of their own, at
 * least those of one PE; then not ULT_EXTRA_TLS. */
enum ult_extra { ULT_EXTRA_TLS = 1, ULT_EXTRA_ASAN = 2, ULT_EXTRA_OWN = 4, ULT_EXTRA_WATCHED = 8 };
extern int ult_switch_extras;

/* Saves this thread's regions to *from and loads them from *to; either may be NULL: nothing to save, or to
 * load. */
void ult_tls_swap(unsigned char *from, const unsigned char *to);

/* Gives the calling OS thread the thread pointer of the next ULT, or its own again, and swaps the regions of ULTs that have
 * none. Every thread-local variable has another
 * address and value afterwards, except those of the OS thread: ult_current and ult_has_lock have another address only. */
void ult_tls_switch(const struct ult *from, const struct ult *to) BASE_NOINLINE;
void ult_tls_reset_pointer(const struct ult_carrier *carrier) BASE_NOINLINE;

/* Gives the ULT this thread pointer, and moves the bytes that are saved for the ULT into its block. */
void ult_tls_init_own(struct ult *u, void *thread_pointer);

/* Ends the OS thread that lends its thread pointer to a ULT, which has ended, if there is one. On the PE's thread, on
 * another ULT. */
void ult_tls_end_own(struct ult *u);

/* Ends the OS threads that lend their thread pointers; no ULT runs any more. (lender.c) */
void ult_lenders_end(void);

/* Lets setuid and its relatives change the OS threads that run with the thread pointers of ULTs. After the start of a lender; PEs
 * call it at the same time. (credentials.c) */
void ult_credentials_init(void);

#endif
