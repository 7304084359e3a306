/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_device.h: collectives on buffers of GPUs.
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

#include "ampi/datatype/buffer.h"

struct ampi_coll_args;
struct ampi_coll_block;
struct ampi_coll_part;
struct ampi_coll_slot;
struct ampi_coll_span;
struct ampi_op;

/* ---- Stages (slot.c, device_moves.c) ---- */

/* The stage that this PE is in, while a user's function runs that may let others run, whose collectives have
 * stages on this PE, too. (device_moves.c) */
struct ampi_coll_device_aside {
    struct ampi_coll_part *part;
    void *first;
    void *last;
};
void ampi_coll_device_put_aside(struct ampi_coll_device_aside *aside_out);
void ampi_coll_device_take_up(const struct ampi_coll_device_aside *aside);

/* The calling PE begins a stage of the operation in the part's slot: moves are counted there until the next
 * call. */
void ampi_coll_device_begin(struct ampi_coll_part *part);

/* ---- Blocks ---- */

/* The part whose stage the calling PE is in: what is started on a GPU counts there (n_moves). */
struct ampi_coll_part *ampi_coll_device_stage(void);

/* The stage has called for all moves: starts them. */
void ampi_coll_device_flush(void);

/* Work of a part's stage on a GPU is done: what follows the stage, if it was the last. */
void ampi_coll_device_end(struct ampi_coll_part *part);

/* A move of the current stage, if one of the two is a GPU's; else returns false. It is started when the stage
 * has called for all that it wants. */
bool ampi_coll_device_move(struct ampi_coll_args *to, struct ampi_coll_block dst, struct ampi_coll_block src);

/* The same for an exchange, at once. */
bool ampi_coll_device_swap(struct ampi_coll_args *a, struct ampi_coll_block block_a, struct ampi_coll_args *b,
                           struct ampi_coll_block block_b, size_t n_bytes);

/* ampi_type_copy on behalf of a member, whose error it is; waits if one of the two is a GPU's. */
void ampi_coll_device_copy(struct ampi_coll_args *args, void *dst, const struct ampi_type *dst_type,
                           const void *src, const struct ampi_type *src_type, MPI_Count count);

/* True if a buffer of the member's is a GPU's, as far as its first element says. */
bool ampi_coll_device_has(const struct ampi_coll_args *args);

/* True if one of the slot's members has such a buffer. */
bool ampi_coll_device_any(const struct ampi_coll_slot *slot);

/* An error of CUDA's is that of this member, or of all of this process. */
void ampi_coll_device_set_error(struct ampi_coll_args *args, int error);
void ampi_coll_device_fail(const struct ampi_coll_slot *slot, int error);

/* ---- Reductions ---- */

/* True if kernels can combine elements of the type in any number, and moves take the result on. */
bool ampi_coll_device_has_kernel(const struct ampi_op *op, const struct ampi_type *type);

/* ampi_coll_fold, if an input or the output is a GPU's; else returns false. */
bool ampi_coll_device_fold(const struct ampi_coll_slot *slot, int part, struct ampi_coll_span members,
                           MPI_Count from, MPI_Count count, void *out);

/* The same for all of some members' contributions, in this order; at least one is a GPU's. */
void ampi_coll_device_fold_of(const struct ampi_coll_slot *slot, struct ampi_coll_args **args, int n,
                              MPI_Count count, void *out);

/* Combines elements from .. to - 1 of the sources' contributions into the targets' buffers, if one of them
 * all is a GPU's; else returns false. The PE waits. */
bool ampi_coll_device_combine(const struct ampi_coll_slot *slot, int part, struct ampi_coll_span sources,
                              struct ampi_coll_span targets, MPI_Count from, MPI_Count to);

/* ---- Large broadcasts over three and more GPUs (device_bcast.c) ---- */

/* Middle stage: the GPUs that are to take part of the root's buffer to all receivers, a bit each. 0: this is
 * nothing for them. */
uint64_t ampi_coll_device_plan_bcast(const struct ampi_coll_slot *slot);

/* Starts what a part has to do of it, as slot->gpus says. The stage is over when it is done. */
void ampi_coll_device_bcast(struct ampi_coll_slot *slot, int part);

/* ---- Reductions by kernels, for which no PE waits (device_reduce.c) ---- */

/* Middle stage: the GPUs that are to reduce one vector of slot->last's size per member to the root's buffer,
 * or (NULL) to everybody's, a bit each. 0: this is nothing for kernels. */
uint64_t ampi_coll_device_plan(const struct ampi_coll_slot *slot, const struct ampi_coll_args *root);

/* Middle stage: are other PEs than this one to start parts of it? */
bool ampi_coll_device_must_share(const struct ampi_coll_slot *slot);

/* Starts what a part has to do of it, as slot->gpus says; if the operation is not shared, all. The stage is
 * over when it is done. */
void ampi_coll_device_reduce(struct ampi_coll_slot *slot, int part, struct ampi_coll_span sources,
                             struct ampi_coll_span targets);

/* Middle stage of a reduction whose result is dealt out: the one GPU that is to do it, a bit; or that of each
 * receiver. 0: this is nothing for kernels. */
#define AMPI_COLL_ANY_GPU UINT64_MAX
uint64_t ampi_coll_device_plan_deal(const struct ampi_coll_slot *slot);

/* Starts elements from .. from + count - 1 of a member's result, for its receive buffer. is_held: this still
 * has contributions, so the result stays with the part until ampi_coll_device_dealt, in the deliver stage,
 * starts to copy it. */
void ampi_coll_device_deal(struct ampi_coll_slot *slot, int part, const struct ampi_coll_args *args,
                           MPI_Count from, MPI_Count count, bool is_held);
void ampi_coll_device_dealt(struct ampi_coll_slot *slot, int part);

/* ---- Scans by kernels (device_scan.c) ---- */

/* Middle stage: the GPUs that are to do it, a bit each. 0: this is nothing for kernels. */
uint64_t ampi_coll_device_plan_scan(const struct ampi_coll_slot *slot, bool is_exclusive);

/* Starts what a part has to do of it, as slot->gpus says; if the operation is not shared, all. The stage is
 * over when it is done. */
void ampi_coll_device_scan(struct ampi_coll_slot *slot, int part, bool is_exclusive);

#endif
