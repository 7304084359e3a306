/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_combine.h: shared functions of rma_combine.c and rma_combine_device.c. Errors are CUDA's; none of these functions switches.
 */
#ifndef AMPI_RMA_COMBINE_H
#define AMPI_RMA_COMBINE_H

#include "ampi/rma/rma.h"

/* ---- rma_combine.c ---- */

/* A predefined type of these elements; NULL: none. */
struct ampi_type *ampi_rma_type_of(enum ampi_basic basic);

/* True if the elements have the layout that the CPU's kernels require. */
bool ampi_rma_are_elements(const struct ampi_rma_side *side);

/* Combines layouts that may differ, origin and result in host memory. rma->at NULL: without the target's flag. */
int ampi_rma_combine_layouts(const struct ampi_rma *rma);

/* ---- rma_combine_device.c ---- */

/* True if the side's first byte is in GPU memory. */
static inline bool ampi_rma_is_device(const struct ampi_rma_side *side)
{
    return ampi_device_has(side->buf, side->count, side->type);
}

/* Copies pieces in a GPU's memory to consecutive host memory, or back, by one kernel. False: kernels cannot. */
bool ampi_rma_copy_by_kernel(const struct ampi_rma_piece *pieces, int n_pieces, void *host, bool is_scatter,
                             int *error_out);

/* Combines packed data in host memory with pieces in a GPU's memory by kernels, as ampi_rma_combine_pieces. False: there
 * are none for it. */
bool ampi_rma_combine_by_kernel(const struct ampi_op *op, enum ampi_basic basic,
                                const struct ampi_rma_piece *pieces, int n_pieces, const char *in,
                                char *fetched, int *error_out);

/* The whole operation if a side is in GPU memory. */
int ampi_rma_combine_device(const struct ampi_rma *rma);

#endif
