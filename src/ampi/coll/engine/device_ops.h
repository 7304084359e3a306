/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device_ops.h: the seam between the engine and collectives on GPU buffers.
 *
 * The engine and the plans are independent of GPUs. They call these functions, which cost a load and a
 * branch and return false until CUDA's driver is in the process; coll/device implements the rest. In short:
 * moves of blocks in GPU memory are recorded, and started when the stage has requested all; kernels combine
 * reductions where they can; a stage ends when its work on GPUs is done.
 */
#ifndef AMPI_COLL_DEVICE_OPS_H
#define AMPI_COLL_DEVICE_OPS_H

#include "ampi/datatype/buffer.h"

struct ampi_coll_args;
struct ampi_coll_pe;
struct ampi_coll_slot;

/* Facts that a persistent collective keeps from start to start about the memory of a block. The member's PE collects
 * it before the member arrives; all PEs read it until the operation is over. */
struct ampi_coll_known {
    struct gpu_facts facts;    /* about the first byte of data */
    struct gpu_move_memo memo; /* of the moves into the block, for the PE that makes them */
    bool is_shared;            /* by all parts of a buffer: no memo */
};

/* The same for a buffer. */
struct ampi_coll_memory {
    uint64_t changes;  /* gpu_change_count when all facts were known; 0: some are out of date */
    bool is_on_device; /* the first byte of a block is in GPU memory */
    int n;
    /* One entry per block; or one for a whole buffer, whose blocks share it. */
    struct ampi_coll_known known[];
};

/* A part of a member's buffer. */
struct ampi_coll_block {
    void *buf;
    MPI_Count count;
    const struct ampi_type *type;  /* may be NULL if count is 0 */
    struct ampi_coll_known *known; /* NULL: nothing */
};

/* Consecutive members of a slot. */
struct ampi_coll_span {
    int first;
    int n;
};

/* The table of coll/device; set before the first communicator is created (job/connect.c). The inline
 * functions below describe the other entries. */
struct ampi_coll_device_ops {
    void (*begin)(struct ampi_coll_pe *part);
    void (*flush)(void);
    bool (*move)(struct ampi_coll_args *to, struct ampi_coll_block dst, struct ampi_coll_block src);
    bool (*swap)(struct ampi_coll_args *a, struct ampi_coll_block block_a, struct ampi_coll_args *b,
                 struct ampi_coll_block block_b, size_t n_bytes);
    void (*copy)(struct ampi_coll_args *args, void *dst, const struct ampi_type *dst_type, const void *src,
                 const struct ampi_type *src_type, MPI_Count count);
    bool (*has)(const struct ampi_coll_args *args);
    bool (*any)(const struct ampi_coll_slot *slot);
    bool (*fold)(const struct ampi_coll_slot *slot, int part, struct ampi_coll_span members, MPI_Count from,
                 MPI_Count count, void *out);
    bool (*combine)(const struct ampi_coll_slot *slot, int part, struct ampi_coll_span sources,
                    struct ampi_coll_span targets, MPI_Count from, MPI_Count to);
    bool (*must_share)(const struct ampi_coll_slot *slot); /* middle stage: other PEs must start parts, too */
    uint64_t (*plan_bcast)(const struct ampi_coll_slot *slot);
    void (*bcast)(struct ampi_coll_slot *slot, int part);
    uint64_t (*plan)(const struct ampi_coll_slot *slot, const struct ampi_coll_args *root);
    void (*reduce)(struct ampi_coll_slot *slot, int part, struct ampi_coll_span sources,
                   struct ampi_coll_span targets);
    uint64_t (*plan_scatter)(const struct ampi_coll_slot *slot);
    /* Starts elements from .. from + count - 1 of a member's result, for its receive buffer. is_held: the buffer
     * still has contributions, so the part holds the result until scatter_end, in the deliver stage, starts to
     * copy it. */
    void (*scatter_result)(struct ampi_coll_slot *slot, int part, const struct ampi_coll_args *args,
                           MPI_Count from, MPI_Count count, bool is_held);
    void (*scatter_end)(struct ampi_coll_slot *slot, int part);
    uint64_t (*plan_scan)(const struct ampi_coll_slot *slot, bool is_exclusive);
    void (*scan)(struct ampi_coll_slot *slot, int part, bool is_exclusive);
};
extern const struct ampi_coll_device_ops *ampi_coll_device;

/* ---- Stages ---- */

/* The calling PE begins a stage of the operation in the part's slot: moves are counted there until the next
 * call. */
static inline void ampi_coll_device_begin(struct ampi_coll_pe *part)
{
    if (gpu_is_used())
        ampi_coll_device->begin(part);
}

/* The stage has requested all its moves: starts them. */
static inline void ampi_coll_device_flush(void)
{
    if (gpu_is_used())
        ampi_coll_device->flush();
}

/* ---- Blocks ---- */

/* True if the first byte of data of count elements at buf is in GPU memory. */
static inline bool ampi_coll_device_has_data(const void *buf, MPI_Count count, const struct ampi_type *type)
{
    return ampi_device_has(buf, count, type);
}

/* The range of memory at an address of the block, from the known facts or from the PE's cache. */
static inline const struct gpu_range *ampi_coll_range_at(const struct ampi_coll_known *known,
                                                         const void *addr)
{
    const struct gpu_range *range = gpu_facts_range(known ? &known->facts : NULL, addr);

    return range ? range : gpu_find(addr);
}

/* As ampi_coll_device_has_data. */
static inline bool ampi_coll_device_has_block(const struct ampi_coll_block *block)
{
    return gpu_is_used() && block->count > 0 && block->type->size_bytes > 0 &&
           ampi_coll_range_at(block->known, ampi_type_address(block->buf, block->type->true_lb_bytes))
                   ->memory >= GPU_MEMORY_MANAGED;
}

/* Requests a move of the current stage, if either block is in GPU memory; else returns false. It is started
 * when the stage has requested all its moves. */
static inline bool ampi_coll_device_move(struct ampi_coll_args *to, struct ampi_coll_block dst,
                                         struct ampi_coll_block src)
{
    return gpu_is_used() && ampi_coll_device->move(to, dst, src);
}

/* The same for an exchange, which happens at once. */
static inline bool ampi_coll_device_swap(struct ampi_coll_args *a, struct ampi_coll_block block_a,
                                         struct ampi_coll_args *b, struct ampi_coll_block block_b,
                                         size_t n_bytes)
{
    return gpu_is_used() && ampi_coll_device->swap(a, block_a, b, block_b, n_bytes);
}

/* ampi_type_copy on behalf of a member, which gets the error; waits if either buffer is in GPU memory. */
static inline void ampi_coll_device_copy(struct ampi_coll_args *args, void *dst,
                                         const struct ampi_type *dst_type, const void *src,
                                         const struct ampi_type *src_type, MPI_Count count)
{
    if (gpu_is_used())
        ampi_coll_device->copy(args, dst, dst_type, src, src_type, count);
    else
        ampi_type_copy(dst, count, dst_type, src, count, src_type);
}

/* True if the first element of one of the member's buffers is in GPU memory. */
static inline bool ampi_coll_device_has(const struct ampi_coll_args *args)
{
    return gpu_is_used() && ampi_coll_device->has(args);
}

/* True if any member of the slot has such a buffer. */
static inline bool ampi_coll_device_any(const struct ampi_coll_slot *slot)
{
    return gpu_is_used() && ampi_coll_device->any(slot);
}

/* ---- Reductions ---- */

/* Does ampi_coll_fold if an input or the output is in GPU memory; else returns false. */
static inline bool ampi_coll_device_fold(const struct ampi_coll_slot *slot, int part,
                                         struct ampi_coll_span members, MPI_Count from, MPI_Count count,
                                         void *out)
{
    return gpu_is_used() && ampi_coll_device->fold(slot, part, members, from, count, out);
}

/* Combines elements from .. to - 1 of the sources' contributions into the targets' buffers, if any of these
 * is in GPU memory; else returns false. The PE waits. */
static inline bool ampi_coll_device_combine(const struct ampi_coll_slot *slot, int part,
                                            struct ampi_coll_span sources, struct ampi_coll_span targets,
                                            MPI_Count from, MPI_Count to)
{
    return gpu_is_used() && ampi_coll_device->combine(slot, part, sources, targets, from, to);
}

/* ---- Whole operations by kernels, for which no PE waits. A plan_ function is called in the middle stage and
 *      returns the GPUs that run the operation, as a bit mask for slot->gpus; 0: no kernel. If it is not 0,
 *      ampi_coll_device->bcast, reduce, scatter_result or scan starts a part's share, or all of it if the
 *      operation is not shared; the stage ends when that is done. ---- */

/* Broadcasts across three or more GPUs. */
static inline uint64_t ampi_coll_device_plan_bcast(const struct ampi_coll_slot *slot)
{
    return gpu_is_used() ? ampi_coll_device->plan_bcast(slot) : 0;
}

/* Reductions of one vector of slot->last's size per member to the root's buffer, or (NULL) to all
 * members'. */
static inline uint64_t ampi_coll_device_plan(const struct ampi_coll_slot *slot,
                                             const struct ampi_coll_args *root)
{
    return gpu_is_used() ? ampi_coll_device->plan(slot, root) : 0;
}

/* Reductions whose result is scattered: the bit of the only GPU that computes; or AMPI_COLL_ANY_GPU: each
 * receiver's GPU computes. */
#define AMPI_COLL_ANY_GPU UINT64_MAX
static inline uint64_t ampi_coll_device_plan_scatter(const struct ampi_coll_slot *slot)
{
    return gpu_is_used() ? ampi_coll_device->plan_scatter(slot) : 0;
}

static inline uint64_t ampi_coll_device_plan_scan(const struct ampi_coll_slot *slot, bool is_exclusive)
{
    return gpu_is_used() ? ampi_coll_device->plan_scan(slot, is_exclusive) : 0;
}

#endif
