/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device_slice.h: consecutive elements that one GPU combines, from contributions in any memory for
 * receivers in any memory; a single contribution is just copied to the receivers. The operations of
 * coll_device.h are built from slices.
 *
 * The calling PE creates a slice in a stage of a collective, adds the contributions in rank order and the
 * receivers, and starts it; it counts as work of the stage, and is freed when done. Never switches.
 */
#ifndef AMPI_COLL_DEVICE_SLICE_H
#define AMPI_COLL_DEVICE_SLICE_H

#include "ampi/coll/device/coll_device.h"
#include "ampi/coll/engine/coll.h"

struct ampi_coll_slice;

/* Creates a slice of count elements, combined on this GPU; at most n_inputs contributions and n_outs
 * receivers. */
struct ampi_coll_slice *ampi_coll_slice_create(int gpu, const struct ampi_op *op,
                                               const struct ampi_type *type, MPI_Count count, int n_inputs,
                                               int n_outs);

/* addr: the first element; known: about its memory, NULL: nothing. */
void ampi_coll_slice_add_input(struct ampi_coll_slice *slice, void *addr,
                               const struct ampi_coll_known *known);
void ampi_coll_slice_add_output(struct ampi_coll_slice *slice, void *addr,
                                const struct ampi_coll_known *known);

/* Drops the slice instead of starting it: sets an error for all members. */
void ampi_coll_slice_fail(struct ampi_coll_slice *slice, int error);

/* has_steps: large enough for data to cross to and from each GPU only once, in several steps, if ranks
 * share GPUs; otherwise one kernel reads all contributions and writes all results. */
void ampi_coll_slice_start(struct ampi_coll_slice *slice, bool has_steps);

/* The GPU that owns an address; -1: none. A stale answer only costs time. */
int ampi_coll_gpu_of(const struct ampi_coll_known *known, const void *addr);

/* True if grouping contributions does not change the result. */
bool ampi_coll_can_regroup(const struct ampi_op *op, const struct ampi_type *type);

/* True if a kernel, or a copy of its output, can write a member's result. */
static inline bool ampi_coll_is_plain(const struct ampi_coll_args *args, const struct ampi_type *type)
{
    return ampi_type_is_block(args->recv.type, 2) && args->recv.type->size_bytes == type->size_bytes;
}

#endif
