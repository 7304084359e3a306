/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device_scan.c: MPI_Scan and MPI_Exscan on GPU buffers, by kernels; see coll_device.h.
 *
 * Each GPU with receivers processes a slice of the elements, in pieces, several at once. A piece goes from
 * rank to rank: one kernel adds the rank's contribution to the running result, which is in scratch memory,
 * and writes the new one there and to the rank. An exclusive scan takes two kernels per rank: in place, its
 * contribution has to be read before the running result overwrites it.
 */
#include "ampi/coll/device/device_slice.h"
#include "ampi/coll/engine/fold.h"
#include "ampi/op/op_device.h"
#include "base/log.h"
#include "gpu/copy/pool.h"

/* Minimum vector size for a slice on each GPU. */
#define SLICES_FROM ((size_t)128 << 10)

/* Slices begin at multiples of this many elements. */
#define SLICE_ELEMS 64

/* Maximum size of a piece, its minimum if scratch memory is short, and the number of pieces in progress. */
#define PIECE_MOST ((size_t)8 << 20)
#define PIECE_LEAST ((size_t)64 << 10)
#define PIECES 2

/* Elements that are processed from rank to rank. */
struct piece {
    struct gpu_combine combine;
    struct scan *scan;
    MPI_Count from, count;
    int member;        /* the current member */
    bool has_next_sum; /* exclusive: the sum including its contribution is in memory[1] */
    char *memory[2];   /* scratch; the running result, and room for the next one */
    void *outs[2];     /* of the running kernel */
    const void *inputs[2];
};

struct scan {
    struct ampi_coll_slot *slot;
    struct ampi_coll_pe *part;
    int gpu;
    bool is_exclusive;
    MPI_Count taken, end; /* elements already assigned to pieces; end of the slice */
    MPI_Count piece_count;
    size_t piece_bytes; /* scratch memory: twice this size per piece */
    int n_pieces;
    int n_busy;
    int error; /* the first */
    struct piece pieces[PIECES];
};

static const struct ampi_type *type_of(const struct scan *scan)
{
    return scan->slot->last->send.type;
}

/* The address of a piece's first element in a buffer. */
static void *at(const struct piece *piece, void *buf)
{
    const struct ampi_type *type = type_of(piece->scan);

    return ampi_type_address(buf, type->true_lb_bytes + piece->from * type->extent_bytes);
}

static void *input(const struct piece *piece, int member)
{
    return at(piece, ampi_coll_input(piece->scan->slot->args[member]));
}

static void *output(const struct piece *piece, int member)
{
    return at(piece, piece->scan->slot->args[member]->recv.buf);
}

/* ---- The kernels of a piece ---- */

static void kernel_done(struct gpu_combine *combine, int error);

/* Starts a kernel; the second input and output may be NULL. */
static int start_kernel(struct piece *piece, void *out, void *second_out, const void *input,
                        const void *second_input)
{
    const struct scan *scan = piece->scan;

    piece->outs[0] = out;
    piece->outs[1] = second_out;
    piece->inputs[0] = input;
    piece->inputs[1] = second_input;
    piece->combine = (struct gpu_combine){.outs = piece->outs,
                                          .inputs = piece->inputs,
                                          .n_outs = second_out ? 2 : 1,
                                          .n_inputs = second_input ? 2 : 1,
                                          .count_elems = (int64_t)ampi_op_elems(type_of(scan), piece->count),
                                          .device = scan->gpu,
                                          .done = kernel_done};
    ampi_op_set_gpu_kernel(scan->slot->last->op, type_of(scan), &piece->combine);
    return gpu_combine_start(&piece->combine);
}

/* The operands are in rank order: the contribution is the first input, which is the second operand. */
static int start_inclusive(struct piece *piece)
{
    int i = piece->member++;

    return start_kernel(piece, piece->memory[0], output(piece, i), input(piece, i),
                        i > 0 ? piece->memory[0] : NULL);
}

static int start_exclusive(struct piece *piece)
{
    int i = piece->member, n = piece->scan->slot->state->n_members;
    char *sum = piece->memory[0];

    if (i == 0) {
        piece->member++;
        return start_kernel(piece, sum, NULL, input(piece, 0), NULL);
    }
    if (!piece->has_next_sum && i < n - 1) {
        piece->has_next_sum = true;
        return start_kernel(piece, piece->memory[1], NULL, input(piece, i), sum);
    }
    piece->memory[0] = piece->memory[1];
    piece->memory[1] = sum;
    piece->has_next_sum = false;
    piece->member++;
    return start_kernel(piece, output(piece, i), NULL, sum, NULL);
}

/* ---- Pieces ---- */

static void end_scan(struct scan *scan)
{
    if (BASE_UNLIKELY(scan->error))
        ampi_coll_device_fail(scan->slot, scan->error);
    for (int i = 0; i < scan->n_pieces; i++)
        for (int k = 0; k < 2; k++)
            if (scan->pieces[i].memory[k])
                gpu_scratch_put(scan->gpu, scan->pieces[i].memory[k], scan->piece_bytes);
    free(scan);
}

/* Starts the piece's next kernel, or the first one of the next elements. false: there are none. */
static bool start_next(struct piece *piece)
{
    struct scan *scan = piece->scan;
    int error;

    if (piece->member == scan->slot->state->n_members) {
        piece->from = scan->taken;
        piece->count = base_min_u64((uint64_t)scan->piece_count, (uint64_t)(scan->end - scan->taken));
        piece->member = 0;
        scan->taken += piece->count;
    }
    if (scan->error || piece->count == 0)
        return false;
    error = scan->is_exclusive ? start_exclusive(piece) : start_inclusive(piece);
    if (BASE_UNLIKELY(error))
        scan->error = error;
    return !error;
}

static void kernel_done(struct gpu_combine *combine, int error)
{
    struct piece *piece = BASE_CONTAINER(combine, struct piece, combine);
    struct scan *scan = piece->scan;
    struct ampi_coll_pe *part = scan->part;

    if (BASE_UNLIKELY(error) && !scan->error)
        scan->error = error;
    if (start_next(piece) || --scan->n_busy > 0)
        return;
    end_scan(scan);
    ampi_coll_device_end(part);
}

/* Allocates scratch memory for all pieces, which are as small as necessary. */
static int get_memory(struct scan *scan)
{
    MPI_Count extent = type_of(scan)->extent_bytes, count = scan->end - scan->taken;
    int error = 0;

    for (size_t most = PIECE_MOST; most >= PIECE_LEAST; most /= 2) {
        MPI_Count units = (MPI_Count)most / extent / SLICE_ELEMS;
        scan->piece_count =
            base_min_u64((uint64_t)(units ? units * SLICE_ELEMS : SLICE_ELEMS), (uint64_t)count);
        scan->piece_bytes = (size_t)(scan->piece_count * extent);
        scan->n_pieces = scan->piece_count < count ? PIECES : 1;
        error = 0;
        for (int i = 0; i < 2 * scan->n_pieces && !error; i++)
            scan->pieces[i / 2].memory[i % 2] = gpu_scratch_get(scan->gpu, scan->piece_bytes, &error);
        if (!error)
            return 0;
        for (int i = 0; i < 2 * scan->n_pieces; i++) {
            char **memory = &scan->pieces[i / 2].memory[i % 2];
            if (*memory)
                gpu_scratch_put(scan->gpu, *memory, scan->piece_bytes);
            *memory = NULL;
        }
    }
    return error;
}

/* Scans elements from .. to - 1 on a GPU. */
static void start_slice(struct ampi_coll_slot *slot, int gpu, MPI_Count from, MPI_Count to, bool is_exclusive)
{
    struct scan *scan = base_calloc(1, sizeof *scan, "a scan on GPUs");

    scan->slot = slot;
    scan->part = ampi_coll_device_stage();
    scan->gpu = gpu;
    scan->is_exclusive = is_exclusive;
    scan->taken = from;
    scan->end = to;
    scan->error = get_memory(scan);
    for (int i = 0; i < scan->n_pieces && !scan->error; i++) {
        scan->pieces[i].scan = scan;
        scan->pieces[i].member = slot->state->n_members;
        scan->n_busy += start_next(&scan->pieces[i]);
    }
    if (BASE_LIKELY(scan->n_busy > 0))
        scan->part->n_moves++;
    else
        end_scan(scan); /* none could be started */
}

/* ---- Distribution ---- */

static uint64_t gpu_bit(void *buf, const struct ampi_type *type, const struct ampi_coll_known *known)
{
    int gpu = ampi_coll_gpu_of(known, ampi_type_address(buf, type->true_lb_bytes));

    return gpu < 0 ? 0 : (uint64_t)1 << gpu;
}

uint64_t ampi_coll_gpu_plan_scan(const struct ampi_coll_slot *slot, bool is_exclusive)
{
    const struct ampi_coll_args *last = slot->last;
    const struct ampi_type *type = last->send.type;
    uint64_t outputs = 0, inputs = 0;

    if (slot->state->remote || !ampi_coll_gpu_any(slot) || !ampi_coll_device_has_kernel(last->op, type))
        return 0;
    for (int i = 0; i < slot->state->n_members; i++) {
        inputs |= gpu_bit(ampi_coll_input(slot->args[i]), type, ampi_coll_input_known(slot->args[i]));
        if (is_exclusive && i == 0)
            continue;
        if (!ampi_coll_is_plain(slot->args[i], type))
            return 0;
        outputs |= gpu_bit(slot->args[i]->recv.buf, type, ampi_coll_whole(&slot->args[i]->recv).known);
    }
    if ((inputs | outputs) == 0)
        return 0;
    outputs = outputs ? outputs : inputs;
    return (size_t)(last->send.count * type->size_bytes) < SLICES_FROM ? outputs & -outputs : outputs;
}

void ampi_coll_gpu_scan(struct ampi_coll_slot *slot, int part, bool is_exclusive)
{
    MPI_Count count = slot->last->send.count, units = (count + SLICE_ELEMS - 1) / SLICE_ELEMS;
    int n = __builtin_popcountll(slot->gpus), n_parts = slot->state->n_parts, i = 0;

    for (uint64_t left = slot->gpus; left; left &= left - 1, i++) {
        MPI_Count from = units * i / n * SLICE_ELEMS, to = units * (i + 1) / n * SLICE_ELEMS;
        if (to > count)
            to = count;
        if (from < to && (!slot->needs_share || i * n_parts / n == part))
            start_slice(slot, __builtin_ctzll(left), from, to, is_exclusive);
    }
}
