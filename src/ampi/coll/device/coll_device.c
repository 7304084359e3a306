/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_device.c: see coll_device.h.
 */
#include "ampi/coll/device/coll_device.h"

#include "ampi/coll/engine/fold.h"
#include "ampi/op/op_device.h"
#include "base/log.h"

void ampi_coll_device_set_error(struct ampi_coll_args *args, int error)
{
    __atomic_store_n(&args->error, ampi_device_error(args->comm->owner, error), __ATOMIC_RELAXED);
}

/* ---- Blocks ---- */

static bool has(const struct ampi_coll_buf *buf)
{
    const struct ampi_coll_memory *memory = buf->memory;

    if (memory && memory->changes == atomic_load_explicit(&gpu_change_count, memory_order_acquire))
        return memory->is_on_device;
    if (buf->is_w) {
        for (int i = 0; i < buf->n_blocks; i++) {
            struct ampi_coll_block block = ampi_coll_block(buf, i);
            if (block.count && ampi_device_has(block.buf, 1, block.type))
                return true;
        }
        return false;
    }
    return buf->type && buf->buf != MPI_IN_PLACE && ampi_device_has(buf->buf, 1, buf->type);
}

bool ampi_coll_gpu_has(const struct ampi_coll_args *args)
{
    return has(&args->send) || has(&args->recv);
}

bool ampi_coll_gpu_any(const struct ampi_coll_slot *slot)
{
    for (int i = 0; i < slot->state->n_members; i++)
        if (slot->args[i] && !slot->args[i]->is_remote && ampi_coll_gpu_has(slot->args[i]))
            return true;
    return false;
}

void ampi_coll_gpu_copy(struct ampi_coll_args *args, void *dst, const struct ampi_type *dst_type,
                        const void *src, const struct ampi_type *src_type, MPI_Count count)
{
    int error = ampi_device_copy(dst, count, dst_type, src, count, src_type);

    if (BASE_UNLIKELY(error))
        ampi_coll_device_set_error(args, error);
}

bool ampi_coll_gpu_swap(struct ampi_coll_args *a, struct ampi_coll_block block_a, struct ampi_coll_args *b,
                        struct ampi_coll_block block_b, size_t n_bytes)
{
    const struct ampi_type *bytes = ampi_coll_bytes(NULL, 0).type;
    void *copy;
    int error;

    if (!ampi_device_has(block_a.buf, block_a.count, block_a.type) &&
        !ampi_device_has(block_b.buf, block_b.count, block_b.type))
        return false;
    copy = base_malloc(n_bytes, "blocks to be exchanged");
    error = ampi_device_copy(copy, (MPI_Count)n_bytes, bytes, block_a.buf, block_a.count, block_a.type);
    if (!error)
        error = ampi_device_copy(block_a.buf, block_a.count, block_a.type, block_b.buf, block_b.count,
                                 block_b.type);
    if (!error)
        error = ampi_device_copy(block_b.buf, block_b.count, block_b.type, copy, (MPI_Count)n_bytes, bytes);
    free(copy);
    if (BASE_UNLIKELY(error)) {
        ampi_coll_device_set_error(a, error);
        ampi_coll_device_set_error(b, error);
    }
    return true;
}

/* ---- Reductions ---- */

bool ampi_coll_device_has_kernel(const struct ampi_op *op, const struct ampi_type *type)
{
    return ampi_type_is_block(type, 2) && ampi_op_has_gpu_kernel(op, type, 2);
}

/* The input of a reduction: inputs of consecutive members, from an element on. */
struct fold {
    struct ampi_coll_args **args;
    int n;
    const struct ampi_op *op;
    struct ampi_type *type;
    MPI_Count from;
    MPI_Count count;
};

static void *input(const struct fold *fold, int i)
{
    return ampi_type_address(ampi_coll_input(fold->args[i]), fold->from * fold->type->extent_bytes);
}

static int fold_by_kernel(const struct fold *fold, void *out)
{
    const void *few[32];
    const void **inputs =
        fold->n <= 32 ? few : base_malloc((size_t)fold->n * sizeof *inputs, "a reduction on GPUs");
    void *to = ampi_type_address(out, fold->type->true_lb_bytes);
    struct gpu_combine combine = {
        .outs = &to,
        .inputs = inputs,
        .n_outs = 1,
        .n_inputs = fold->n,
        .count_elems = (int64_t)ampi_op_elems(fold->type, fold->count),
        .device = -1,
    };
    int error;

    ampi_op_set_gpu_kernel(fold->op, fold->type, &combine);
    for (int i = 0; i < fold->n; i++)
        inputs[i] = ampi_type_address(input(fold, i), fold->type->true_lb_bytes);
    error = gpu_combine_now(&combine);
    if (inputs != few)
        free(inputs);
    return error;
}

/* The same on the CPU, from copies, into host memory. */
static int fold_by_cpu(const struct fold *fold, void *out)
{
    struct ampi_coll_scratch in;
    int first = fold->op->is_commutative ? 0 : fold->n - 1;
    int error = ampi_device_copy(out, fold->count, fold->type, input(fold, first), fold->count, fold->type);

    ampi_coll_scratch_init(&in, fold->type, fold->count);
    for (int k = 1; k < fold->n && !error; k++) {
        int i = fold->op->is_commutative ? k : fold->n - 1 - k;
        error = ampi_device_copy(in.elems, fold->count, fold->type, input(fold, i), fold->count, fold->type);
        if (!error)
            ampi_op_apply(fold->op, in.elems, out, fold->count, fold->type);
    }
    ampi_coll_scratch_fini(&in);
    return error;
}

static bool has_input(const struct fold *fold)
{
    for (int i = 0; i < fold->n; i++)
        if (ampi_device_has(input(fold, i), 1, fold->type))
            return true;
    return false;
}

static int run_fold(const struct fold *fold, void *out)
{
    struct ampi_coll_scratch scratch;
    int error;

    bool is_out_host = !ampi_device_has(out, 1, fold->type);

    if (ampi_coll_device_has_kernel(fold->op, fold->type) && (!is_out_host || has_input(fold)))
        return fold_by_kernel(fold, out);
    if (is_out_host)
        return fold_by_cpu(fold, out);
    ampi_coll_scratch_init(&scratch, fold->type, fold->count);
    error = fold_by_cpu(fold, scratch.elems);
    if (!error)
        error = ampi_device_copy(out, fold->count, fold->type, scratch.elems, fold->count, fold->type);
    ampi_coll_scratch_fini(&scratch);
    return error;
}

static struct fold fold_of(const struct ampi_coll_slot *slot, int part, struct ampi_coll_span members,
                           MPI_Count from, MPI_Count count)
{
    return (struct fold){slot->args + members.first, members.n, ampi_coll_op(slot, part),
                         slot->last->send.type,      from,      count};
}

void ampi_coll_device_fail(const struct ampi_coll_slot *slot, int error)
{
    for (int i = 0; i < slot->state->n_members; i++)
        if (slot->args[i] && !slot->args[i]->is_remote)
            ampi_coll_device_set_error(slot->args[i], error);
}

bool ampi_coll_gpu_fold(const struct ampi_coll_slot *slot, int part, struct ampi_coll_span members,
                        MPI_Count from, MPI_Count count, void *out)
{
    struct fold fold = fold_of(slot, part, members, from, count);
    int error;

    if (count <= 0 || (!has_input(&fold) && !ampi_device_has(out, 1, fold.type)))
        return false;
    error = run_fold(&fold, out);
    if (BASE_UNLIKELY(error))
        ampi_coll_device_fail(slot, error);
    return true;
}

void ampi_coll_device_fold_of(const struct ampi_coll_slot *slot, struct ampi_coll_args **args, int n,
                              MPI_Count count, void *out)
{
    struct fold fold = {args, n, slot->last->op, slot->last->send.type, 0, count};
    int error = count > 0 ? run_fold(&fold, out) : 0;

    if (BASE_UNLIKELY(error))
        ampi_coll_device_fail(slot, error);
}

bool ampi_coll_gpu_combine(const struct ampi_coll_slot *slot, int part, struct ampi_coll_span sources,
                           struct ampi_coll_span targets, MPI_Count from, MPI_Count to)
{
    struct fold fold = fold_of(slot, part, sources, from, to - from);
    struct ampi_coll_scratch scratch;
    int error;

    if (fold.count <= 0 || !ampi_coll_gpu_any(slot))
        return false;
    ampi_coll_scratch_init(&scratch, fold.type, fold.count);
    error = run_fold(&fold, scratch.elems);
    if (BASE_UNLIKELY(error))
        ampi_coll_device_fail(slot, error);
    for (int i = targets.first; i < targets.first + targets.n && !error; i++) {
        struct ampi_coll_args *args = slot->args[i];
        if (args && !args->is_remote)
            ampi_coll_gpu_copy(args, ampi_type_address(args->recv.buf, from * fold.type->extent_bytes),
                               args->recv.type, scratch.elems, fold.type, fold.count);
    }
    ampi_coll_scratch_fini(&scratch);
    return true;
}

/* ---- The engine's table ---- */

void ampi_coll_device_connect(void)
{
    static const struct ampi_coll_device_ops ops = {
        .begin = ampi_coll_gpu_begin,
        .flush = ampi_coll_gpu_flush,
        .move = ampi_coll_gpu_move,
        .swap = ampi_coll_gpu_swap,
        .copy = ampi_coll_gpu_copy,
        .has = ampi_coll_gpu_has,
        .any = ampi_coll_gpu_any,
        .fold = ampi_coll_gpu_fold,
        .combine = ampi_coll_gpu_combine,
        .plan_bcast = ampi_coll_gpu_plan_bcast,
        .bcast = ampi_coll_gpu_bcast,
        .plan = ampi_coll_gpu_plan,
        .must_share = ampi_coll_gpu_must_share,
        .reduce = ampi_coll_gpu_reduce,
        .plan_scatter = ampi_coll_gpu_plan_scatter,
        .scatter_result = ampi_coll_gpu_scatter_result,
        .scatter_end = ampi_coll_gpu_scatter_end,
        .plan_scan = ampi_coll_gpu_plan_scan,
        .scan = ampi_coll_gpu_scan,
    };

    ampi_coll_device = &ops;
    ampi_op_save_stage = ampi_coll_device_save_stage;
    ampi_op_restore_stage = ampi_coll_device_restore_stage;
}
