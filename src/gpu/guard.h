/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard.h: stands between the program and some functions of CUDA's driver:
 *
 *      those that wait for all that runs on a GPU: meanwhile no resident kernel stays there (guard.c)
 *      those that change contexts, which belong to the thread or the process (rank_context.c)
 *      those that take a stream, or wait for one (stream_api.c)
 *
 * The program gets the driver's functions in three ways, and all lead here: its copies are bound to ours
 * where it was linked with libcuda (gpu_guarded_at); dlsym, as CUDA's runtimes call it, gives ours
 * (gpu/driver_symbols.h); and so does cuGetProcAddress, of which ours is one (interpose.c). A runtime that
 * had its pointers before that keeps them, and there are no kernels that stay then (gpu_watch_is_late).
 */
#ifndef GPU_GUARD_H
#define GPU_GUARD_H

#include "base/base.h"

/* A function by its name in libcuda. */
struct gpu_guarded {
    const char *name;
    void *function; /* ours */
    int version;    /* of CUDA, since which cuGetProcAddress gives it */
    const char *why;
    void **real; /* where to put the driver's */
};

/* All of them, 0 <= i < gpu_guarded_count(). */
size_t gpu_guarded_count(void);
const struct gpu_guarded *gpu_guarded_at(size_t i);

/* What dlsym has found by this name in some library: ours in its place if it is one of them. Any thread. */
void *gpu_guard(const char *name, void *function);

/* The same for the library itself, which is no rank: contexts and streams are the driver's. */
void *gpu_guard_library(const char *name, void *function);

/* ---- For the files of src/gpu alone ---- */

/* The parts of the table. */
extern const struct gpu_guarded gpu_waiting_functions[], gpu_context_functions[], gpu_stream_functions[];
extern const size_t gpu_n_waiting_functions, gpu_n_context_functions, gpu_n_stream_functions;

/* Has found the driver's functions and opened it, if it is there. Any thread. */
void gpu_guard_find(void);

/* The same for a call that is no launch or copy: what the rank has launched goes to the driver first. */
void gpu_guard_prepare(void);

#endif
