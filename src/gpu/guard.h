/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard.h: stands between the program and those functions of CUDA's driver that wait for all that runs on a
 * GPU: while one of them is under way, no resident kernel stays there (service.h). And between a rank and
 * those that change contexts, which belong to the thread or the process (rank_context.h).
 *
 * The program gets the driver's functions in three ways, and all lead here: its copies are bound to ours
 * where it was linked with libcuda (gpu_guarded); dlsym, as CUDA's runtimes call it, gives ours
 * (gpu/symbols.h); and so does cuGetProcAddress, of which ours is one. A runtime that had its pointers before
 * that keeps them, and there are no kernels that stay then (gpu_watch_is_late).
 */
#ifndef GPU_GUARD_H
#define GPU_GUARD_H

#include "base/base.h"

/* The functions by their names in libcuda. */
struct gpu_guarded {
    const char *name;
    void *function; /* ours */
    int version;    /* of CUDA, since which cuGetProcAddress gives it */
    const char *why;
};
extern const struct gpu_guarded gpu_guarded[];
extern const size_t gpu_n_guarded;

/* What dlsym has found by this name in some library: ours in its place if it is one of them. Any thread. */
void *gpu_guard(const char *name, void *function);

/* The same for the library itself, which is no rank: contexts are the driver's. */
void *gpu_guard_library(const char *name, void *function);

#endif
