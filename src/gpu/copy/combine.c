/* SPDX-License-Identifier: BSD-3-Clause
 *
 * combine.c: combines elements on a GPU; see gpu.h.
 *
 * One launch reads all inputs and writes all outputs that the GPU can access: in its own memory, a peer's,
 * or pinned memory. Data that it cannot access (pageable memory, memory of devices without peer access,
 * pools that are closed to it) goes through scratch memory in chunks, two of them at a time:
 *
 *      inputs --moves--> slots --kernel--> outputs, slots --moves--> outputs
 */
#include <string.h>

#include "base/log.h"
#include "gpu/copy/pool.h"
#include "gpu/copy/queue.h"
#include "gpu/driver/module.h"
#include "gpu/driver/query.h"
#include "gpu/gpu.h"
#include "gpu/kernels/kernels.h"

#define THREADS 512
#define BLOCKS_MAX 132       /* saturates the links between GPUs, and leaves room for other kernels */
#define ASIDE_BLOCKS_MAX 528 /* within a GPU */

/* Scratch memory for all data that must be copied: maximum and minimum size, and the minimum number of
 * elements of a chunk. */
#define SCRATCH_BYTES ((size_t)32 << 20)
#define SCRATCH_LEAST ((size_t)1 << 20)
#define CHUNK_LEAST 256
#define CHUNK_UNIT 128 /* chunks start at multiples of this, so they are aligned if the elements are */

/* ---- The available kernels ---- */

#define BIT(op) (1u << GPU_OP_##op)
#define REAL (BIT(SUM) | BIT(PROD) | BIT(MIN) | BIT(MAX))
#define BITS (BIT(BAND) | BIT(BOR) | BIT(BXOR))
#define BOOL (BIT(LAND) | BIT(LOR) | BIT(LXOR))
#define INTEGER (REAL | BITS | BOOL)
#define COMPLEX (BIT(SUM) | BIT(PROD))
#define PAIR (BIT(MINLOC) | BIT(MAXLOC))

static const struct {
    uint16_t ops;       /* a bit per enum gpu_op */
    uint16_t elem_size; /* bytes per element */
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

/* A copy between scratch memory and an input or an output. */
struct staged {
    struct gpu_move move;
    struct chunk *chunk;
};

/* A range of the elements, and its work in progress. */
struct chunk {
    struct gpu_ticket ticket;
    struct run *run;
    size_t from; /* the first element */
    size_t n;
    char *slots;                       /* scratch memory: see struct run */
    struct staged *moves;              /* room for the maximum number of moves at a time */
    int n_moves;                       /* moves started and not done */
    void (*then)(struct chunk *chunk); /* next step after the moves */
};

/* Slots are pieces of scratch memory, each of a chunk's size: the first one for a kernel result that is
 * copied or read again, if there is one; then one for each input that is copied first. */
struct run {
    struct gpu_combine *combine;
    struct gpu_queue *queue;
    int device;
    size_t elem_size;
    size_t chunk_elems; /* of all chunks but the last; all if there are no slots */
    size_t taken_elems; /* already assigned to chunks */
    size_t slot_bytes;
    size_t scratch_bytes;
    char *scratch;   /* NULL: no slots */
    bool has_work;   /* the first slot holds the kernel's result */
    int n_staged;    /* inputs that are copied first */
    int n_far;       /* outputs that get a copy of the result */
    bool is_old_far; /* combine->old gets a copy of the slot behind the inputs' */
    bool is_pinned;  /* the scratch memory is the host's */
    int near;        /* output that is the source of these copies, written by the kernel; -1: the work slot */
    int n_chunks;    /* processed at a time */
    int n_busy;
    int error;           /* the first */
    struct chunk *chunk; /* n_chunks of them */
    bool is_staged[];    /* per input; after these, per output: the kernel cannot write it */
};

static bool is_far(const struct run *run, int out)
{
    return run->is_staged[run->combine->n_inputs + out];
}

/* ---- Planning ---- */

/* The range of an output or an input. is_exact: the current one, not a cached one. */
static struct gpu_range range_of(const struct gpu_combine *combine, int i, const void *addr, bool is_exact)
{
    const struct gpu_range *known = gpu_facts_range(combine->facts ? combine->facts[i] : NULL, addr);

    if (known)
        return *known;
    return is_exact ? *gpu_resolve(addr) : *gpu_find(addr);
}

static struct gpu_range range_of_out(const struct gpu_combine *combine, int i)
{
    return range_of(combine, i, combine->outs[i], false);
}

static struct gpu_range range_of_input(const struct gpu_combine *combine, int i)
{
    return range_of(combine, combine->n_outs + i, combine->inputs[i], false);
}

/* True if kernels of the device can use the memory at this address, which is in this range. */
static bool can_use(int device, const void *addr, struct gpu_range range)
{
    return gpu_peer_access_by_kernel(device, addr, &range);
}

/* A kernel that accesses unmapped memory would destroy the GPU's context. */
static int check_address(const void *addr, struct gpu_range range)
{
    return range.memory == GPU_MEMORY_NOWHERE ? gpu_address_error((uintptr_t)addr) : 0;
}

static int check_addresses(const struct gpu_combine *combine)
{
    int error = 0;

    for (int i = 0; i < combine->n_outs && !error; i++)
        error = check_address(combine->outs[i], range_of(combine, i, combine->outs[i], true));
    for (int i = 0; i < combine->n_inputs && !error; i++)
        error = check_address(combine->inputs[i],
                              range_of(combine, combine->n_outs + i, combine->inputs[i], true));
    if (combine->old && !error)
        error = check_address(combine->old, *gpu_resolve(combine->old));
    return error;
}

static int choose_device(const struct gpu_combine *combine)
{
    int device = combine->device;

    for (int i = 0; device < 0 && i < combine->n_outs; i++)
        device = gpu_range_device(range_of_out(combine, i));
    for (int i = 0; device < 0 && i < combine->n_inputs; i++)
        device = gpu_range_device(range_of_input(combine, i));
    return device;
}

/* Finds the data that the kernel cannot access, and the source for copies of the result. */
static void plan(struct run *run)
{
    const struct gpu_combine *combine = run->combine;

    run->near = -1;
    for (int i = 0; i < combine->n_inputs; i++) {
        run->is_staged[i] = !can_use(run->device, combine->inputs[i], range_of_input(combine, i));
        run->n_staged += run->is_staged[i];
    }
    for (int i = 0; i < combine->n_outs; i++) {
        bool far = !can_use(run->device, combine->outs[i], range_of_out(combine, i));
        run->is_staged[combine->n_inputs + i] = far;
        run->n_far += far;
        if (!far && run->near < 0 && gpu_range_device(range_of_out(combine, i)) >= 0)
            run->near = i;
    }
    run->is_old_far = combine->old && !can_use(run->device, combine->old, *gpu_find(combine->old));
    run->has_work = (run->n_far > 0 && run->near < 0) || combine->n_inputs >= GPU_COMBINE_ADDRESSES;
}

/* Allocates n slots, with chunks as small as necessary. */
static int get_slots(struct run *run, size_t n_slots)
{
    size_t all = (size_t)run->combine->count_elems;
    int error = 0;

    for (size_t most = SCRATCH_BYTES; !run->scratch && most >= SCRATCH_LEAST; most /= 2) {
        size_t elems = most / n_slots / run->elem_size;
        if (elems < CHUNK_LEAST)
            elems = CHUNK_LEAST;
        run->n_chunks = elems < all ? 2 : 1;
        if (run->n_chunks == 2)
            elems = elems / 2 / CHUNK_UNIT * CHUNK_UNIT;
        run->chunk_elems = elems < all ? elems : all;
        run->slot_bytes = base_round_up(run->chunk_elems * run->elem_size, 256);
        run->scratch_bytes = n_slots * run->slot_bytes * (size_t)run->n_chunks;
        run->scratch = gpu_scratch_get(run->device, run->scratch_bytes, &error);
    }
    return run->scratch ? 0 : error;
}

static void destroy(struct run *run)
{
    if (run->is_pinned)
        gpu_pinned_put(run->scratch);
    else if (run->scratch)
        gpu_scratch_put(run->device, run->scratch, run->scratch_bytes);
    if (run->chunk)
        free(run->chunk[0].moves);
    free(run->chunk);
    free(run);
}

static void make_chunks(struct run *run, size_t n_slots)
{
    int n_in = run->n_staged + run->has_work,
        n_moves = (n_in > run->n_far ? n_in : run->n_far) + run->is_old_far;
    struct staged *moves =
        n_moves ? base_calloc((size_t)(run->n_chunks * n_moves), sizeof *moves, "a reduction on GPUs") : NULL;

    run->chunk = base_calloc((size_t)run->n_chunks, sizeof *run->chunk, "a reduction on GPUs");
    for (int i = 0; i < run->n_chunks; i++) {
        run->chunk[i].run = run;
        run->chunk[i].moves = moves ? moves + i * n_moves : NULL;
        run->chunk[i].slots = run->scratch ? run->scratch + (size_t)i * n_slots * run->slot_bytes : NULL;
    }
}

/* Slots for a few bytes in pinned memory, which the kernel accesses directly: so the CPU copies the host's data, and
 * the GPU does nothing before or after the kernel. False: too many, or none left. */
static bool get_pinned_slots(struct run *run, size_t n_slots)
{
    size_t slot_bytes = base_round_up((size_t)run->combine->count_elems * run->elem_size, 256), size_bytes;
    int error;

    if (slot_bytes > GPU_PINNED_SMALL / n_slots)
        return false;
    run->scratch = gpu_pinned_get(n_slots * slot_bytes, &size_bytes, &error);
    run->is_pinned = run->scratch != NULL;
    run->slot_bytes = slot_bytes;
    return run->is_pinned;
}

/* Creates a run. waits: the caller waits for the GPU. NULL: *error_out is the reason. */
static struct run *create(struct gpu_combine *combine, bool waits, int *error_out)
{
    size_t n_flags = (size_t)(combine->n_inputs + combine->n_outs), n_slots;
    struct run *run = base_calloc(1, sizeof *run + n_flags * sizeof(bool), "a reduction on GPUs");
    int error = check_addresses(combine);

    run->combine = combine;
    run->elem_size = types[combine->type].elem_size;
    run->chunk_elems = (size_t)combine->count_elems;
    run->n_chunks = 1;
    run->device = error ? -1 : choose_device(combine);
    run->queue =
        error ? NULL
              : gpu_queue_of(run->device, combine->is_aside ? GPU_STREAM_ASIDE : GPU_STREAM_KERNELS, &error);
    if (error)
        goto err_destroy;
    plan(run);
    n_slots = (size_t)(run->has_work + run->n_staged + run->is_old_far);
    if (n_slots && !(waits && get_pinned_slots(run, n_slots)) && (error = get_slots(run, n_slots)))
        goto err_destroy;
    make_chunks(run, n_slots);
    return run;
err_destroy:
    destroy(run);
    *error_out = error;
    return NULL;
}

/* ---- A chunk ---- */

static void take_elems(struct run *run, struct chunk *chunk)
{
    size_t left = (size_t)run->combine->count_elems - run->taken_elems;

    chunk->from = run->taken_elems;
    chunk->n = left < run->chunk_elems ? left : run->chunk_elems;
    run->taken_elems += chunk->n;
}

/* A chunk's elements of an input or an output. */
static char *at(const struct run *run, const struct chunk *chunk, const void *buf)
{
    return (char *)(uintptr_t)buf + chunk->from * run->elem_size;
}

/* The slot of this staged input; the work slot is before the first. */
static char *slot_of(const struct run *run, const struct chunk *chunk, int number)
{
    return chunk->slots + (size_t)(number + run->has_work) * run->slot_bytes;
}

static int launch(const struct run *run, const struct chunk *chunk, struct gpu_kernel_combine *args)
{
    size_t per_block = (size_t)THREADS * 16; /* one vector per thread */
    size_t n_blocks = (chunk->n * run->elem_size + per_block - 1) / per_block;
    size_t most = run->combine->is_aside ? ASIDE_BLOCKS_MAX : BLOCKS_MAX;
    uint64_t bits = 0;

    for (int i = 0; i < args->n_inputs + args->n_outs; i++)
        bits |= args->addrs[i];
    bits |= args->old;
    args->is_aligned = bits % 16 == 0;
    return gpu_queue_launch(run->queue, GPU_KERNEL_COMBINE(run->combine->type),
                            (unsigned)(n_blocks < most ? n_blocks : most), THREADS, args, sizeof *args);
}

/* Launches the inputs collected so far; the next launch continues with its first output as an input. */
static int launch_part(const struct run *run, const struct chunk *chunk, struct gpu_kernel_combine *args)
{
    int error = launch(run, chunk, args);

    args->old = 0;
    args->addrs[0] = args->addrs[args->n_inputs];
    args->n_inputs = 1;
    args->n_outs = 0;
    return error;
}

/* Combines a chunk whose staged inputs are in their slots. Mostly one launch. */
static int combine_chunk(const struct run *run, const struct chunk *chunk)
{
    const struct gpu_combine *combine = run->combine;
    struct gpu_kernel_combine args = {.count = (int64_t)chunk->n, .op = combine->op};
    int n_staged = 0, error = 0;

    if (combine->old)
        args.old =
            (uintptr_t)(run->is_old_far ? slot_of(run, chunk, run->n_staged) : at(run, chunk, combine->old));
    for (int i = 0; i < combine->n_inputs && !error; i++) {
        if (args.n_inputs == GPU_COMBINE_ADDRESSES - 1) {
            args.addrs[args.n_inputs] = (uintptr_t)chunk->slots;
            args.n_outs = 1;
            error = launch_part(run, chunk, &args);
        }
        args.addrs[args.n_inputs++] = run->is_staged[i] ? (uintptr_t)slot_of(run, chunk, n_staged++)
                                                        : (uintptr_t)at(run, chunk, combine->inputs[i]);
    }
    if (run->n_far > 0 && run->near < 0)
        args.addrs[args.n_inputs + args.n_outs++] = (uintptr_t)chunk->slots;
    for (int i = 0; i < combine->n_outs && !error; i++) {
        if (is_far(run, i))
            continue;
        if (args.n_inputs + args.n_outs == GPU_COMBINE_ADDRESSES)
            error = launch_part(run, chunk, &args);
        args.addrs[args.n_inputs + args.n_outs++] = (uintptr_t)at(run, chunk, combine->outs[i]);
    }
    return error ? error : launch(run, chunk, &args);
}

/* A copy between a chunk and its slot, or back. */
typedef void (*copy_fn)(struct chunk *chunk, void *dst, void *src, size_t n_bytes);

/* Copies inputs into slots, and of pairs the memory that gets the old ones or, from the work slot, the result: the kernel
 * does not write between the elements of a pair. */
static void copy_in(struct chunk *chunk, copy_fn copy)
{
    const struct run *run = chunk->run;
    int n_staged = 0;

    for (int i = 0; i < run->combine->n_inputs && n_staged < run->n_staged; i++)
        if (run->is_staged[i])
            copy(chunk, slot_of(run, chunk, n_staged++), at(run, chunk, run->combine->inputs[i]),
                 chunk->n * run->elem_size);
    if (types[run->combine->type].ops != PAIR)
        return;
    for (int i = 0; i < run->combine->n_outs && run->near < 0; i++)
        if (is_far(run, i)) {
            copy(chunk, chunk->slots, at(run, chunk, run->combine->outs[i]), chunk->n * run->elem_size);
            break;
        }
    if (run->is_old_far)
        copy(chunk, slot_of(run, chunk, n_staged), at(run, chunk, run->combine->old),
             chunk->n * run->elem_size);
}

/* Copies the result, and old elements, to memory that the kernel could not write. */
static void copy_out(struct chunk *chunk, copy_fn copy)
{
    const struct run *run = chunk->run;
    const struct gpu_combine *combine = run->combine;
    char *result = run->near < 0 ? chunk->slots : at(run, chunk, combine->outs[run->near]);

    if (run->is_old_far)
        copy(chunk, at(run, chunk, combine->old), slot_of(run, chunk, run->n_staged),
             chunk->n * run->elem_size);
    for (int i = 0; i < combine->n_outs && run->n_far > 0; i++)
        if (is_far(run, i))
            copy(chunk, at(run, chunk, combine->outs[i]), result, chunk->n * run->elem_size);
}

static void set_error(struct run *run, int error)
{
    if (error && !run->error)
        run->error = error;
}

/* ---- Asynchronous: copies in, kernel, copies out, next chunk ---- */

static void copied(struct gpu_move *move, int error)
{
    struct chunk *chunk = BASE_CONTAINER(move, struct staged, move)->chunk;

    set_error(chunk->run, error);
    if (--chunk->n_moves == 0)
        chunk->then(chunk);
}

static void start_copy(struct chunk *chunk, void *dst, void *src, size_t n_bytes)
{
    struct staged *staged = &chunk->moves[chunk->n_moves++];

    staged->chunk = chunk;
    staged->move.dst = gpu_bytes(dst, n_bytes);
    staged->move.src = gpu_bytes(src, n_bytes);
    staged->move.n_bytes = n_bytes;
    staged->move.src_skip_bytes = staged->move.dst_skip_bytes = 0;
    staged->move.done = copied;
    gpu_move_start(&staged->move);
}

static void start_chunk(struct chunk *chunk);

static void chunk_done(struct chunk *chunk)
{
    struct run *run = chunk->run;
    struct gpu_combine *combine = run->combine;
    int error;

    run->n_busy--;
    if (!run->error && run->taken_elems < (size_t)combine->count_elems)
        start_chunk(chunk);
    if (run->n_busy > 0)
        return;
    error = run->error;
    destroy(run);
    combine->done(combine, error);
}

static void kernel_done(struct gpu_ticket *ticket, int error)
{
    struct chunk *chunk = BASE_CONTAINER(ticket, struct chunk, ticket);

    set_error(chunk->run, error);
    chunk->then = chunk_done;
    if (!chunk->run->error)
        copy_out(chunk, start_copy);
    if (chunk->n_moves == 0)
        chunk_done(chunk);
}

/* After an error the chunk is done when all queued work is. */
static void start_kernel(struct chunk *chunk)
{
    struct run *run = chunk->run;

    if (!run->error)
        set_error(run, combine_chunk(run, chunk));
    chunk->ticket.handle = kernel_done;
    gpu_queue_then(run->queue, &chunk->ticket);
}

static void start_chunk(struct chunk *chunk)
{
    struct run *run = chunk->run;

    run->n_busy++;
    take_elems(run, chunk);
    chunk->then = start_kernel;
    copy_in(chunk, start_copy);
    if (chunk->n_moves == 0)
        start_kernel(chunk);
}

int gpu_combine_start(struct gpu_combine *combine)
{
    int error = 0;
    struct run *run;

    BASE_ASSERT(gpu_can_combine(combine->op, combine->type) && combine->n_inputs > 0 && combine->n_outs > 0 &&
                combine->count_elems > 0);
    run = create(combine, false, &error);
    if (!run)
        return error;
    for (int i = 0; i < run->n_chunks && run->taken_elems < (size_t)combine->count_elems; i++)
        start_chunk(&run->chunk[i]);
    return 0;
}

/* ---- Synchronous: the same steps ---- */

static bool is_host(const void *addr)
{
    return gpu_find(addr)->memory < GPU_MEMORY_MANAGED;
}

static void copy_now(struct chunk *chunk, void *dst, void *src, size_t n_bytes)
{
    struct gpu_data to = gpu_bytes(dst, n_bytes), from = gpu_bytes(src, n_bytes);

    if (chunk->run->error)
        return;
    if (chunk->run->is_pinned && is_host(dst) && is_host(src))
        memcpy(dst, src, n_bytes);
    else
        chunk->run->error = gpu_move_now(&to, &from, n_bytes);
}

static void combine_now(struct chunk *chunk)
{
    struct run *run = chunk->run;

    take_elems(run, chunk);
    copy_in(chunk, copy_now);
    if (!run->error)
        run->error = combine_chunk(run, chunk);
    set_error(run, gpu_queue_spin(run->queue)); /* also waits for queued work before its memory is reused */
    copy_out(chunk, copy_now);
}

int gpu_combine_now(const struct gpu_combine *combine)
{
    struct gpu_combine copy = *combine;
    struct run *run;
    int error = 0;

    BASE_ASSERT(gpu_can_combine(combine->op, combine->type) && combine->n_inputs > 0 && combine->n_outs > 0);
    if (combine->count_elems == 0)
        return 0;
    run = create(&copy, true, &error);
    if (!run)
        return error;
    while (!run->error && run->taken_elems < (size_t)copy.count_elems)
        combine_now(&run->chunk[0]);
    error = run->error;
    destroy(run);
    return error;
}
