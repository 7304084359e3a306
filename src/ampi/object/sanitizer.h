/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sanitizer.h: support for programs compiled with a sanitizer; the library itself need not be. For their
 * stacks see ult/asan.h.
 */
#ifndef AMPI_SANITIZER_H
#define AMPI_SANITIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Detects sanitizers. Ends the process with a message if one of them does not support several ranks in a
 * process. Before all ranks. */
void ampi_sanitizer_init(void);

/* Before UCX is loaded. */
void ampi_sanitizer_prepare_ucx(void);

/* Reports a rank's variables to LeakSanitizer: memory they point to is not leaked. Any PE. */
void ampi_sanitizer_add_roots(const void *lo, size_t size_bytes);

/* True if valgrind runs the program. Any thread. */
bool ampi_sanitizer_is_valgrind(void);

/* The same value, computed from the program's memory, which may have no value yet: comparing the result is not an error of the
 * program for valgrind. 0: it would be. Any thread. */
uint64_t ampi_sanitizer_hide(uint64_t value);

#endif
