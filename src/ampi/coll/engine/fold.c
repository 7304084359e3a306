/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fold.c: see fold.h.
 */
#include "ampi/coll/engine/fold.h"

#include "base/log.h"

/* Bytes of a block of a reduction in the cache. */
#define BLOCK_BYTES 16384

/* Slices begin at multiples of this many elements, so that PEs do not write to the same cache line. */
#define SLICE_ELEMS 64

/* Contributions that are passed to the operation at a time. */
#define INPUTS 64

void ampi_coll_scratch_init(struct ampi_coll_scratch *scratch, const struct ampi_type *type, MPI_Count count)
{
    MPI_Count lo;
    size_t size_bytes = ampi_coll_elems_bytes(type, count, &lo);

    scratch->allocated = NULL;
    if (BASE_UNLIKELY(size_bytes > sizeof scratch->space))
        scratch->allocated = base_malloc(size_bytes, "an intermediate result of a reduction");
    scratch->elems = ampi_type_address(scratch->allocated ? scratch->allocated : scratch->space, -lo);
}

void ampi_coll_scratch_fini(struct ampi_coll_scratch *scratch)
{
    free(scratch->allocated);
}

MPI_Count ampi_coll_fold_block(const struct ampi_coll_args *args, MPI_Count count)
{
    const struct ampi_type *type = args->send.type;
    MPI_Count extent = type->extent_bytes < 0 ? -type->extent_bytes : type->extent_bytes;
    MPI_Count block = BLOCK_BYTES / (extent ? extent : 1) / SLICE_ELEMS * SLICE_ELEMS;

    if (!args->op->is_predefined || (count > 0 && ampi_coll_device_has(args)))
        return count;
    return block ? block : SLICE_ELEMS;
}

bool ampi_coll_must_share(const struct ampi_coll_slot *slot, enum ampi_coll_kind kind)
{
    const struct ampi_coll_args *last = slot->last;
    size_t n_bytes = (size_t)(last->send.count * last->send.type->size_bytes);

    if (slot->state->n_parts == 1)
        return false;
    if (last->op->is_predefined)
        return ampi_coll_is_shared(kind, n_bytes * (size_t)slot->state->n_members);
    return !slot->state->shared->is_inter && ampi_coll_is_shared(AMPI_COLL_USER_OP, n_bytes);
}

void ampi_coll_fold(const struct ampi_coll_slot *slot, int part, struct ampi_coll_span members,
                    MPI_Count from, MPI_Count count, void *out)
{
    struct ampi_coll_args **args = slot->args + members.first;
    const struct ampi_op *op = ampi_coll_op(slot, part);
    struct ampi_type *type = slot->last->send.type;
    MPI_Count skip = from * type->extent_bytes;
    int step = op->is_commutative ? 1 : -1;
    int next = op->is_commutative ? 0 : members.n - 1;
    bool are_far =
        ampi_coll_is_stream((size_t)(slot->last->send.count * type->size_bytes) * (size_t)members.n);
    const void *ins[INPUTS];

    if (ampi_coll_device_fold(slot, part, members, from, count, out))
        return;
    ampi_type_copy(out, count, type, ampi_type_address(ampi_coll_input(args[next]), skip), count, type);
    for (int left = members.n - 1; left > 0;) {
        int n = left < INPUTS ? left : INPUTS;
        for (int i = 0; i < n; i++)
            ins[i] = ampi_type_address(ampi_coll_input(args[next += step]), skip);
        ampi_op_apply_many(op, ins, n, are_far, out, count, type);
        left -= n;
    }
}

void ampi_coll_fold_packed(struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *last = slot->last;
    const struct ampi_type *type = last->send.type;
    ampi_op_kernel_fn kernel = last->op->kernels[type->basic];
    ampi_op_kernel_4_fn kernel_4 = last->op->kernels_4[type->basic];
    size_t n_elems = ampi_op_elems(type, last->send.count), step = slot->result.n_bytes;
    const unsigned char *in = slot->packed, *end = in + step * (size_t)slot->state->n_members;

    ampi_coll_copy_small(slot->small, in, step);
    in += step;
    for (; kernel_4 && (size_t)(end - in) >= 4 * step; in += 4 * step)
        kernel_4((const void *const[]){in, in + step, in + 2 * step, in + 3 * step}, slot->small, n_elems);
    for (; in < end; in += step)
        kernel(in, slot->small, n_elems);
    slot->result.bytes = slot->small;
    slot->has_result = true;
}

void ampi_coll_fold_two(const struct ampi_coll_args *args, const unsigned char *others, size_t n_bytes,
                        unsigned char *result)
{
    const struct ampi_type *type = args->send.type;
    ampi_op_kernel_fn kernel = args->op->kernels[type->basic];
    _Alignas(16) unsigned char in[AMPI_COLL_PAIR_BYTES];
    bool is_first = args->comm->rank == 0;

    ampi_coll_copy_small(result, is_first ? args->pack_from : others, n_bytes);
    ampi_coll_copy_small(in, is_first ? others : args->pack_from, n_bytes);
    kernel(in, result, ampi_op_elems(type, args->send.count));
}

void ampi_coll_fold_pair(struct ampi_coll_args *args, const unsigned char *others, size_t n_bytes)
{
    _Alignas(16) unsigned char result[AMPI_COLL_PAIR_BYTES];

    ampi_coll_fold_two(args, others, n_bytes, result);
    ampi_coll_copy_result(&args->recv, &(struct ampi_coll_result){.bytes = result, .n_bytes = n_bytes});
}

void ampi_coll_slice(const struct ampi_coll_slot *slot, int part, MPI_Count count, MPI_Count *from_out,
                     MPI_Count *to_out)
{
    MPI_Count n_parts = slot->state->n_parts;
    MPI_Count units = (count + SLICE_ELEMS - 1) / SLICE_ELEMS;
    MPI_Count from = units * part / n_parts * SLICE_ELEMS;
    MPI_Count to = units * (part + 1) / n_parts * SLICE_ELEMS;

    *from_out = from;
    *to_out = to < count ? to : count;
}

int ampi_coll_check_reduction(struct ampi_coll_args *args, MPI_Op op, bool has_input, bool has_result)
{
    bool is_in_place = has_result && ampi_coll_is_in_place(&args->send);
    int error;

    if (has_result && (error = ampi_coll_check_buf(args, &args->recv, "receive", 1)))
        return error;
    if (is_in_place) {
        if (args->comm->shared->is_inter)
            return ampi_coll_raise_in_place(args);
        args->send.type = args->recv.type;
    } else if (has_input && (error = ampi_coll_check_buf(args, &args->send, "send", 1))) {
        return error;
    }
    if (!has_input && !has_result)
        return MPI_SUCCESS;
    if (!has_input)
        args->send.type = args->recv.type;
    if ((error = ampi_coll_check_op(args, op, args->send.type)))
        return error;
    if (has_input && has_result && !is_in_place && !args->comm->shared->is_inter &&
        ampi_coll_is_same(ampi_coll_whole(&args->send), ampi_coll_whole(&args->recv)))
        return ampi_coll_raise_same(args);
    return MPI_SUCCESS;
}

bool ampi_coll_has_same_sizes(const struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *last = slot->last;
    size_t n_bytes = last->send.type ? (size_t)(last->send.count * last->send.type->size_bytes) : 0;
    bool is_same = true;

    for (int i = 0; i < slot->state->n_members && is_same; i++) {
        const struct ampi_coll_buf *send = slot->args[i] ? &slot->args[i]->send : &last->send;
        is_same = !send->type || (size_t)(send->count * send->type->size_bytes) == n_bytes;
    }
    return is_same;
}

bool ampi_coll_check_sizes(struct ampi_coll_slot *slot)
{
    bool is_same = ampi_coll_has_same_sizes(slot);

    for (int i = 0; i < slot->state->n_members && !is_same; i++)
        if (slot->args[i])
            slot->args[i]->error = MPI_ERR_COUNT;
    return is_same;
}
