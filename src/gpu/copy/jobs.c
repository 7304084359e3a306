/* SPDX-License-Identifier: BSD-3-Clause
 *
 * jobs.c: moves between layouts, many in one launch; see jobs.h.
 */
#include "gpu/copy/jobs.h"

#include <string.h>

#include "gpu/copy/queue.h"

/* More blocks than a GPU can run at once: threads loop over the rest of the work. */
#define BLOCKS_MAX 4096

#define UNIT_MAX 16

/* Bytes of one move, so that unit numbers in kernels have 31 bits. */
#define BYTES_MAX ((size_t)INT32_MAX)

/* Repetitions without a limit of their own: the number of bytes is the limit. */
#define UNLIMITED ((int64_t)1 << 62)

struct gpu_divisor gpu_divisor_by(uint64_t by)
{
    struct gpu_divisor d = {.by = (uint32_t)by};
    unsigned bits = 0;

    if (by == 1)
        return d;
    while (((uint64_t)1 << bits) < by)
        bits++;
    /* ceil(2^(31 + bits) / by): exact for numbers below 2^31 */
    d.mul = (uint32_t)((((uint64_t)1 << (31 + bits)) + by - 1) / by);
    d.shift = bits - 1;
    return d;
}

size_t gpu_unit_of(uint64_t bits)
{
    bits |= UNIT_MAX;
    return (size_t)(bits & -bits);
}

unsigned gpu_pack_blocks(size_t n_threads)
{
    size_t n = (n_threads + GPU_PACK_THREADS - 1) / GPU_PACK_THREADS;

    return (unsigned)(n < BLOCKS_MAX ? n : BLOCKS_MAX);
}

/* ---- The loops that two sides have in common ---- */

struct common {
    int64_t body; /* bytes; UNLIMITED: both sides are consecutive */
    int n_dims;
    int64_t n[GPU_BOX_DIMS];
    int64_t to_stride[GPU_BOX_DIMS];
    int64_t from_stride[GPU_BOX_DIMS];
};

/* The loops of a side that are still to be described. */
struct rest {
    const struct gpu_box *box;
    int next;       /* the loop after the current one */
    int64_t n;      /* repetitions of the current loop */
    int64_t stride; /* bytes between them */
};

static void next_loop(struct rest *rest)
{
    const struct gpu_box *box = rest->box;

    rest->n = rest->next < box->n_dims - 1 ? box->n[rest->next] : UNLIMITED;
    rest->stride = rest->next < box->n_dims ? box->stride[rest->next] : 0;
    rest->next++;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* True if n repetitions are a whole number of turns of the smaller number. */
static bool divides(int64_t n, int64_t by)
{
    return n == UNLIMITED || n % by == 0;
}

static struct rest rest_of(const struct gpu_box *box, int64_t body)
{
    struct rest rest = {.box = box, .n = box->block / body, .stride = body};

    if (gpu_box_is_flat(box))
        rest.n = UNLIMITED;
    else if (rest.n == 1)
        next_loop(&rest);
    return rest;
}

static void take(struct rest *rest, int64_t n)
{
    if (rest->n == UNLIMITED) {
        rest->stride *= n;
        return;
    }
    rest->n /= n;
    rest->stride *= n;
    if (rest->n == 1)
        next_loop(rest);
}

/* false: the sides do not fit together. */
static bool find_common(const struct gpu_box *to, const struct gpu_box *from, struct common *out)
{
    int64_t to_block = gpu_box_is_flat(to) ? UNLIMITED : to->block;
    int64_t from_block = gpu_box_is_flat(from) ? UNLIMITED : from->block;
    int64_t body = to->table ? to_block : from->table ? from_block : smaller(to_block, from_block), n;
    struct rest a, b;

    *out = (struct common){.body = body};
    if (body == UNLIMITED) {
        out->n_dims = 1;
        return true;
    }
    if (!divides(to_block, body) || !divides(from_block, body) ||
        (to->table && from->table && to_block != from_block) || (from->table && from_block != body))
        return false;
    a = rest_of(to, body);
    b = rest_of(from, body);
    do {
        if (out->n_dims == GPU_BOX_DIMS)
            return false;
        n = smaller(a.n, b.n);
        if (n != UNLIMITED && (!divides(a.n, n) || !divides(b.n, n)))
            return false;
        out->n[out->n_dims] = n;
        out->to_stride[out->n_dims] = a.stride;
        out->from_stride[out->n_dims++] = b.stride;
        if (n != UNLIMITED) {
            take(&a, n);
            take(&b, n);
        }
    } while (n != UNLIMITED);
    return true;
}

/* The number of bytes of the common loops that are skipped, and the address of their byte 0 on each side. */
struct start {
    size_t skip_bytes;
    uintptr_t to;
    uintptr_t from;
};

/* false: the sides skip differently, and neither is consecutive. */
static bool find_start(const struct gpu_job_side *to, const struct gpu_job_side *from, struct start *out)
{
    bool is_flat = gpu_box_is_flat(&to->box) || gpu_box_is_flat(&from->box);

    out->skip_bytes = gpu_box_is_flat(&to->box) ? from->skip_bytes : to->skip_bytes;
    out->to = to->box.base + (gpu_box_is_flat(&to->box) ? to->skip_bytes - out->skip_bytes : 0);
    out->from = from->box.base + (gpu_box_is_flat(&from->box) ? from->skip_bytes - out->skip_bytes : 0);
    return is_flat || to->skip_bytes == from->skip_bytes;
}

/* ---- Jobs ---- */

static uint64_t bits_of_table(const struct gpu_layout *table)
{
    struct gpu_pieces pieces;

    if (!table)
        return 0;
    pieces = gpu_layout_pieces(table);
    return (uint64_t)(pieces.n_bytes | pieces.scale);
}

/* A move as the kernel makes it. */
struct plan {
    struct common common;
    struct start start;
    size_t unit;
};

/* false: it cannot. */
static bool make_plan(const struct gpu_job_side *to, const struct gpu_job_side *from, size_t n_bytes,
                      struct plan *plan)
{
    const struct common *common = &plan->common;
    const struct start *start = &plan->start;
    uint64_t bits;

    if (!find_start(to, from, &plan->start) || start->skip_bytes + n_bytes > BYTES_MAX ||
        !find_common(&to->box, &from->box, &plan->common))
        return false;
    bits = start->to | start->from | start->skip_bytes | bits_of_table(to->box.table) |
           bits_of_table(from->box.table) | (uint64_t)(common->body == UNLIMITED ? 0 : common->body);
    for (int d = 0; d < common->n_dims; d++)
        bits |= (uint64_t)(common->to_stride[d] | common->from_stride[d]);
    plan->unit = gpu_unit_of(bits);
    return true;
}

size_t gpu_jobs_unit(const struct gpu_job_side *to, const struct gpu_job_side *from, size_t n_bytes)
{
    struct plan plan;

    return make_plan(to, from, n_bytes, &plan) ? plan.unit : 0;
}

static int set_places(struct gpu_kernel_places *places, struct gpu_queue *queue, struct gpu_layout *table,
                      uint32_t unit)
{
    struct gpu_pieces pieces;

    if (!table)
        return 0;
    pieces = gpu_layout_pieces(table);
    places->piece = gpu_divisor_by((uint64_t)pieces.n_bytes / unit);
    places->scale = (int32_t)pieces.scale;
    return gpu_layout_offsets(queue, table, &places->offsets);
}

static int make_shape(struct gpu_queue *queue, struct gpu_layout *to, struct gpu_layout *from,
                      const struct common *common, size_t unit, struct gpu_kernel_shape *shape_out)
{
    uint64_t body = common->body == UNLIMITED ? (uint64_t)1 << 31 : (uint64_t)common->body / unit;
    int error;

    memset(shape_out, 0, sizeof *shape_out); /* shapes are compared */
    shape_out->unit = (uint32_t)unit;
    shape_out->n_dims = (uint32_t)common->n_dims;
    shape_out->body = gpu_divisor_by(body);
    for (int d = 0; d < common->n_dims; d++) {
        if (d < common->n_dims - 1)
            shape_out->dim[d] = gpu_divisor_by((uint64_t)common->n[d]);
        shape_out->to_stride[d] = common->to_stride[d];
        shape_out->from_stride[d] = common->from_stride[d];
    }
    error = set_places(&shape_out->to, queue, to, (uint32_t)unit);
    return error ? error : set_places(&shape_out->from, queue, from, (uint32_t)unit);
}

/* The word index of the shape, which is added if it is new; 0: there is no room for it and a job. */
static uint32_t place_shape(struct gpu_jobs *jobs, const struct gpu_kernel_shape *shape)
{
    size_t first = GPU_JOBS_WORDS - jobs->n_shapes * GPU_SHAPE_WORDS;
    size_t end = (jobs->args.n_jobs + 1) * GPU_JOB_WORDS; /* of the jobs */

    for (size_t at = first; at < GPU_JOBS_WORDS; at += GPU_SHAPE_WORDS)
        if (memcmp(&jobs->args.words[at], shape, sizeof *shape) == 0)
            return end <= first ? (uint32_t)at : 0;
    if (end + GPU_SHAPE_WORDS > first)
        return 0;
    first -= GPU_SHAPE_WORDS;
    memcpy(&jobs->args.words[first], shape, sizeof *shape);
    jobs->n_shapes++;
    return (uint32_t)first;
}

static int add_job(struct gpu_jobs *jobs, const struct gpu_kernel_shape *shape, const struct start *start,
                   size_t from, size_t n_bytes)
{
    struct gpu_kernel_job job = {.to = start->to,
                                 .from = start->from,
                                 .first = (uint32_t)(from / shape->unit),
                                 .n = (uint32_t)(n_bytes / shape->unit),
                                 .piece = jobs->args.n_pieces,
                                 .shape = place_shape(jobs, shape)};

    if (job.shape == 0)
        return GPU_JOBS_FULL;
    memcpy(&jobs->args.words[jobs->args.n_jobs++ * GPU_JOB_WORDS], &job, sizeof job);
    jobs->args.n_pieces += (job.n + GPU_JOBS_PIECE - 1) / GPU_JOBS_PIECE;
    return 0;
}

int gpu_jobs_add(struct gpu_jobs *jobs, struct gpu_queue *queue, const struct gpu_job_side *to,
                 const struct gpu_job_side *from, size_t n_bytes)
{
    struct plan plan;
    struct gpu_kernel_shape shape;
    uint32_t n_jobs = jobs->args.n_jobs, n_pieces = jobs->args.n_pieces;
    size_t body;
    int error = 0;

    if (!make_plan(to, from, n_bytes, &plan))
        return GPU_JOBS_UNFIT;
    body = n_bytes / plan.unit * plan.unit;
    if (body) {
        error = make_shape(queue, to->box.table, from->box.table, &plan.common, plan.unit, &shape);
        if (!error)
            error = add_job(jobs, &shape, &plan.start, plan.start.skip_bytes, body);
    }
    if (!error && body < n_bytes) { /* the end of a truncated message */
        error = make_shape(queue, to->box.table, from->box.table, &plan.common, 1, &shape);
        if (!error)
            error = add_job(jobs, &shape, &plan.start, plan.start.skip_bytes + body, n_bytes - body);
    }
    if (error) {
        jobs->args.n_jobs = n_jobs;
        jobs->args.n_pieces = n_pieces;
    }
    return error;
}

int gpu_jobs_launch(struct gpu_jobs *jobs, struct gpu_queue *queue)
{
    return gpu_queue_launch(queue, GPU_KERNEL_JOBS,
                            gpu_pack_blocks((size_t)jobs->args.n_pieces * GPU_JOBS_LANES), GPU_PACK_THREADS,
                            &jobs->args, sizeof jobs->args);
}
