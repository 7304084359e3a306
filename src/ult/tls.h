/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tls.h: swapping the program's thread_local bytes with the ULT; for the files of src/ult alone.
 */
#ifndef ULT_TLS_H
#define ULT_TLS_H

#include "ult/ult.h"

/* Additional work of a switch, which is rare: a sum of these. */
enum ult_extra { ULT_EXTRA_TLS = 1, ULT_EXTRA_ASAN = 2 };
extern int ult_switch_extras;

/* Saves this thread's regions to *from and loads them from *to; either may be NULL: nothing to save, or to
 * load. */
void ult_tls_swap(unsigned char *from, const unsigned char *to);

#endif
