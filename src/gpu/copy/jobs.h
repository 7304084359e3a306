/* SPDX-License-Identifier: BSD-3-Clause
 *
 * jobs.h: moves between two layouts, or a layout and consecutive memory, many in one launch. For the files of
 * src/gpu alone.
 *
 * Two layouts fit together if both can be written as the same nested loops over the same body: equal types,
 * types whose blocks divide each other's evenly, and any type with consecutive memory. The data then needs no
 * packed buffer in between.
 */
#ifndef GPU_JOBS_H
#define GPU_JOBS_H

#include "gpu/copy/gpu_layout.h"

/* Jobs for one launch. */
struct gpu_jobs {
    struct gpu_kernel_jobs args;
    uint32_t n_shapes;
};

static inline void gpu_jobs_begin(struct gpu_jobs *jobs)
{
    jobs->args.n_jobs = jobs->args.n_pieces = jobs->n_shapes = 0;
}

/* One side of a move: its data, of which the first bytes are skipped. */
struct gpu_job_side {
    struct gpu_box box;
    size_t skip_bytes;
};

/* Bytes per load and store of a move; 0: the sides do not fit together. */
size_t gpu_jobs_unit(const struct gpu_job_side *to, const struct gpu_job_side *from, size_t n_bytes);

/* With a smaller unit, other kernels are faster from this size on. */
#define GPU_JOBS_UNIT_LEAST 4
#define GPU_JOBS_UNALIGNED_MAX ((size_t)64 << 10)

/* Adds a move of n_bytes. The queue's device must be able to access both sides. The layouts must live until
 * the move is done. Otherwise nothing is added, and the result is GPU_JOBS_FULL (no room is left),
 * GPU_JOBS_UNFIT (the sides do not fit together) or CUDA's error. */
#define GPU_JOBS_FULL (-1)
#define GPU_JOBS_UNFIT (-2)
int gpu_jobs_add(struct gpu_jobs *jobs, struct gpu_queue *queue, const struct gpu_job_side *to,
                 const struct gpu_job_side *from, size_t n_bytes) BASE_MUST_CHECK;

/* Queues all of them as one launch. */
int gpu_jobs_launch(struct gpu_jobs *jobs, struct gpu_queue *queue) BASE_MUST_CHECK;

/* ---- Numbers for kernels ---- */

struct gpu_divisor gpu_divisor_by(uint64_t by);

/* The largest unit, at most 16, that divides all values in bits. */
size_t gpu_unit_of(uint64_t bits);

/* The number of thread blocks for this many threads. */
#define GPU_PACK_THREADS 256
unsigned gpu_pack_blocks(size_t n_threads);

#endif
