/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_pack.h: kernels that move data between a layout on a GPU and consecutive memory, what moves between
 * layouts are made of (gpu_move.c).
 *
 * All are asynchronous, in the order of the queue; errors are CUDA's. Called on a PE; never switch.
 */
#ifndef GPU_PACK_H
#define GPU_PACK_H

#include "gpu/gpu.h"

struct gpu_queue;

/* True if the library was built with kernels for GPUs; else layouts that are not one block must go by the
 * host. */
bool gpu_has_kernels(void);

/* True if the data is one block of memory. *first_out: its address. */
bool gpu_data_is_block(const struct gpu_data *data, void **first_out);

/* Copies the bytes offset .. offset + n_bytes - 1 of the data to consecutive memory (to: where the byte
 * number offset goes), or back. Any offset and length. Both sides must be memory that the queue's device can
 * reach: its own, a peer's, pinned. The data's layout must live until the copy is done. */
int gpu_pack_launch(struct gpu_queue *queue, const struct gpu_data *data, size_t offset, size_t n_bytes,
                    void *to) BASE_MUST_CHECK;
int gpu_unpack_launch(struct gpu_queue *queue, const struct gpu_data *data, size_t offset, size_t n_bytes,
                      const void *from) BASE_MUST_CHECK;

/* Frees what was kept with a layout on GPUs (layout->gpu), which is not NULL. On any thread. */
void gpu_layout_forget(struct base_layout *layout);

#endif
