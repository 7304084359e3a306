/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_pack.h: kernels that copy between a layout on a GPU and consecutive memory, the building blocks of
 * moves between layouts (gpu_move.c).
 *
 * All are asynchronous, in the order of the queue; errors are CUDA's. Called on a PE; never switch.
 */
#ifndef GPU_PACK_H
#define GPU_PACK_H

#include "gpu/gpu.h"

struct gpu_queue;

/* True if the library was built with kernels for GPUs; otherwise layouts that are not one block go through
 * the host. */
bool gpu_has_kernels(void);

/* True if the data is one block of memory. *first_out: its address. */
bool gpu_data_is_block(const struct gpu_data *data, void **first_out);

/* Copies the bytes offset .. offset + n_bytes - 1 of the data to consecutive memory (to: the destination of
 * byte `offset`), or back. Any offset and length. The queue's device must be able to access both sides: its
 * own memory, a peer's, pinned. The data's layout must live until the copy is done. */
int gpu_pack_launch(struct gpu_queue *queue, const struct gpu_data *data, size_t offset, size_t n_bytes,
                    void *to) BASE_MUST_CHECK;
int gpu_unpack_launch(struct gpu_queue *queue, const struct gpu_data *data, size_t offset, size_t n_bytes,
                      const void *from) BASE_MUST_CHECK;

/* Frees data that was kept for a layout on GPUs (layout->gpu, not NULL). On any thread. */
void gpu_layout_forget(struct base_layout *layout);

#endif
