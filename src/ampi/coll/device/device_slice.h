/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device_slice.h: some consecutive elements that one GPU combines, from contributions in any memory for
 * receivers in any memory; with one contribution, that it takes to the receivers. The parts of collectives of
 * which coll_device.h speaks are made of these.
 *
 * The calling PE makes a slice in a stage of a collective, adds the contributions in rank order and the
 * receivers, and starts it; it counts as work of the stage's, and is gone when it is done. Never switches.
 */
#ifndef AMPI_COLL_DEVICE_SLICE_H
#define AMPI_COLL_DEVICE_SLICE_H

#include "ampi/coll/device/coll_device.h"
#include "ampi/coll/engine/coll.h"

struct ampi_coll_slice;

/* count elements, combined on this GPU; at most n_inputs contributions and n_outs receivers. */
struct ampi_coll_slice *ampi_coll_slice_create(int gpu, const struct ampi_op *op,
                                               const struct ampi_type *type, MPI_Count count, int n_inputs,
                                               int n_outs);

/* Their first elements. */
void ampi_coll_slice_add_input(struct ampi_coll_slice *slice, void *addr);
void ampi_coll_slice_add_output(struct ampi_coll_slice *slice, void *addr);

/* Instead of starting it: an error of all members'. */
void ampi_coll_slice_fail(struct ampi_coll_slice *slice, int error);

/* has_steps: it is large enough for data to cross to and from each GPU once, in several steps, where ranks
 * share GPUs; else one kernel reads all contributions and writes all results. */
void ampi_coll_slice_start(struct ampi_coll_slice *slice, bool has_steps);

/* The GPU that has an address; -1: none. An old answer costs time, nothing else. */
int ampi_coll_gpu_of(const void *addr);

/* Are the bits the same, however contributions are grouped? */
bool ampi_coll_can_regroup(const struct ampi_op *op, const struct ampi_type *type);

/* Can a kernel, or a copy of what it has written, write a member's result? */
static inline bool ampi_coll_is_plain(const struct ampi_coll_args *args, const struct ampi_type *type)
{
    return ampi_type_is_block(args->recv.type, 2) && args->recv.type->size_bytes == type->size_bytes;
}

#endif
