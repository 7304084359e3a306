/* SPDX-License-Identifier: BSD-3-Clause
 *
 * driver_symbols.h: the dlsym that this library exports, which stands before the C library's in the order of
 * look-up.
 *
 * CUDA's runtimes (the shared one, and those inside of cuBLAS, NCCL and others) load the driver with dlopen
 * and ask dlsym for its functions. All of them, whenever they are loaded, find this dlsym; it gives ours for
 * some of the driver's functions (gpu/guard.h). For all other names it is a jump to the C library's, which
 * sees the original caller (gpu/arch). dlopen is not replaced: the C library searches the caller's
 * DT_RUNPATH.
 */
#ifndef GPU_SYMBOLS_H
#define GPU_SYMBOLS_H

/* dlsym for our own code: never gives ours. Any thread. */
void *gpu_symbol(void *library, const char *name);

/* A rank or a shared library has found this function by this name with dlsym: the function that it gets. A
 * rank that begins to use the driver begins with the device of its PE. Any thread; never switches. */
void *gpu_symbol_found(const char *name, void *function);

/* ---- For gpu/arch alone ---- */

/* What a caller of dlsym gets for a name that begins with "cu"; NULL: what the C library says. */
void *gpu_dlsym(void *library, const char *name, const void *caller);

/* The dlsym behind ours; NULL: not yet known, gpu_dlsym_find looks for it. */
extern void *(*gpu_dlsym_next)(void *library, const char *name);
void *(*gpu_dlsym_find(void))(void *library, const char *name);

#endif
