/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_device.h: collectives on buffers of GPUs: the functions behind engine/device_ops.h, which says what
 * each does.
 *
 * They are the same plans. What differs lies below them: where a block is a GPU's, ampi_coll_move only notes
 * a move; at the end of the stage that it was called in, all are started, those that belong together as one,
 * and the stage is over when they are (slot.c). So no PE waits for them. Reductions are combined by kernels
 * where there are some for the operation and the type (device_reduce.c), likewise; else by the CPU from
 * copies. For these, and for blocks that change places (MPI_IN_PLACE), the PE waits.
 *
 * Nothing of this is looked at before CUDA's driver is in the process.
 */
#ifndef AMPI_COLL_DEVICE_H
#define AMPI_COLL_DEVICE_H

#include "ampi/coll/engine/device_ops.h"

struct ampi_op;
struct ampi_op_aside;

/* Sets ampi_coll_device, and has operations of users put a PE's stage aside (job/connect.c). */
void ampi_coll_device_connect(void);

/* ---- Stages (device_moves.c) ---- */

/* The stage that this PE is in, while a user's function runs that may let others run, whose collectives have
 * stages on this PE, too (ampi_op_put_aside). */
void ampi_coll_device_put_aside(struct ampi_op_aside *aside_out);
void ampi_coll_device_take_up(const struct ampi_op_aside *aside);

void ampi_coll_gpu_begin(struct ampi_coll_part *part);
void ampi_coll_gpu_flush(void);
bool ampi_coll_gpu_move(struct ampi_coll_args *to, struct ampi_coll_block dst, struct ampi_coll_block src);

/* The part whose stage the calling PE is in: what is started on a GPU counts there (n_moves). */
struct ampi_coll_part *ampi_coll_device_stage(void);

/* Work of a part's stage on a GPU is done: what follows the stage, if it was the last. */
void ampi_coll_device_end(struct ampi_coll_part *part);

/* ---- Blocks and reductions (coll_device.c) ---- */

bool ampi_coll_gpu_swap(struct ampi_coll_args *a, struct ampi_coll_block block_a, struct ampi_coll_args *b,
                        struct ampi_coll_block block_b, size_t n_bytes);
void ampi_coll_gpu_copy(struct ampi_coll_args *args, void *dst, const struct ampi_type *dst_type,
                        const void *src, const struct ampi_type *src_type, MPI_Count count);
bool ampi_coll_gpu_has(const struct ampi_coll_args *args);
bool ampi_coll_gpu_any(const struct ampi_coll_slot *slot);

/* An error of CUDA's is that of this member, or of all of this process. */
void ampi_coll_device_set_error(struct ampi_coll_args *args, int error);
void ampi_coll_device_fail(const struct ampi_coll_slot *slot, int error);

/* True if kernels can combine elements of the type in any number, and moves take the result on. */
bool ampi_coll_device_has_kernel(const struct ampi_op *op, const struct ampi_type *type);

bool ampi_coll_gpu_fold(const struct ampi_coll_slot *slot, int part, struct ampi_coll_span members,
                        MPI_Count from, MPI_Count count, void *out);

/* The same for all of some members' contributions, in this order; at least one is a GPU's. */
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
uint64_t ampi_coll_gpu_plan_deal(const struct ampi_coll_slot *slot);
void ampi_coll_gpu_deal(struct ampi_coll_slot *slot, int part, const struct ampi_coll_args *args,
                        MPI_Count from, MPI_Count count, bool is_held);
void ampi_coll_gpu_dealt(struct ampi_coll_slot *slot, int part);
uint64_t ampi_coll_gpu_plan_scan(const struct ampi_coll_slot *slot, bool is_exclusive);
void ampi_coll_gpu_scan(struct ampi_coll_slot *slot, int part, bool is_exclusive);

#endif
