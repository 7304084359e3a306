/* SPDX-License-Identifier: BSD-3-Clause
 *
 * combine.c: combines elements on a GPU; see gpu.h.
 *
 * One launch reads all inputs and writes the result, wherever the GPU can reach them: in its own memory, a
 * peer's, pinned. What it cannot reach is copied to scratch memory before, a chunk at a time, in the same
 * queue.
 */
#include "base/log.h"
#include "gpu/gpu.h"
#include "gpu/kernels/kernels.h"
#include "gpu/query.h"
#include "gpu/queue.h"

#define THREADS 256
#define BLOCKS_MAX 4096

/* Scratch memory for all that must be copied before. */
#define SCRATCH_BYTES ((size_t)32 << 20)

/* ---- What there are kernels for ---- */

#define BIT(op) (1u << GPU_OP_##op)
#define REAL (BIT(SUM) | BIT(PROD) | BIT(MIN) | BIT(MAX))
#define BITS (BIT(BAND) | BIT(BOR) | BIT(BXOR))
#define BOOL (BIT(LAND) | BIT(LOR) | BIT(LXOR))
#define INTEGER (REAL | BITS | BOOL)
#define COMPLEX (BIT(SUM) | BIT(PROD))
#define PAIR (BIT(MINLOC) | BIT(MAXLOC))

static const struct {
    uint16_t ops;       /* a bit per enum gpu_op */
    uint16_t elem_size; /* bytes from element to element */
} types[GPU_TYPE_COUNT] = {
    [GPU_TYPE_INT8] = {INTEGER, 1},   [GPU_TYPE_INT16] = {INTEGER, 2},
    [GPU_TYPE_INT32] = {INTEGER, 4},  [GPU_TYPE_INT64] = {INTEGER, 8},
    [GPU_TYPE_UINT8] = {INTEGER, 1},  [GPU_TYPE_UINT16] = {INTEGER, 2},
    [GPU_TYPE_UINT32] = {INTEGER, 4}, [GPU_TYPE_UINT64] = {INTEGER, 8},
    [GPU_TYPE_FLOAT16] = {REAL, 2},   [GPU_TYPE_FLOAT] = {REAL, 4},
    [GPU_TYPE_DOUBLE] = {REAL, 8},    [GPU_TYPE_COMPLEX_FLOAT16] = {COMPLEX, 4},
    [GPU_TYPE_BYTE] = {BITS, 1},      [GPU_TYPE_COMPLEX_FLOAT] = {COMPLEX, 8},
    [GPU_TYPE_BOOL] = {BOOL, 1},      [GPU_TYPE_COMPLEX_DOUBLE] = {COMPLEX, 16},
    [GPU_TYPE_LOGICAL8] = {BOOL, 1},  [GPU_TYPE_LOGICAL16] = {BOOL, 2},
    [GPU_TYPE_LOGICAL32] = {BOOL, 4}, [GPU_TYPE_LOGICAL64] = {BOOL, 8},
    [GPU_TYPE_FLOAT_INT] = {PAIR, 8}, [GPU_TYPE_DOUBLE_INT] = {PAIR, 16},
    [GPU_TYPE_LONG_INT] = {PAIR, 16}, [GPU_TYPE_2INT] = {PAIR, 8},
    [GPU_TYPE_SHORT_INT] = {PAIR, 8}, [GPU_TYPE_2FLOAT] = {PAIR, 8},
    [GPU_TYPE_2DOUBLE] = {PAIR, 16},
};

bool gpu_can_combine(int op, int type)
{
    return gpu_module.image && type >= 0 && type < GPU_TYPE_COUNT && op >= 0 && op < GPU_OP_COUNT &&
           types[type].ops >> op & 1;
}

/* ---- One call ---- */

struct run {
    const struct gpu_combine *combine;
    struct gpu_queue *queue;
    int device;
    size_t elem_size;
    size_t chunk_elems; /* that are combined at a time; all if nothing is staged */
    char *scratch;      /* NULL: nothing is staged */
    size_t scratch_bytes;
    bool is_out_staged;
    bool *is_staged; /* per input */
};

/* What the device can do with the memory at this address. */
static enum gpu_reach reach(int device, const void *addr)
{
    struct gpu_range range = *gpu_find(addr);

    if (range.memory == GPU_MEMORY_HOST)
        return GPU_REACH_COPY;
    if (range.memory != GPU_MEMORY_DEVICE)
        return GPU_REACH_KERNEL;
    return gpu_reach(device, (uintptr_t)addr, range.device, range.buffer);
}

/* Copies between scratch memory of the run's device and `addr`, which is dst or src: memory that only its own
 * device can use is copied by that one, and waited for. */
static int stage(const struct run *run, void *dst, const void *src, size_t n_bytes, const void *addr)
{
    struct gpu_queue *queue;
    int error;

    if (reach(run->device, addr) != GPU_REACH_NONE)
        return gpu_queue_copy(run->queue, dst, src, n_bytes);
    queue = gpu_queue_of(gpu_find(addr)->device, GPU_LANE_KERNELS, &error);
    if (!queue)
        return error;
    error = gpu_queue_spin(run->queue);
    if (!error)
        error = gpu_queue_copy(queue, dst, src, n_bytes);
    return error ? error : gpu_queue_spin(queue);
}

/* A kernel that uses memory which is not there would take the GPU's context with it. */
static int check_address(const void *addr)
{
    return gpu_resolve(addr)->memory == GPU_MEMORY_NOWHERE ? gpu_address_error((uintptr_t)addr) : 0;
}

static int check_addresses(const struct gpu_combine *combine)
{
    int error = check_address(combine->out);

    for (int i = 0; i < combine->n_inputs && !error; i++)
        error = check_address(combine->inputs[i]);
    return error;
}

/* Where to combine: where the result goes, or where the first input is that is on a GPU. -1: all is in the
 * host's memory. */
static int choose_device(const struct gpu_combine *combine)
{
    struct gpu_range range = *gpu_find(combine->out);

    for (int i = 0; range.device < 0 && i < combine->n_inputs; i++)
        range = *gpu_find(combine->inputs[i]);
    return range.device;
}

/* Elements from .. from + n - 1 of inputs first .. first + n_inputs - 1; has_result: on top of what out has.
 */
static int launch(const struct run *run, uint64_t out, const uint64_t *inputs, int n_inputs, size_t n)
{
    struct gpu_kernel_combine args = {
        .out = out, .count = (int64_t)n, .n_inputs = n_inputs, .op = (int16_t)run->combine->op};
    size_t n_blocks = (n * run->elem_size / 16 + THREADS) / THREADS;
    uint64_t bits = out;

    for (int i = 0; i < n_inputs; i++) {
        args.inputs[i] = inputs[i];
        bits |= inputs[i];
    }
    args.is_aligned = bits % 16 == 0;
    return gpu_queue_launch(run->queue, GPU_KERNEL_COMBINE(run->combine->type),
                            (unsigned)(n_blocks < BLOCKS_MAX ? n_blocks : BLOCKS_MAX), THREADS, &args,
                            sizeof args);
}

/* Elements from .. from + n - 1. */
static int combine_chunk(const struct run *run, size_t from, size_t n)
{
    const struct gpu_combine *combine = run->combine;
    size_t at = from * run->elem_size, n_bytes = n * run->elem_size;
    size_t slot_bytes = base_round_up(run->chunk_elems * run->elem_size, 256);
    char *slot = run->scratch, *out = (char *)combine->out + at;
    uint64_t inputs[GPU_COMBINE_INPUTS];
    int n_inputs = 0, error = 0;

    if (run->is_out_staged) {
        out = slot;
        slot += slot_bytes;
    }
    for (int i = 0; i < combine->n_inputs && !error; i++) {
        const char *input = (const char *)combine->inputs[i] + at;
        if (run->is_staged[i]) {
            error = stage(run, slot, input, n_bytes, input);
            input = slot;
            slot += slot_bytes;
        }
        inputs[n_inputs++] = (uintptr_t)input;
        if (!error && (n_inputs == GPU_COMBINE_INPUTS || i == combine->n_inputs - 1)) {
            error = launch(run, (uintptr_t)out, inputs, n_inputs, n);
            inputs[0] = (uintptr_t)out;
            n_inputs = 1;
        }
    }
    if (!error && run->is_out_staged)
        error = stage(run, (char *)combine->out + at, out, n_bytes, (char *)combine->out + at);
    return error;
}

/* Finds what must be staged, and memory for it. */
static int prepare(struct run *run)
{
    const struct gpu_combine *combine = run->combine;
    size_t n_staged = 0, all = (size_t)combine->count_elems, slot_bytes;
    int error = 0;

    run->is_out_staged = reach(run->device, combine->out) != GPU_REACH_KERNEL;
    n_staged += run->is_out_staged;
    for (int i = 0; i < combine->n_inputs; i++) {
        run->is_staged[i] = reach(run->device, combine->inputs[i]) != GPU_REACH_KERNEL;
        n_staged += run->is_staged[i];
    }
    run->chunk_elems = all;
    if (n_staged == 0)
        return 0;
    slot_bytes = SCRATCH_BYTES / n_staged / 256 * 256;
    if (slot_bytes < 4096)
        slot_bytes = 4096;
    if (slot_bytes / run->elem_size < all)
        run->chunk_elems = slot_bytes / run->elem_size;
    run->scratch_bytes = n_staged * base_round_up(run->chunk_elems * run->elem_size, 256);
    run->scratch = gpu_scratch_get(run->device, run->scratch_bytes, &error);
    return run->scratch ? 0 : error;
}

int gpu_combine_now(const struct gpu_combine *combine)
{
    struct run run = {.combine = combine, .elem_size = types[combine->type].elem_size};
    size_t all = (size_t)combine->count_elems;
    int error = 0, spin_error;

    BASE_ASSERT(gpu_can_combine(combine->op, combine->type) && combine->n_inputs > 0);
    if (all == 0)
        return 0;
    error = check_addresses(combine);
    if (error)
        return error;
    run.device = choose_device(combine);
    run.queue = gpu_queue_of(run.device, GPU_LANE_KERNELS, &error);
    if (!run.queue)
        return error;
    run.is_staged = base_calloc((size_t)combine->n_inputs, sizeof(bool), "a reduction");
    error = prepare(&run);
    for (size_t from = 0; from < all && !error; from += run.chunk_elems)
        error = combine_chunk(&run, from, all - from < run.chunk_elems ? all - from : run.chunk_elems);
    spin_error = gpu_queue_spin(run.queue); /* whatever was queued, before its memory is used again */
    if (run.scratch)
        gpu_scratch_put(run.device, run.scratch, run.scratch_bytes);
    free(run.is_staged);
    return error ? error : spin_error;
}
