/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kept.h: streams of MPI whose waits the library keeps on the host (streams/stream_sync.c). For the files of src/gpu
 * alone.
 *
 * While a wait is kept, nothing may be submitted behind it. So a call of the program that would do that, or that waits
 * for the stream, waits first until no wait is kept; a query says "not ready". A call that may not switch puts
 * the waits into the stream after all.
 */
#ifndef GPU_KEPT_H
#define GPU_KEPT_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/base.h"

struct gpu_rank_streams;

/* A stream with kept waits. */
struct gpu_kept {
    struct gpu_kept *next;
    uint32_t first;                /* number of the first one */
    CUstream stream;               /* the program's handle */
    CUcontext context;             /* the stream's */
    struct gpu_rank_streams *rank; /* whose stream it is; NULL: the process has one rank */
    void (*let_go)(
        struct gpu_kept *kept); /* puts the waits into the stream and removes it; on its PE, never switches */
};

/* Number of such streams. */
extern _Atomic int gpu_n_kept;

/* A number for another kept wait, and the latest one. They grow, and wrap around. */
uint32_t gpu_kept_number(void);
uint32_t gpu_kept_last(void);

/* Called on the stream's PE. gpu_kept_add sets next and rank. The others let late works go on: the waits before `first` are
 * over, or all. Never switch. */
void gpu_kept_add(struct gpu_kept *kept);
void gpu_kept_pass_to(struct gpu_kept *kept, uint32_t first);
void gpu_kept_remove(struct gpu_kept *kept);

/* The PE's works of streams that were behind kept waits begin, if none is left before them. Never switches. (works.c) */
void gpu_works_go_on(void);

/* Stands for all of the rank's streams. */
#define GPU_KEPT_ALL ((CUstream)(uintptr_t)-1)

/* True if work of the calling rank in this stream must come after a kept wait, by CUDA's rules. Never switches. */
bool gpu_kept_is_behind(CUstream stream, bool is_per_thread) BASE_COLD;

/* The same for work that was submitted when `last` was the latest number, of a rank (NULL: the process has one) in the current
 * context. */
bool gpu_kept_is_before(struct gpu_rank_streams *rank, CUstream stream, uint32_t last) BASE_COLD;

/* Waits while that is true. caller: the code that makes the call; NULL: must not switch. May switch otherwise. */
void gpu_kept_pass(CUstream stream, bool is_per_thread, const void *caller) BASE_COLD;

static inline bool gpu_kept_is_any(void)
{
    return BASE_UNLIKELY(atomic_load_explicit(&gpu_n_kept, memory_order_relaxed) > 0);
}

#endif
