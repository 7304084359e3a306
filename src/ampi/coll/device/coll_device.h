/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_device.h: collectives on GPU buffers: the functions behind engine/device_ops.h, which describes
 * each.
 *
 * The plans are the same as for host memory. If a block is in GPU memory, ampi_coll_move only records a
 * move. At the end of the stage all moves are started, merged where possible, and the stage ends when they
 * are done (slot.c). So no PE waits for them. In the same way kernels combine reductions, if they support
 * the operation and the type (device_reduce.c); otherwise the CPU does, from copies. For these, and for
 * exchanged blocks (MPI_IN_PLACE), the PE waits.
 *
 * None of this runs before CUDA's driver is in the process.
 */
#ifndef AMPI_COLL_DEVICE_H
#define AMPI_COLL_DEVICE_H

#include "ampi/coll/engine/device_ops.h"

struct ampi_op;
struct ampi_op_stage;

/* Sets ampi_coll_device, and registers save_stage for users' operations (job/connect.c). */
void ampi_coll_device_connect(void);

/* ---- Stages (device_moves.c) ---- */

/* Saves the stage that this PE is in while a user's function runs, which may let other ranks run whose
 * collectives have stages on this PE, too (ampi_op_save_stage). */
void ampi_coll_device_save_stage(struct ampi_op_stage *stage_out);
void ampi_coll_device_restore_stage(const struct ampi_op_stage *saved);

void ampi_coll_gpu_begin(struct ampi_coll_pe *part);
void ampi_coll_gpu_flush(void);
bool ampi_coll_gpu_move(struct ampi_coll_args *to, struct ampi_coll_block dst, struct ampi_coll_block src);

/* The part whose stage the calling PE is in: work started on a GPU is counted there (n_moves). */
struct ampi_coll_pe *ampi_coll_device_stage(void);

/* Counts finished GPU work of a part's stage. After the last, continues behind the stage. */
void ampi_coll_device_end(struct ampi_coll_pe *part);

/* ---- Blocks and reductions (coll_device.c) ---- */

bool ampi_coll_gpu_swap(struct ampi_coll_args *a, struct ampi_coll_block block_a, struct ampi_coll_args *b,
                        struct ampi_coll_block block_b, size_t n_bytes);
void ampi_coll_gpu_copy(struct ampi_coll_args *args, void *dst, const struct ampi_type *dst_type,
                        const void *src, const struct ampi_type *src_type, MPI_Count count);
bool ampi_coll_gpu_has(const struct ampi_coll_args *args);
bool ampi_coll_gpu_any(const struct ampi_coll_slot *slot);

/* Sets a CUDA error for this member, or for all members of this process. */
void ampi_coll_device_set_error(struct ampi_coll_args *args, int error);
void ampi_coll_device_fail(const struct ampi_coll_slot *slot, int error);

/* True if kernels can combine any number of elements of the type, and moves can deliver the result. */
bool ampi_coll_device_has_kernel(const struct ampi_op *op, const struct ampi_type *type);

bool ampi_coll_gpu_fold(const struct ampi_coll_slot *slot, int part, struct ampi_coll_span members,
                        MPI_Count from, MPI_Count count, void *out);

/* Combines all elements of some members' contributions, in this order; at least one is in GPU memory. */
void ampi_coll_device_fold_of(const struct ampi_coll_slot *slot, struct ampi_coll_args **args, int n,
                              MPI_Count count, void *out);

bool ampi_coll_gpu_combine(const struct ampi_coll_slot *slot, int part, struct ampi_coll_span sources,
                           struct ampi_coll_span targets, MPI_Count from, MPI_Count to);

/* ---- Operations by kernels (device_bcast.c, device_reduce.c, device_scan.c) ---- */

bool ampi_coll_gpu_must_share(const struct ampi_coll_slot *slot);
uint64_t ampi_coll_gpu_plan_bcast(const struct ampi_coll_slot *slot);
void ampi_coll_gpu_bcast(struct ampi_coll_slot *slot, int part);
uint64_t ampi_coll_gpu_plan(const struct ampi_coll_slot *slot, const struct ampi_coll_args *root);
void ampi_coll_gpu_reduce(struct ampi_coll_slot *slot, int part, struct ampi_coll_span sources,
                          struct ampi_coll_span targets);
uint64_t ampi_coll_gpu_plan_scatter(const struct ampi_coll_slot *slot);
void ampi_coll_gpu_scatter_result(struct ampi_coll_slot *slot, int part, const struct ampi_coll_args *args,
                                  MPI_Count from, MPI_Count count, bool is_held);
void ampi_coll_gpu_scatter_end(struct ampi_coll_slot *slot, int part);
uint64_t ampi_coll_gpu_plan_scan(const struct ampi_coll_slot *slot, bool is_exclusive);
void ampi_coll_gpu_scan(struct ampi_coll_slot *slot, int part, bool is_exclusive);

#endif
