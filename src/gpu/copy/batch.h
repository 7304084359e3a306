/* SPDX-License-Identifier: BSD-3-Clause
 *
 * batch.h: merges moves that start together into one kernel: copies within a GPU's memory, and all moves with a
 * layout in a GPU's memory that its kernels can make. For the files of src/gpu alone. Copies of blocks to other
 * GPUs are excluded: the copy engines do these while kernels fill the GPU, and a kernel of the program may wait
 * for a message. Within a GPU the driver itself copies by kernels.
 *
 * Each single move costs the CPU two driver calls, which a lock of the driver serialises. Ranks that
 * exchange halos start many within microseconds. So the PE first gathers the moves. They start when the PE next
 * polls, or when one of its ranks next calls CUDA: all gathered moves of a GPU are one launch. If only one was
 * gathered, it starts like any other move, unless both sides have layouts: then the kernel copies from layout to
 * layout, without packed data in between. Small copies are not gathered while a resident kernel is there, which takes
 * them at once. Only those that start alone call it (resident.h): together, one launch is as good for them.
 */
#ifndef GPU_BATCH_H
#define GPU_BATCH_H

#include "gpu/gpu.h"

#include "gpu/driver/pe_state.h"

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

/* Calls move->done, which may free the move. */
static inline void gpu_move_end(struct gpu_move *move, int error)
{
    if (BASE_UNLIKELY(gpu_move_watcher != NULL))
        gpu_move_watcher(move, true, error);
    move->done(move, error);
}

#endif
