/* SPDX-License-Identifier: BSD-3-Clause
 *
 * batch.h: moves within a GPU's memory that come together are done by one kernel. For the files of src/gpu
 * alone. Moves to other GPUs are not among them: the copy engines do these while kernels fill the GPU, and a
 * kernel of the program may wait for a message. Within a GPU the driver copies by kernels, too.
 *
 * Each copy by itself costs the CPU two calls of the driver, which its lock lets only one thread at a time
 * make. Ranks that exchange halos start many copies within microseconds. So a copy from block to block is
 * first gathered by the PE, and begins when the PE next polls, or when a rank of it next calls CUDA: then all
 * that have been gathered are one launch. One that is alone by then begins as any other.
 */
#ifndef GPU_BATCH_H
#define GPU_BATCH_H

#include "gpu/gpu.h"

#include "gpu/pe_state.h"

/* Gathers the move: it begins soon. False: it is not one of those, start it. On a PE. */
bool gpu_batch_take(struct gpu_move *move);

/* Starts what the PE has gathered. Never switches. On the PE. */
void gpu_batch_start(struct gpu_pe *pe);

/* A rank calls CUDA: what its PE has gathered begins. */
static inline void gpu_batch_start_now(void)
{
    struct gpu_pe *pe = gpu_pe_of_thread;

    if (BASE_UNLIKELY(pe && pe->gathered))
        gpu_batch_start(pe);
}

/* Starts a move by itself. (gpu_move.c) */
void gpu_move_start_alone(struct gpu_move *move);

/* The address of the first byte to move of a block in a device's memory, and the range that the cache has for
 * it. NULL: it is something else. (gpu_move.c) */
char *gpu_move_find_block(const struct gpu_data *data, size_t skip_bytes, size_t n_bytes,
                          struct gpu_range *range_out);

#endif
