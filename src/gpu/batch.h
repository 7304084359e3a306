/* SPDX-License-Identifier: BSD-3-Clause
 *
 * batch.h: merges moves within a GPU's memory that start together into one kernel. For the files of src/gpu
 * alone. Moves to other GPUs are excluded: the copy engines do these while kernels fill the GPU, and a
 * kernel of the program may wait for a message. Within a GPU the driver itself copies by kernels.
 *
 * Each single copy costs the CPU two driver calls, which a lock of the driver serialises. Ranks that
 * exchange halos start many copies within microseconds. So the PE first gathers block-to-block copies. They
 * start when the PE next polls, or when one of its ranks next calls CUDA: all gathered copies are one
 * launch. If only one was gathered, it starts like any other move.
 */
#ifndef GPU_BATCH_H
#define GPU_BATCH_H

#include "gpu/gpu.h"

#include "gpu/pe_state.h"

/* Gathers the move: it starts soon. Returns false if it is not eligible; then the caller starts it. On a
 * PE. */
bool gpu_batch_take(struct gpu_move *move);

/* Starts the moves that the PE has gathered. Never switches. On the PE. */
void gpu_batch_start(struct gpu_pe *pe);

/* Called when a rank calls CUDA: starts the moves that its PE has gathered. */
static inline void gpu_batch_start_now(void)
{
    struct gpu_pe *pe = gpu_pe_here();

    if (BASE_UNLIKELY(pe && pe->gathered))
        gpu_batch_start(pe);
}

/* Starts a single move. (gpu_move.c) */
void gpu_move_start_alone(struct gpu_move *move);

/* The address of the first byte to move if the data is a block in device memory, and its range from the
 * cache. NULL: it is not such a block. (gpu_move.c) */
char *gpu_move_find_block(const struct gpu_data *data, size_t skip_bytes, size_t n_bytes,
                          struct gpu_range *range_out);

#endif
