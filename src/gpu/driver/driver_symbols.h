/* SPDX-License-Identifier: BSD-3-Clause
 *
 * driver_symbols.h: the dlsym that this library exports, which precedes the C library's in the order of
 * look-up.
 *
 * CUDA's runtimes (the shared one, and those inside cuBLAS, NCCL and others) load the driver with dlopen
 * and find its functions with dlsym. All of them, whenever they are loaded, find this dlsym; for some of
 * the driver's functions it returns replacements (gpu/rank/guard.h). For all other names it jumps to the C
 * library's, which sees the original caller (gpu/arch). dlopen is not replaced: the C library searches the
 * caller's DT_RUNPATH.
 */
#ifndef GPU_SYMBOLS_H
#define GPU_SYMBOLS_H

#include <stdbool.h>

/* dlsym for the library itself: never returns replacements. Any thread. */
void *gpu_symbol(void *library, const char *name);

/* Maps a function that a rank or a shared library has found by this name with dlsym to the one that it
 * gets. A rank that begins to use the driver starts with the device of its PE. Any thread; never
 * switches. */
void *gpu_symbol_found(const char *name, void *function);

/* True if this library (its path) gets the driver's own functions: the driver and its parts, tools that observe it from
 * outside, and libraries that have their own ways of monitoring it (UCX, this one). */
bool gpu_symbol_is_for_driver(const char *path);

/* ---- For gpu/arch alone ---- */

/* The result of dlsym for a name that starts with "cu"; NULL: the C library's result stands. */
void *gpu_dlsym(void *library, const char *name, const void *caller);

/* The C library's dlsym; NULL: not found yet, see gpu_dlsym_find. */
extern void *(*gpu_dlsym_next)(void *library, const char *name);
void *(*gpu_dlsym_find(void))(void *library, const char *name);

#endif
