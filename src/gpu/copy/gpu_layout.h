/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_layout.h: analysis of a layout for the kernels that pack it, kept with it (layout->gpu). For the files of
 * src/gpu alone.
 *
 *      box       up to GPU_BOX_DIMS nested loops over a block: vectors, subarrays, an evenly spaced table
 *      table     the same over a body of blocks at any places: structs, indexed types. The body's offsets are
 *                stored in the GPU's memory, one for each piece of equal size
 *      neither   loops that are too many, or a body whose table would be far longer than its program
 */
#ifndef GPU_LAYOUT_H
#define GPU_LAYOUT_H

#include "gpu/copy/queue.h"
#include "gpu/gpu.h"
#include "gpu/kernels/kernels.h"

struct gpu_layout;

struct gpu_box {
    uintptr_t base;
    int64_t block;            /* bytes of a block, or of the body */
    struct gpu_layout *table; /* the body's places; NULL: one block */
    int n_dims;
    int64_t n[GPU_BOX_DIMS + 1]; /* the innermost first; one more than the kernels support, while the box is
                                  * built */
    int64_t stride[GPU_BOX_DIMS + 1];
};

/* Describes all the data as a box. False: it is neither a box nor a table. On a PE. */
bool gpu_box_of_data(const struct gpu_data *data, struct gpu_box *box_out);

/* Consecutive memory as a box. */
static inline struct gpu_box gpu_box_of_memory(const void *addr, size_t n_bytes)
{
    return (struct gpu_box){.base = (uintptr_t)addr, .block = (int64_t)n_bytes};
}

/* True if the box is consecutive memory. */
static inline bool gpu_box_is_flat(const struct gpu_box *box)
{
    return box->n_dims == 0 && !box->table;
}

/* The bitwise or of all sizes and displacements of the layout in bytes: shows its common alignment. */
uint64_t gpu_layout_bits(struct base_layout *layout);

/* The pieces of a table. */
struct gpu_pieces {
    int64_t n_bytes; /* of each */
    int64_t scale;   /* an offset's unit in bytes: a power of two, at most 16 */
};
struct gpu_pieces gpu_layout_pieces(const struct gpu_layout *table);

/* The number of blocks of the table; 0: they are too far from each other for 32 bits. */
int64_t gpu_layout_n_blocks(const struct gpu_layout *table);

/* The address, in the memory of the queue's device, of the table's offsets, of the words of its blocks, or
 * of the layout's program. The first call for a device copies the data there, and waits. Return CUDA's
 * error. */
int gpu_layout_offsets(struct gpu_queue *queue, struct gpu_layout *table, uint64_t *addr_out) BASE_MUST_CHECK;
int gpu_layout_blocks(struct gpu_queue *queue, struct gpu_layout *table, uint64_t *addr_out) BASE_MUST_CHECK;
int gpu_layout_program(struct gpu_queue *queue, struct base_layout *layout,
                       uint64_t *addr_out) BASE_MUST_CHECK;

#endif
