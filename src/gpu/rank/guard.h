/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard.h: intercepts some functions of CUDA's driver:
 *
 *      those that wait for all work on a GPU: meanwhile no resident kernel stays there (guard.c)
 *      those that change contexts, which belong to the thread or the process (rank_context.c)
 *      those that take a stream, or wait for one (stream_api.c)
 *
 * The program gets the driver's functions in three ways, and all lead here. Its copies are bound to the
 * replacements where it is linked with libcuda (gpu_guarded_at). dlsym, as called by CUDA's runtimes,
 * returns replacements (gpu/driver/driver_symbols.h). So does cuGetProcAddress, which is itself replaced
 * (interpose.c). A runtime that got its pointers earlier keeps them, and resident kernels are disabled then
 * (gpu_monitor_is_late).
 */
#ifndef GPU_GUARD_H
#define GPU_GUARD_H

#include "base/base.h"

/* A function by its name in libcuda. */
struct gpu_guarded {
    const char *name;
    void *function; /* the replacement */
    int version;    /* first version of CUDA whose cuGetProcAddress has it */
    const char *why;
    void **real; /* receives the driver's function */
};

/* All of them, 0 <= i < gpu_guarded_count(). */
size_t gpu_guarded_count(void);
const struct gpu_guarded *gpu_guarded_at(size_t i);

/* Maps a function that dlsym has found by this name in some library to its replacement, if it has one. Any
 * thread. */
void *gpu_guard(const char *name, void *function);

/* True if the program's waits for streams are intercepted in a process with one rank: it got them from this library's dlsym or
 * from cuGetProcAddress, as runtimes do, and nothing is linked with the driver but UCX and tools. */
bool gpu_guard_sees_waits(void);

/* gpu_guard for calls of the library itself: without the ranks' view of contexts and streams. */
void *gpu_guard_library(const char *name, void *function);

/* True if all calls of ranks that free memory are intercepted and counted (gpu_change_count): ranks are
 * copies of the program, and no code got the driver's functions before they began. */
bool gpu_guard_notices_frees(void);

/* Called on the ULT of a rank that ends, whose memory still exists: ends its registrations of memory, as the end of a process
 * does. May switch. */
void gpu_guard_rank_ends(void);

/* ---- For the files of src/gpu alone ---- */

/* The parts of the table. */
extern const struct gpu_guarded gpu_waiting_functions[], gpu_blocking_functions[], gpu_context_functions[],
    gpu_stream_functions[], gpu_visible_functions[];
extern const size_t gpu_n_waiting_functions, gpu_n_blocking_functions, gpu_n_context_functions,
    gpu_n_stream_functions, gpu_n_visible_functions;

/* Looks up the driver's functions and opens the driver, if it is present. Any thread. */
void gpu_guard_find(void);

/* The same before a call that is not a launch or a copy: submits launches that are held back. */
void gpu_guard_prepare(void);

#endif
