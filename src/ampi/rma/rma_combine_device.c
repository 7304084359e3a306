/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_combine_device.c: accumulates on, from or to a GPU's memory. A block is combined in place by one kernel. If there
 * are holes between the target's elements, kernels gather the elements in memory of its GPU, combine them there, and
 * scatter them. Other data is combined in copies in host memory. The target's flag is held for the whole
 * duration.
 */
#include <string.h>

#include "ampi/op/op_device.h"
#include "ampi/rma/rma.h"
#include "base/log.h"
#include "gpu/copy/pool.h"

/* ---- Packed data and pieces ---- */

/* The GPU whose kernels can use all pieces; -1: none. */
static int device_of(const struct ampi_rma_piece *pieces, int n_pieces)
{
    struct gpu_known known = {0};
    int device = gpu_range_device(*gpu_find((const void *)pieces[0].address));

    for (int i = 0; i < n_pieces && device >= 0; i++) {
        void *piece = (void *)pieces[i].address;
        if (!gpu_copies_can(device, &(struct gpu_copy){piece, piece, pieces[i].n_bytes}, NULL, NULL, &known))
            device = -1;
    }
    return device;
}

static size_t bytes_of(const struct ampi_rma_piece *pieces, int n_pieces)
{
    size_t n_bytes = 0;

    for (int i = 0; i < n_pieces; i++)
        n_bytes += pieces[i].n_bytes;
    return n_bytes;
}

/* flat: consecutive memory that the device's kernels can use. */
static int copy_pieces(int device, const struct ampi_rma_piece *pieces, int n_pieces, char *flat,
                       bool is_scatter)
{
    struct gpu_copy *copies = base_malloc((size_t)n_pieces * sizeof *copies, "a one-sided operation");
    int error;

    for (int i = 0; i < n_pieces; i++) {
        void *piece = (void *)pieces[i].address;
        copies[i] =
            (struct gpu_copy){is_scatter ? piece : flat, is_scatter ? flat : piece, pieces[i].n_bytes};
        flat += pieces[i].n_bytes;
    }
    error = gpu_copies_now(device, copies, n_pieces);
    free(copies);
    return error;
}

bool ampi_rma_copy_by_kernel(const struct ampi_rma_piece *pieces, int n_pieces, void *host, bool is_scatter,
                             int *error_out)
{
    size_t n_bytes = bytes_of(pieces, n_pieces), size_bytes = 0;
    int device = n_pieces > 1 ? device_of(pieces, n_pieces) : -1, error = 0;
    char *pinned = device >= 0 ? gpu_pinned_get(n_bytes, &size_bytes, &error) : NULL;
    bool can = pinned && size_bytes >= n_bytes;

    if (can && is_scatter)
        memcpy(pinned, host, n_bytes);
    if (can)
        *error_out = copy_pieces(device, pieces, n_pieces, pinned, is_scatter);
    if (can && !is_scatter)
        memcpy(host, pinned, n_bytes);
    if (pinned)
        gpu_pinned_put(pinned);
    return can;
}

/* The type of elements that a kernel combines; NULL: there is none. Not pairs: their packed data has another layout. */
static struct ampi_type *type_with_kernel(const struct ampi_op *op, enum ampi_basic basic)
{
    struct ampi_type *type = basic == AMPI_BASIC_NONE ? NULL : ampi_rma_type_of(basic);

    return type && !ampi_op_is_pair(basic) && op->predefined != MPI_NO_OP && op->predefined != MPI_REPLACE &&
                   ampi_op_is_allowed(op, type) && ampi_op_has_gpu_kernel(op, type, 1)
               ? type
               : NULL;
}

bool ampi_rma_combine_by_kernel(const struct ampi_op *op, enum ampi_basic basic,
                                const struct ampi_rma_piece *pieces, int n_pieces, const char *in,
                                char *fetched, int *error_out)
{
    struct ampi_type *type = type_with_kernel(op, basic);
    size_t n_bytes = bytes_of(pieces, n_pieces);
    int device, error = 0;
    MPI_Count count;
    char *elements;

    if (!type)
        return false;
    count = (MPI_Count)(n_bytes / (size_t)type->size_bytes);
    if (n_pieces == 1) {
        *error_out = ampi_op_fetch_device(op, in, (void *)pieces->address, fetched, count, type);
        return true;
    }
    device = device_of(pieces, n_pieces);
    elements = device >= 0 ? gpu_scratch_get(device, n_bytes, &error) : NULL;
    if (!elements)
        return false;
    error = copy_pieces(device, pieces, n_pieces, elements, false);
    if (!error)
        error = ampi_op_fetch_device(op, in, elements, fetched, count, type);
    if (!error)
        error = copy_pieces(device, pieces, n_pieces, elements, true);
    gpu_scratch_put(device, elements, n_bytes);
    *error_out = error;
    return true;
}

/* ---- Whole operations ---- */

/* Copies origin and result, if in GPU memory, through host memory. */
static int combine_in_host(const struct ampi_rma *rma)
{
    struct ampi_rma host = *rma;
    struct ampi_host_copy from = {0}, result = {0};
    bool has_input = rma->op->predefined != MPI_NO_OP;
    int error = 0, end_error;

    if (has_input &&
        (error = ampi_host_copy_begin(&from, rma->origin.buf, rma->origin.count, rma->origin.type, true)))
        return error;
    if (rma->result.type)
        error = ampi_host_copy_begin(&result, rma->result.buf, rma->result.count, rma->result.type, false);
    if (!error) {
        host.origin.buf = from.buf;
        host.result.buf = result.buf;
        error = ampi_rma_combine_layouts(&host);
        end_error = rma->result.type ? ampi_host_copy_end(&result, true) : 0;
        error = error ? error : end_error;
    }
    end_error = has_input ? ampi_host_copy_end(&from, false) : 0;
    return error ? error : end_error;
}

/* The same with a copy of the target. */
static int combine_copy(const struct ampi_rma *rma)
{
    const struct ampi_rma_side *to = &rma->target;
    struct ampi_rma host = *rma;
    struct ampi_host_copy target;
    int error = ampi_host_copy_begin(&target, to->buf, to->count, to->type, true), end_error;

    if (error)
        return error;
    host.at = NULL; /* whose flag is held */
    host.target.buf = target.buf;
    error = combine_in_host(&host);
    end_error = ampi_host_copy_end(&target, !error);
    return error ? error : end_error;
}

/* Moves as much as both sides have. */
static int move(const struct ampi_rma_side *to, const struct ampi_rma_side *from)
{
    return ampi_device_copy(to->buf, to->count, to->type, from->buf, from->count, from->type);
}

/* Elements of the target's basic type in scratch memory. */
static struct ampi_rma_side elements_at(void *memory, MPI_Count count, struct ampi_type *type)
{
    return (struct ampi_rma_side){.buf = memory, .count = count, .type = type};
}

/* True if the side's elements need no gathering. */
static bool are_consecutive(const struct ampi_rma *rma, const struct ampi_rma_side *side)
{
    return ampi_rma_are_elements(side) && side->type->basic == rma->target.type->basic;
}

/* memory: for the target's elements, and behind them for the origin's, unless these are consecutive. */
static int combine_gathered(const struct ampi_rma *rma, char *memory, MPI_Count count, struct ampi_type *type)
{
    size_t n_bytes = (size_t)(count * type->size_bytes);
    struct ampi_rma_side target = elements_at(memory, count, type);
    struct ampi_rma_side origin = elements_at(memory + n_bytes, count, type);
    const void *in = origin.buf;
    char *old = NULL;
    int error = move(&target, &rma->target);

    if (!error && are_consecutive(rma, &rma->origin))
        in = ampi_type_address(rma->origin.buf, rma->origin.type->true_lb_bytes);
    else if (!error)
        error = move(&origin, &rma->origin);
    if (!error && rma->result.type && are_consecutive(rma, &rma->result) &&
        ampi_rma_bytes(&rma->result) >= (MPI_Aint)n_bytes)
        old = ampi_type_address(rma->result.buf, rma->result.type->true_lb_bytes);
    else if (!error && rma->result.type)
        error = move(&rma->result, &target);
    if (!error)
        error = ampi_op_fetch_device(rma->op, in, memory, old, count, type);
    return error ? error : move(&rma->target, &target);
}

static int combine_on_device(const struct ampi_rma *rma)
{
    struct ampi_type *type = type_with_kernel(rma->op, rma->target.type->basic);
    size_t n_bytes =
        (size_t)base_min_u64((uint64_t)ampi_rma_bytes(&rma->target), (uint64_t)ampi_rma_bytes(&rma->origin));
    const void *first = ampi_type_address(rma->target.buf, rma->target.type->true_lb_bytes);
    int device = gpu_range_device(*gpu_find(first)), error = 0;
    size_t memory_bytes = n_bytes * (are_consecutive(rma, &rma->origin) ? 1 : 2);
    char *memory = device >= 0 && type ? gpu_scratch_get(device, memory_bytes, &error) : NULL;

    if (!memory)
        return combine_copy(rma);
    error = combine_gathered(rma, memory, (MPI_Count)(n_bytes / (size_t)type->size_bytes), type);
    gpu_scratch_put(device, memory, memory_bytes);
    return error;
}

static int combine_target(const struct ampi_rma *rma)
{
    bool is_move = rma->op->predefined == MPI_NO_OP || rma->op->predefined == MPI_REPLACE;
    int error = is_move && rma->result.type ? move(&rma->result, &rma->target) : 0;

    if (error || rma->op->predefined == MPI_NO_OP)
        return error;
    return is_move ? move(&rma->target, &rma->origin) : combine_on_device(rma);
}

/* All sides are elements with the same layout, but may begin at different displacements. */
static bool is_block(const struct ampi_rma *rma)
{
    bool is_move = rma->op->predefined == MPI_NO_OP || rma->op->predefined == MPI_REPLACE;

    if (!ampi_rma_are_elements(&rma->target) || (!is_move && !ampi_op_is_allowed(rma->op, rma->target.type)))
        return false;
    if (rma->op->predefined != MPI_NO_OP &&
        !(are_consecutive(rma, &rma->origin) && ampi_rma_bytes(&rma->origin) == ampi_rma_bytes(&rma->target)))
        return false;
    return !rma->result.type || are_consecutive(rma, &rma->result);
}

/* The buffer to be used with the target's type for the elements of this side, whose own type may begin at
 * another displacement. */
static void *as_target(const struct ampi_rma *rma, const struct ampi_rma_side *side)
{
    return ampi_type_address(side->buf, side->type->true_lb_bytes - rma->target.type->true_lb_bytes);
}

/* One kernel, or copies by GPUs. */
static int combine_block(const struct ampi_rma *rma)
{
    const void *in = rma->op->predefined == MPI_NO_OP ? NULL : as_target(rma, &rma->origin);
    void *old = rma->result.type ? as_target(rma, &rma->result) : NULL;

    return ampi_op_fetch_device(rma->op, in, rma->target.buf, old, rma->target.count, rma->target.type);
}

int ampi_rma_combine_device(const struct ampi_rma *rma)
{
    bool is_block_all = is_block(rma);
    int error;

    if (!is_block_all && !ampi_rma_is_device(&rma->target))
        return combine_in_host(rma);
    ampi_win_combine_begin(rma->at);
    error = is_block_all ? combine_block(rma) : combine_target(rma);
    ampi_win_combine_end(rma->at);
    return error;
}
