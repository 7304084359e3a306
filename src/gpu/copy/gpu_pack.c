/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_pack.c: launches the kernels that copy between a layout and consecutive memory; see gpu_pack.h.
 *
 *      one block                               a copy
 *      box (gpu_layout.h)                      pack_box
 *      table                                   jobs (jobs.h)
 *      table of small blocks of odd sizes      pack_odd
 *      neither, or large blocks of odd sizes   pack_program, which interprets the program
 */
#include "gpu/copy/gpu_pack.h"

#include "base/log.h"
#include "gpu/driver/module.h"

#include <string.h>

#include "gpu/copy/jobs.h"
#include "gpu/copy/queue.h"

#define UNITS_PER_THREAD 4

/* Units of one launch, so that unit numbers in kernels have 31 bits. */
#define LAUNCH_UNITS ((size_t)1 << 29)

/* Average bytes of a block up to which the kernel for odd blocks is used. */
#define ODD_MAX 64

#define UNIT_MAX 16 /* bytes of a thread's turn if blocks have any size */

bool gpu_has_kernels(void)
{
    return gpu_module.image != NULL;
}

/* ---- Launching ---- */

/* One launch: bytes from .. from + n_bytes - 1 of the box, all within its first LAUNCH_UNITS * 2 units. */
static int launch_box(struct gpu_queue *queue, const struct gpu_box *box, size_t unit, uint64_t from,
                      size_t n_bytes, uintptr_t flat, bool is_pack)
{
    struct gpu_kernel_box args = {
        .base = box->base,
        .flat = flat,
        .first = (uint32_t)(from / unit),
        .n = (uint32_t)(n_bytes / unit),
        .unit = (uint16_t)unit,
        .n_dims = (uint8_t)box->n_dims,
        .is_pack = is_pack,
        .block = gpu_divisor_by((uint64_t)box->block / unit),
    };

    for (int d = 0; d < box->n_dims; d++) {
        args.stride[d] = box->stride[d];
        if (d < box->n_dims - 1)
            args.dim[d] = gpu_divisor_by((uint64_t)box->n[d]);
    }
    return gpu_queue_launch(queue, GPU_KERNEL_PACK_BOX, gpu_pack_blocks(args.n / UNITS_PER_THREAD + 1),
                            GPU_PACK_THREADS, &args, sizeof args);
}

/* Bytes from .. from + n_bytes - 1 of the box. Iterates over its outermost loop where one launch cannot
 * number all units. */
static int move_box(struct gpu_queue *queue, struct gpu_box box, size_t unit, uint64_t from, size_t n_bytes,
                    uintptr_t flat, bool is_pack)
{
    uint64_t turn_bytes = (uint64_t)box.block; /* of the outermost loop */
    int last = box.n_dims - 1, error = 0;
    bool is_large;

    if (box.n_dims == 0)
        return is_pack ? gpu_queue_copy(queue, (void *)flat, (void *)(box.base + from), n_bytes)
                       : gpu_queue_copy(queue, (void *)(box.base + from), (void *)flat, n_bytes);
    for (int d = 0; d < last; d++)
        turn_bytes *= (uint64_t)box.n[d];
    is_large = turn_bytes / unit > LAUNCH_UNITS;
    while (n_bytes > 0 && !error) {
        uint64_t turn = from / turn_bytes;
        size_t piece = is_large ? turn_bytes - from % turn_bytes : LAUNCH_UNITS * unit;
        struct gpu_box part = box;
        if (piece > n_bytes)
            piece = n_bytes;
        part.base += turn * (uint64_t)box.stride[last];
        part.n_dims -= is_large;
        if (is_large)
            error = move_box(queue, part, unit, from % turn_bytes, piece, flat, is_pack);
        else
            error = launch_box(queue, &part, unit, from % turn_bytes, piece, flat, is_pack);
        from += piece;
        flat += piece;
        n_bytes -= piece;
    }
    return error;
}

/* Launches the next n_bytes in units of this size. */
static int launch_program(struct gpu_queue *queue, struct gpu_kernel_pack *args, size_t unit, size_t n_bytes)
{
    size_t n_turns = unit > 1 ? n_bytes / unit : n_bytes / UNIT_MAX + 2; /* of threads */
    int error;

    args->unit = (uint32_t)unit;
    args->n = n_bytes / unit;
    error = gpu_queue_launch(queue, GPU_KERNEL_PACK_PROGRAM, gpu_pack_blocks(n_turns / UNITS_PER_THREAD + 1),
                             GPU_PACK_THREADS, args, sizeof *args);
    args->first += n_bytes;
    args->flat += n_bytes;
    return error;
}

static int move_program(struct gpu_queue *queue, const struct gpu_data *data, size_t offset, size_t n_bytes,
                        uintptr_t flat, bool is_pack)
{
    struct base_layout *layout = data->layout;
    size_t unit, n;
    int error = 0;
    struct gpu_kernel_pack args = {
        .base = (uintptr_t)data->buf,
        .flat = flat,
        .first = offset,
        .is_pack = is_pack,
        .size_bytes = (int64_t)data->size_bytes / data->count,
        .extent_bytes = data->extent_bytes,
        .disp_bytes = layout->disp_bytes,
        .root = layout->root,
        .n_words = layout->n_words,
    };
    uint64_t bits = gpu_layout_bits(layout) | (uintptr_t)data->buf | (uint64_t)args.size_bytes | offset |
                    flat | (data->count > 1 ? (uint64_t)data->extent_bytes : 0);

    if (layout->n_words <= GPU_PROGRAM_WORDS)
        memcpy(args.words, layout->words, (size_t)layout->n_words * sizeof(int64_t));
    else
        error = gpu_layout_program(queue, layout, &args.program);
    unit = gpu_unit_of(bits);
    unit = unit < 8 ? 1 : unit;
    n = n_bytes / unit * unit; /* the rest is the end of a truncated message */
    if (!error && n)
        error = launch_program(queue, &args, unit, n);
    if (!error && n < n_bytes)
        error = launch_program(queue, &args, 1, n_bytes - n);
    return error;
}

/* Blocks of odd sizes. */
static int move_odd(struct gpu_queue *queue, const struct gpu_box *box, size_t offset, size_t n_bytes,
                    uintptr_t flat, bool is_pack)
{
    struct gpu_kernel_odd args = {
        .base = box->base,
        .flat = flat,
        .first = (uint32_t)offset,
        .n = (uint32_t)n_bytes,
        .n_dims = box->n_dims ? (uint32_t)box->n_dims : 1,
        .is_pack = is_pack,
        .size = gpu_divisor_by((uint64_t)box->block),
        .n_blocks = gpu_divisor_by((uint64_t)gpu_layout_n_blocks(box->table)),
    };
    int error = gpu_layout_blocks(queue, box->table, &args.blocks);

    for (int d = 0; d < box->n_dims; d++) {
        args.stride[d] = box->stride[d];
        if (d < box->n_dims - 1)
            args.dim[d] = gpu_divisor_by((uint64_t)box->n[d]);
    }
    return error ? error
                 : gpu_queue_launch(
                       queue, GPU_KERNEL_PACK_ODD,
                       gpu_pack_blocks(n_bytes / GPU_ODD_CHUNK * GPU_PACK_THREADS / GPU_ODD_WARPS + 1),
                       GPU_ODD_WARPS * 32, &args, sizeof args);
}

/* True if a table has so small blocks that a lane should take one. */
static bool has_small_blocks(const struct gpu_box *box)
{
    int64_t n_blocks = gpu_layout_n_blocks(box->table);

    return n_blocks > 0 && box->block / n_blocks <= ODD_MAX;
}

static int move_table(struct gpu_queue *queue, const struct gpu_box *box, size_t offset, size_t n_bytes,
                      uintptr_t flat, bool is_pack)
{
    struct gpu_jobs *jobs; /* too large for a rank's stack */
    struct gpu_job_side layout = {.box = *box, .skip_bytes = offset};
    struct gpu_job_side memory = {.box = gpu_box_of_memory((const void *)flat, n_bytes)};
    size_t unit = gpu_jobs_unit(&layout, &memory, n_bytes);
    int error;

    if (unit && unit < GPU_JOBS_UNIT_LEAST && has_small_blocks(box))
        return move_odd(queue, box, offset, n_bytes, flat, is_pack);
    if (unit < GPU_JOBS_UNIT_LEAST && n_bytes > GPU_JOBS_UNALIGNED_MAX)
        return GPU_JOBS_UNFIT;
    jobs = base_malloc(sizeof *jobs, "arguments of a kernel");
    gpu_jobs_begin(jobs);
    error = gpu_jobs_add(jobs, queue, is_pack ? &memory : &layout, is_pack ? &layout : &memory, n_bytes);
    if (!error)
        error = gpu_jobs_launch(jobs, queue);
    free(jobs);
    return error;
}

bool gpu_data_is_block(const struct gpu_data *data, void **first_out)
{
    struct gpu_box box;

    if (!gpu_box_of_data(data, &box) || !gpu_box_is_flat(&box))
        return false;
    *first_out = (void *)box.base;
    return true;
}

static int move(struct gpu_queue *queue, const struct gpu_data *data, size_t offset, size_t n_bytes,
                uintptr_t flat, bool is_pack)
{
    uint64_t bits;
    struct gpu_box box;
    size_t unit, body;
    int error;

    BASE_ASSERT(offset + n_bytes <= data->size_bytes);
    if (n_bytes == 0)
        return 0;
    if (!gpu_box_of_data(data, &box))
        return move_program(queue, data, offset, n_bytes, flat, is_pack);
    if (box.table) {
        error = move_table(queue, &box, offset, n_bytes, flat, is_pack);
        return error == GPU_JOBS_UNFIT ? move_program(queue, data, offset, n_bytes, flat, is_pack) : error;
    }
    bits = box.base | (uint64_t)box.block | offset | flat;
    for (int d = 0; d < box.n_dims; d++)
        bits |= (uint64_t)box.stride[d];
    unit = gpu_unit_of(bits);
    body = n_bytes / unit * unit;
    error = body ? move_box(queue, box, unit, offset, body, flat, is_pack) : 0;
    if (!error && body < n_bytes)
        error = move_box(queue, box, 1, offset + body, n_bytes - body, flat + body, is_pack);
    return error;
}

int gpu_pack_launch(struct gpu_queue *queue, const struct gpu_data *data, size_t offset, size_t n_bytes,
                    void *to)
{
    return move(queue, data, offset, n_bytes, (uintptr_t)to, true);
}

int gpu_unpack_launch(struct gpu_queue *queue, const struct gpu_data *data, size_t offset, size_t n_bytes,
                      const void *from)
{
    return move(queue, data, offset, n_bytes, (uintptr_t)from, false);
}
