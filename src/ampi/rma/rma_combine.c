/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_combine.c: accumulates on memory of this process. They are atomic because all members are on one PE,
 * or because the target's flag `combining` is held for some KiB of data at a time. Elements that are
 * consecutive on both sides are combined in place; otherwise the origin's data is packed, and the target's
 * processed piece by piece.
 */
#include <string.h>

#include "ampi/datatype/cursor.h"
#include "ampi/rma/rma.h"
#include "base/log.h"

/* ---- Pieces ---- */

struct ampi_type *ampi_rma_type_of(enum ampi_basic basic)
{
    for (unsigned i = 0; i < AMPI_TYPE_COUNT; i++)
        if (ampi_type_predefined[i] && ampi_type_predefined[i]->basic == basic)
            return ampi_type_predefined[i];
    return NULL;
}

size_t ampi_rma_elem_bytes(enum ampi_basic basic)
{
    if (basic == AMPI_BASIC_NONE)
        return 1;
    if (ampi_op_is_pair(basic))
        return (size_t)ampi_rma_type_of(basic)->size_bytes;
    return ampi_op_stride_bytes[basic] ? ampi_op_stride_bytes[basic] : 1; /* characters are only copied */
}

/* Advances a run by n_bytes in its current block. */
static void advance(struct ampi_cursor_run *run, size_t n_bytes)
{
    run->used += n_bytes;
    if (run->used < run->block)
        return;
    run->used = 0;
    run->ptr += (uintptr_t)run->stride;
    run->n_blocks--;
}

/* The last piece does not end with an element: gives back the excess. */
static int end_with_element(struct ampi_cursor *cursor, size_t elem_bytes, struct ampi_rma_piece *pieces,
                            int n, size_t *n_bytes)
{
    size_t rest = *n_bytes % elem_bytes;

    if (BASE_LIKELY(rest == 0))
        return n;
    *n_bytes -= rest;
    ampi_cursor_seek(cursor, cursor->packed_bytes - (MPI_Count)rest);
    while (rest > 0) {
        size_t some = base_min_u64(rest, pieces[n - 1].n_bytes);
        pieces[n - 1].n_bytes -= some;
        rest -= some;
        n -= pieces[n - 1].n_bytes == 0;
    }
    return n;
}

int ampi_rma_next_pieces(struct ampi_cursor *cursor, size_t elem_bytes, size_t most_bytes,
                         struct ampi_rma_piece *pieces, int n_max, size_t *n_bytes_out)
{
    size_t left = most_bytes / elem_bytes * elem_bytes, all = left;
    int n = 0;

    while (left > 0 && n < n_max && (cursor->run.n_blocks > 0 || ampi_cursor_next_run(cursor))) {
        struct ampi_cursor_run *run = &cursor->run;
        size_t n_bytes = base_min_u64(run->block - run->used, left);
        pieces[n++] = (struct ampi_rma_piece){run->ptr + run->used, n_bytes};
        advance(run, n_bytes);
        cursor->packed_bytes += (MPI_Count)n_bytes;
        left -= n_bytes;
    }
    *n_bytes_out = all - left;
    return end_with_element(cursor, elem_bytes, pieces, n, n_bytes_out);
}

static int move_bytes(void *to, const void *from, size_t n_bytes, bool is_device)
{
    struct gpu_data dst, src;

    if (BASE_LIKELY(!is_device)) {
        memcpy(to, from, n_bytes);
        return 0;
    }
    dst = ampi_bytes_gpu_data(to, n_bytes);
    src = ampi_bytes_gpu_data(from, n_bytes);
    return gpu_move_now(&dst, &src, n_bytes);
}

static int gather(const struct ampi_rma_piece *pieces, int n_pieces, char *out, bool is_device)
{
    int error = 0;

    if (is_device && ampi_rma_copy_by_kernel(pieces, n_pieces, out, false, &error))
        return error;
    for (int i = 0; i < n_pieces && !error; i++) {
        error = move_bytes(out, (const void *)pieces[i].address, pieces[i].n_bytes, is_device);
        out += pieces[i].n_bytes;
    }
    return error;
}

static int scatter(const struct ampi_rma_piece *pieces, int n_pieces, const char *in, bool is_device)
{
    int error = 0;

    if (is_device && ampi_rma_copy_by_kernel(pieces, n_pieces, (void *)(uintptr_t)in, true, &error))
        return error;
    for (int i = 0; i < n_pieces && !error; i++) {
        error = move_bytes((void *)pieces[i].address, in, pieces[i].n_bytes, is_device);
        in += pieces[i].n_bytes;
    }
    return error;
}

/* in op inout for packed pairs, which kernels require with padding. */
static void combine_pairs(ampi_op_kernel_fn kernel, enum ampi_basic basic, const char *in, char *inout,
                          size_t n_bytes)
{
    const struct ampi_type *type = ampi_rma_type_of(basic);
    _Alignas(16) char a[AMPI_RMA_PIECE_BYTES], b[AMPI_RMA_PIECE_BYTES];
    size_t most = sizeof a / (size_t)type->extent_bytes * (size_t)type->size_bytes;
    struct ampi_cursor cursor;

    for (size_t at = 0; at < n_bytes; at += most) {
        size_t some = base_min_u64(most, n_bytes - at);
        MPI_Count n = (MPI_Count)some / type->size_bytes;
        ampi_cursor_init(&cursor, a, n, type);
        ampi_cursor_unpack(&cursor, in + at, some);
        ampi_cursor_init(&cursor, b, n, type);
        ampi_cursor_unpack(&cursor, inout + at, some);
        kernel(a, b, (size_t)n);
        ampi_cursor_init(&cursor, b, n, type);
        ampi_cursor_pack(&cursor, inout + at, some);
    }
}

/* For pairs, and for GPU memory: gathers, combines and scatters. */
static int combine_gathered(const struct ampi_op *op, enum ampi_basic basic,
                            const struct ampi_rma_piece *pieces, int n_pieces, const char *in, bool is_device)
{
    _Alignas(16) char small[AMPI_RMA_PIECE_BYTES];
    char *data = small;
    size_t n_bytes = 0;
    int error;

    for (int i = 0; i < n_pieces; i++)
        n_bytes += pieces[i].n_bytes;
    if (n_bytes > sizeof small)
        data = base_malloc(n_bytes, "data of a one-sided operation");
    error = gather(pieces, n_pieces, data, is_device);
    if (!error) {
        if (ampi_op_is_pair(basic))
            combine_pairs(op->kernels[basic], basic, in, data, n_bytes);
        else
            op->kernels[basic](in, data, n_bytes / ampi_op_stride_bytes[basic]);
        error = scatter(pieces, n_pieces, data, is_device);
    }
    if (data != small)
        free(data);
    return error;
}

static void combine_in_place(const struct ampi_op *op, enum ampi_basic basic,
                             const struct ampi_rma_piece *pieces, int n_pieces, const char *in)
{
    for (int i = 0; i < n_pieces; i++) {
        op->kernels[basic](in, (void *)pieces[i].address, pieces[i].n_bytes / ampi_op_stride_bytes[basic]);
        in += pieces[i].n_bytes;
    }
}

static int combine_unguarded(const struct ampi_op *op, enum ampi_basic basic,
                             const struct ampi_rma_piece *pieces, int n_pieces, const char *in, char *fetched)
{
    bool is_device = n_pieces > 0 && gpu_is_device((const void *)pieces[0].address);
    int error = 0;

    if (is_device && ampi_rma_combine_by_kernel(op, basic, pieces, n_pieces, in, fetched, &error))
        return error;
    error = fetched ? gather(pieces, n_pieces, fetched, is_device) : 0;
    if (error || op->predefined == MPI_NO_OP)
        return error;
    if (op->predefined == MPI_REPLACE)
        return scatter(pieces, n_pieces, in, is_device);
    if (is_device || ampi_op_is_pair(basic))
        return combine_gathered(op, basic, pieces, n_pieces, in, is_device);
    combine_in_place(op, basic, pieces, n_pieces, in);
    return 0;
}

int ampi_rma_combine_pieces(struct ampi_win *at, const struct ampi_op *op, enum ampi_basic basic,
                            const struct ampi_rma_piece *pieces, int n_pieces, const char *in, char *fetched)
{
    int error;

    if (!at)
        return combine_unguarded(op, basic, pieces, n_pieces, in, fetched);
    ampi_win_combine_begin(at);
    error = combine_unguarded(op, basic, pieces, n_pieces, in, fetched);
    ampi_win_combine_end(at);
    return error;
}

/* ---- Layouts that differ ---- */

int ampi_rma_combine_layouts(const struct ampi_rma *rma)
{
    const struct ampi_rma_side *from = &rma->origin, *to = &rma->target, *result = &rma->result;
    bool has_input = rma->op->predefined != MPI_NO_OP;
    enum ampi_basic basic = to->type->basic;
    struct ampi_rma_piece pieces[AMPI_RMA_PIECES];
    _Alignas(16) char in[AMPI_RMA_PIECE_BYTES], fetched[AMPI_RMA_PIECE_BYTES];
    struct ampi_cursor get, put, at;
    size_t elem_bytes = ampi_rma_elem_bytes(basic), n_bytes, has;
    int n, error = 0;

    if (has_input)
        ampi_cursor_init(&get, from->buf, from->count, from->type);
    if (result->type)
        ampi_cursor_init(&put, result->buf, result->count, result->type);
    ampi_cursor_init(&at, to->buf, to->count, to->type);
    while (!error && (n = ampi_rma_next_pieces(&at, elem_bytes, AMPI_RMA_PIECE_BYTES, pieces, AMPI_RMA_PIECES,
                                               &n_bytes)) > 0) {
        has = has_input ? ampi_cursor_pack(&get, in, n_bytes) : n_bytes;
        while (n_bytes > has) { /* the origin has less data than the target has room for */
            size_t cut = base_min_u64(n_bytes - has, pieces[n - 1].n_bytes);
            pieces[n - 1].n_bytes -= cut;
            n_bytes -= cut;
            n -= pieces[n - 1].n_bytes == 0;
        }
        if (n_bytes == 0)
            break;
        error =
            ampi_rma_combine_pieces(rma->at, rma->op, basic, pieces, n, in, result->type ? fetched : NULL);
        if (!error && result->type)
            ampi_cursor_unpack(&put, fetched, n_bytes);
    }
    return error;
}

/* ---- Consecutive elements ---- */

bool ampi_rma_are_elements(const struct ampi_rma_side *side)
{
    const struct ampi_type *type = side->type;

    if (ampi_op_stride_bytes[type->basic] == 0)
        return false;
    if (ampi_op_is_pair(type->basic))
        return type->n_basics == 2 && type->extent_bytes == ampi_op_stride_bytes[type->basic] &&
               type->lb_bytes == 0;
    return ampi_type_is_block(type, side->count);
}

/* n elements, at these byte offsets. */
static inline void combine_some(const struct ampi_rma *rma, char *to, const char *from, char *result,
                                size_t n)
{
    struct ampi_type *type = rma->target.type;
    size_t stride = ampi_op_stride_bytes[type->basic];

    ampi_win_combine_begin(rma->at);
    if (BASE_UNLIKELY(ampi_op_is_pair(type->basic))) {
        if (result)
            ampi_type_copy(result, (MPI_Count)n, type, to, (MPI_Count)n, type);
        if (rma->op->predefined == MPI_REPLACE)
            ampi_type_copy(to, (MPI_Count)n, type, from, (MPI_Count)n, type);
    } else {
        if (result)
            memcpy(result, to, n * stride);
        if (rma->op->predefined == MPI_REPLACE)
            memcpy(to, from, n * stride);
    }
    if (rma->op->kernels[type->basic])
        rma->op->kernels[type->basic](from, to, n);
    ampi_win_combine_end(rma->at);
}

/* All sides are blocks of elements of one type; the origin has at least as many as the target. */
static void combine_elements(const struct ampi_rma *rma)
{
    const struct ampi_type *type = rma->target.type;
    size_t n = ampi_op_elems(type, rma->target.count);
    size_t stride = ampi_op_stride_bytes[type->basic];
    size_t most = rma->at->shared->is_one_pe ? n : (size_t)AMPI_RMA_GUARDED_BYTES / stride;
    char *to = ampi_type_address(rma->target.buf, type->true_lb_bytes);
    const char *from = NULL;
    char *result = NULL;

    if (rma->op->predefined != MPI_NO_OP)
        from = ampi_type_address(rma->origin.buf, rma->origin.type->true_lb_bytes);
    if (rma->result.type)
        result = ampi_type_address(rma->result.buf, rma->result.type->true_lb_bytes);
    for (size_t i = 0; i < n; i += most) {
        combine_some(rma, to + i * stride, from ? from + i * stride : NULL,
                     result ? result + i * stride : NULL, base_min_u64(most, n - i));
    }
}

static bool is_simple(const struct ampi_rma *rma)
{
    if (!ampi_rma_are_elements(&rma->target))
        return false;
    if (rma->op->predefined != MPI_NO_OP &&
        !(ampi_rma_are_elements(&rma->origin) && rma->origin.type->basic == rma->target.type->basic &&
          ampi_rma_bytes(&rma->origin) == ampi_rma_bytes(&rma->target)))
        return false;
    return !rma->result.type ||
           (ampi_rma_are_elements(&rma->result) && rma->result.type->basic == rma->target.type->basic);
}

int ampi_rma_combine(const struct ampi_rma *rma)
{
    if (gpu_is_used() && (ampi_rma_is_device(&rma->target) ||
                          (rma->op->predefined != MPI_NO_OP && ampi_rma_is_device(&rma->origin)) ||
                          (rma->result.type && ampi_rma_is_device(&rma->result))))
        return ampi_rma_combine_device(rma);
    if (BASE_UNLIKELY(!is_simple(rma)))
        return ampi_rma_combine_layouts(rma);
    combine_elements(rma);
    return 0;
}

bool ampi_rma_swap_by_kernel(struct ampi_win *at, const struct gpu_swap *swap, int *error_out)
{
    if (!gpu_swap_can(swap))
        return false;
    ampi_win_combine_begin(at);
    *error_out = gpu_swap_now(swap);
    ampi_win_combine_end(at);
    return true;
}

int ampi_rma_compare_and_swap(struct ampi_win *at, void *address, const void *expected, const void *desired,
                              void *result, size_t n_bytes)
{
    char old[GPU_SWAP_BYTES_MAX];
    bool is_device = gpu_is_device(address);
    int error;

    BASE_ASSERT(n_bytes <= sizeof old);
    if (is_device &&
        ampi_rma_swap_by_kernel(at, &(struct gpu_swap){address, expected, desired, result, n_bytes}, &error))
        return error;
    ampi_win_combine_begin(at);
    error = move_bytes(old, address, n_bytes, is_device);
    if (!error && memcmp(old, expected, n_bytes) == 0)
        error = move_bytes(address, desired, n_bytes, is_device);
    ampi_win_combine_end(at);
    memcpy(result, old, n_bytes);
    return error;
}
