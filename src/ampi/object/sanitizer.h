/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sanitizer.h: support for programs compiled with a sanitizer; the library itself need not be. For their
 * stacks see ult/asan.h.
 */
#ifndef AMPI_SANITIZER_H
#define AMPI_SANITIZER_H

#include <stddef.h>

/* Detects sanitizers. Ends the process with a message if one of them does not support several ranks in a
 * process. Before all ranks. */
void ampi_sanitizer_init(void);

/* Before UCX is loaded. */
void ampi_sanitizer_prepare_ucx(void);

/* Reports a rank's variables to LeakSanitizer: memory they point to is not leaked. Any PE. */
void ampi_sanitizer_add_roots(const void *lo, size_t size_bytes);

#endif
