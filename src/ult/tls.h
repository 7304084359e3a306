/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tls.h: swapping the program's thread_local bytes with the ULT; for the files of src/ult alone.
 */
#ifndef ULT_TLS_H
#define ULT_TLS_H

#include "ult/ult.h"

/* How many regions belong to the program; 0: nothing to swap. */
extern int ult_tls_n_regions;

/* Saves this thread's regions to *from and loads them from *to; either may be NULL: nothing to save, or to
 * load. */
void ult_tls_swap(unsigned char *from, const unsigned char *to);

#endif
