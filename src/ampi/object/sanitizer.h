/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sanitizer.h: programs that were compiled with a sanitizer, which this library need not be. Their stacks:
 * ult/asan.h.
 */
#ifndef AMPI_SANITIZER_H
#define AMPI_SANITIZER_H

#include <stddef.h>

/* Finds out which sanitizers are there. Ends the process with a message if one of them cannot work with
 * several ranks in a process. Before all ranks. */
void ampi_sanitizer_init(void);

/* Before UCX is loaded. */
void ampi_sanitizer_prepare_ucx(void);

/* Tells LeakSanitizer of a rank's variables: what they point to is no leak. Any PE. */
void ampi_sanitizer_add_roots(const void *lo, size_t size_bytes);

#endif
