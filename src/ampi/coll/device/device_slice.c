/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device_slice.c: see device_slice.h.
 *
 * If several ranks share a GPU, each GPU's part crosses a link once. A slice is then processed in pieces,
 * several at once, each in three steps:
 *
 *      before    other GPUs combine their own contributions
 *      combine   the slice's GPU combines these results and the remaining contributions, for its receivers
 *                and one on each other GPU
 *      after     the latter's result is copied to the others on its GPU
 *
 * The step before must not change a bit of the result: see ampi_coll_can_regroup.
 */
#include "ampi/coll/device/device_slice.h"

#include "ampi/op/op_device.h"
#include "base/log.h"
#include "gpu/copy/pool.h"
#include "gpu/kernels/kernels.h"

/* Pieces begin at multiples of this many elements. */
#define PIECE_ELEMS 64

/* Minimum and maximum size of pieces of a divided slice, and the number of pieces in progress. */
#define PIECE_LEAST ((size_t)2 << 20)
#define PIECE_MOST ((size_t)16 << 20)
#define PIECES 4

#define GPU_BITS 64

/* A contribution or a receiver. */
struct end {
    char *addr;                    /* address of element 0 of the slice */
    const struct gpu_facts *facts; /* about its memory; NULL: none */
    int gpu;                       /* -1: host memory */
    bool is_grouped; /* contribution: combined in "before"; receiver: gets its result in "after" */
    bool is_operand; /* contribution: "combine" reads it, for its group if it is grouped */
};

/* Elements that pass through the steps. */
struct piece {
    struct ampi_coll_slice *slice;
    MPI_Count from, count;
    int step;
    int n_running; /* tasks in progress in the step */
};

struct ampi_coll_slice {
    struct ampi_coll_pe *part;
    const struct ampi_op *op;
    const struct ampi_type *type;
    int gpu;
    MPI_Count count;
    MPI_Count taken;       /* already assigned to pieces */
    MPI_Count piece_count; /* size of all pieces but the last */
    int n_pieces;          /* pieces in progress */
    int n_busy;
    int error; /* the first */
    int n_inputs, n_outs;
    uint64_t before;         /* GPUs that combine contributions in "before" */
    uint64_t after;          /* GPUs that copy results in "after" */
    uint64_t targets;        /* GPUs with outputs */
    char *scratch[GPU_BITS]; /* per GPU that combines in "before": its results for all pieces */
    struct piece pieces[PIECES];
    struct end *outs;
    struct end ends[]; /* the inputs in rank order, then the outputs */
};

enum { STEP_BEFORE, STEP_COMBINE, STEP_AFTER, N_STEPS };

static uint64_t bit_of(int gpu)
{
    return gpu < 0 ? 0 : (uint64_t)1 << gpu;
}

int ampi_coll_gpu_of(const struct ampi_coll_known *known, const void *addr)
{
    const struct gpu_range *range = ampi_coll_range_at(known, addr);

    if (range->memory < GPU_MEMORY_MANAGED)
        return -1;
    return range->device > 0 ? range->device : 0;
}

/* Sums of floating-point numbers are rounded, and a minimum whose first operand is a NaN is the other
 * operand. */
bool ampi_coll_can_regroup(const struct ampi_op *op, const struct ampi_type *type)
{
    struct gpu_combine kernel;

    ampi_op_set_gpu_kernel(op, type, &kernel);
    return kernel.type <= GPU_TYPE_UINT64 || kernel.type == GPU_TYPE_BYTE || kernel.type == GPU_TYPE_BOOL;
}

/* ---- Addresses ---- */

static size_t piece_bytes(const struct ampi_coll_slice *slice)
{
    return (size_t)(slice->piece_count * slice->type->extent_bytes);
}

/* The memory where a GPU's contributions to a piece are combined in "before". */
static void *scratch_of(const struct piece *piece, int gpu)
{
    return piece->slice->scratch[gpu] + (size_t)(piece - piece->slice->pieces) * piece_bytes(piece->slice);
}

/* ---- The work of a step ---- */

/* One kernel launch. */
struct task {
    struct gpu_combine combine;
    struct piece *piece;
    const struct gpu_facts **facts; /* behind the addresses: about their memory */
    int n;
    void *addrs[]; /* outputs, then inputs */
};

static void run_steps(struct piece *piece);
static void end_slice(struct ampi_coll_slice *slice);

static void set_error(struct ampi_coll_slice *slice, int error)
{
    if (error && !slice->error)
        slice->error = error;
}

static void task_done(struct gpu_combine *combine, int error)
{
    struct task *task = BASE_CONTAINER(combine, struct task, combine);
    struct piece *piece = task->piece;
    struct ampi_coll_slice *slice = piece->slice;
    struct ampi_coll_pe *part = slice->part;

    free(task);
    set_error(slice, error);
    if (--piece->n_running > 0)
        return;
    piece->step++;
    run_steps(piece);
    if (slice->n_busy > 0)
        return;
    end_slice(slice);
    ampi_coll_device_end(part);
}

static struct task *make_task(const struct ampi_coll_slice *slice)
{
    size_t n_most = (size_t)(slice->n_inputs + slice->n_outs + 1);
    struct task *made = base_malloc(sizeof *made + 2 * n_most * sizeof(void *), "a reduction on GPUs");

    made->facts = (const struct gpu_facts **)(made->addrs + n_most);
    made->n = 0;
    return made;
}

/* The next output or input. facts NULL: scratch memory. */
static void add(struct task *task, void *addr, const struct gpu_facts *facts)
{
    task->addrs[task->n] = addr;
    task->facts[task->n++] = facts;
}

static void add_end(struct task *task, const struct piece *piece, const struct end *end)
{
    add(task, end->addr + piece->from * piece->slice->type->extent_bytes, end->facts);
}

/* Starts a task to which n_outs outputs and then the inputs were added. */
static void start_task(struct task *task, struct piece *piece, int gpu, int n_outs)
{
    struct ampi_coll_slice *slice = piece->slice;
    int error;

    task->piece = piece;
    task->combine = (struct gpu_combine){.outs = task->addrs,
                                         .inputs = (const void *const *)task->addrs + n_outs,
                                         .n_outs = n_outs,
                                         .n_inputs = task->n - n_outs,
                                         .facts = task->facts,
                                         .count_elems = (int64_t)ampi_op_elems(slice->type, piece->count),
                                         .device = gpu,
                                         .is_aside = piece->step == STEP_AFTER,
                                         .done = task_done};
    ampi_op_set_gpu_kernel(slice->op, slice->type, &task->combine);
    error = gpu_combine_start(&task->combine);
    if (BASE_UNLIKELY(error)) {
        set_error(slice, error);
        free(task);
        return;
    }
    piece->n_running++;
}

/* ---- The steps ---- */

static void start_before(struct piece *piece, int gpu)
{
    struct ampi_coll_slice *slice = piece->slice;
    struct task *task = make_task(slice);

    add(task, scratch_of(piece, gpu), NULL);
    for (int i = 0; i < slice->n_inputs; i++)
        if (slice->ends[i].is_grouped && slice->ends[i].gpu == gpu)
            add_end(task, piece, &slice->ends[i]);
    start_task(task, piece, gpu, 1);
}

/* Adds the outputs of "combine" on a GPU (-1: the host). */
static void add_outs(const struct piece *piece, struct task *task, int gpu)
{
    const struct ampi_coll_slice *slice = piece->slice;

    for (int i = 0; i < slice->n_outs; i++)
        if (slice->outs[i].gpu == gpu && !slice->outs[i].is_grouped)
            add_end(task, piece, &slice->outs[i]);
}

/* A GPU writes to itself first, then to the next one, and so on, so that not all write to the same one at
 * once. */
static void start_combine(struct piece *piece)
{
    struct ampi_coll_slice *slice = piece->slice;
    struct task *task = make_task(slice);
    int gpu = slice->gpu, n_outs;
    uint64_t left = gpu ? slice->targets >> gpu | slice->targets << (GPU_BITS - gpu) : slice->targets;

    for (; left; left &= left - 1)
        add_outs(piece, task, (gpu + __builtin_ctzll(left)) % GPU_BITS);
    add_outs(piece, task, -1);
    n_outs = task->n;
    for (int i = 0; i < slice->n_inputs; i++) {
        const struct end *end = &slice->ends[i];
        if (end->is_operand && end->is_grouped)
            add(task, scratch_of(piece, end->gpu), NULL);
        else if (end->is_operand)
            add_end(task, piece, end);
    }
    start_task(task, piece, slice->gpu, n_outs);
}

static void start_after(struct piece *piece, int gpu)
{
    struct ampi_coll_slice *slice = piece->slice;
    struct task *task = make_task(slice);
    const struct end *source = NULL;

    for (int i = 0; i < slice->n_outs; i++)
        if (slice->outs[i].gpu == gpu && slice->outs[i].is_grouped)
            add_end(task, piece, &slice->outs[i]);
        else if (slice->outs[i].gpu == gpu)
            source = &slice->outs[i];
    add_end(task, piece, source);
    start_task(task, piece, gpu, task->n - 1);
}

static void start_step(struct piece *piece)
{
    struct ampi_coll_slice *slice = piece->slice;
    uint64_t left = piece->step == STEP_BEFORE ? slice->before : piece->step == STEP_AFTER ? slice->after : 0;

    if (piece->step == STEP_COMBINE)
        start_combine(piece);
    for (; left; left &= left - 1) {
        if (piece->step == STEP_BEFORE)
            start_before(piece, __builtin_ctzll(left));
        else
            start_after(piece, __builtin_ctzll(left));
    }
}

/* Assigns the next elements to the piece. */
static void take_elems(struct piece *piece)
{
    struct ampi_coll_slice *slice = piece->slice;

    piece->step = STEP_BEFORE;
    piece->from = slice->taken;
    piece->count = base_min_u64((uint64_t)slice->piece_count, (uint64_t)(slice->count - slice->taken));
    slice->taken += piece->count;
    slice->n_busy++;
}

/* Continues from step to step and piece to piece until it has to wait. */
static void run_steps(struct piece *piece)
{
    struct ampi_coll_slice *slice = piece->slice;

    for (;;) {
        for (; piece->step < N_STEPS && !slice->error; piece->step++) {
            start_step(piece);
            if (piece->n_running > 0)
                return;
        }
        slice->n_busy--;
        if (slice->error || slice->taken == slice->count)
            return;
        take_elems(piece);
    }
}

/* ---- Distribution ---- */

/* The inputs of each remote GPU that has several; otherwise the leading run of inputs on one remote GPU. */
static void group_inputs(struct ampi_coll_slice *slice)
{
    int first = slice->ends[0].gpu, n = slice->n_inputs;
    uint64_t once = 0, twice = 0;

    if (ampi_coll_can_regroup(slice->op, slice->type)) {
        for (int i = 0; i < n; i++) {
            twice |= once & bit_of(slice->ends[i].gpu);
            once |= bit_of(slice->ends[i].gpu);
        }
    } else {
        for (n = 0; n < slice->n_inputs && slice->ends[n].gpu == first;)
            n++;
        twice = n > 1 ? bit_of(first) : 0;
    }
    slice->before = twice & ~bit_of(slice->gpu);
    once = 0;
    for (int i = 0; i < n; i++) {
        struct end *end = &slice->ends[i];
        end->is_grouped = (slice->before & bit_of(end->gpu)) != 0;
        end->is_operand = !end->is_grouped || !(once & bit_of(end->gpu));
        once |= end->is_grouped ? bit_of(end->gpu) : 0;
    }
}

static void group_outputs(struct ampi_coll_slice *slice)
{
    uint64_t seen = bit_of(slice->gpu);

    for (int i = 0; i < slice->n_outs; i++) {
        struct end *end = &slice->outs[i];
        end->is_grouped = end->gpu >= 0 && end->gpu != slice->gpu && (seen & bit_of(end->gpu));
        slice->after |= end->is_grouped ? bit_of(end->gpu) : 0;
        seen |= bit_of(end->gpu);
    }
}

/* ---- Memory ---- */

static void put_scratch(struct ampi_coll_slice *slice)
{
    for (uint64_t left = slice->before; left; left &= left - 1) {
        int gpu = __builtin_ctzll(left);
        if (slice->scratch[gpu])
            gpu_scratch_put(gpu, slice->scratch[gpu], (size_t)slice->n_pieces * piece_bytes(slice));
    }
}

/* false: out of memory. */
static bool get_scratch(struct ampi_coll_slice *slice)
{
    bool has_all = true;
    int error;

    for (uint64_t left = slice->before; left && has_all; left &= left - 1) {
        int gpu = __builtin_ctzll(left);
        slice->scratch[gpu] = gpu_scratch_get(gpu, (size_t)slice->n_pieces * piece_bytes(slice), &error);
        has_all = slice->scratch[gpu] != NULL;
    }
    return has_all;
}

static void make_pieces(struct ampi_coll_slice *slice)
{
    MPI_Count extent = slice->type->extent_bytes, units;
    size_t n_bytes = (size_t)(slice->count * extent) / PIECES;

    slice->piece_count = slice->count;
    slice->n_pieces = 1;
    if (slice->before | slice->after) {
        n_bytes = n_bytes < PIECE_LEAST ? PIECE_LEAST : n_bytes > PIECE_MOST ? PIECE_MOST : n_bytes;
        units = (MPI_Count)n_bytes / extent / PIECE_ELEMS;
        slice->piece_count =
            base_min_u64((uint64_t)(units ? units * PIECE_ELEMS : PIECE_ELEMS), (uint64_t)slice->count);
        slice->n_pieces = (int)base_min_u64(
            PIECES, (uint64_t)((slice->count + slice->piece_count - 1) / slice->piece_count));
    }
    if (get_scratch(slice))
        return;
    put_scratch(slice);
    slice->before = 0;
    for (int i = 0; i < slice->n_inputs; i++) {
        slice->ends[i].is_grouped = false;
        slice->ends[i].is_operand = true;
    }
}

/* ---- The slice ---- */

struct ampi_coll_slice *ampi_coll_slice_create(int gpu, const struct ampi_op *op,
                                               const struct ampi_type *type, MPI_Count count, int n_inputs,
                                               int n_outs)
{
    struct ampi_coll_slice *slice = base_calloc(
        1, sizeof *slice + (size_t)(n_inputs + n_outs) * sizeof(struct end), "a collective on GPUs");

    slice->part = ampi_coll_device_stage();
    slice->op = op;
    slice->type = type;
    slice->gpu = gpu;
    slice->count = count;
    slice->outs = slice->ends + n_inputs;
    return slice;
}

static struct end make_end(void *addr, const struct ampi_coll_known *known)
{
    return (struct end){
        .addr = addr, .facts = known ? &known->facts : NULL, .gpu = ampi_coll_gpu_of(known, addr)};
}

void ampi_coll_slice_add_input(struct ampi_coll_slice *slice, void *addr, const struct ampi_coll_known *known)
{
    struct end *end = &slice->ends[slice->n_inputs++];

    *end = make_end(addr, known);
    end->is_operand = true;
}

void ampi_coll_slice_add_output(struct ampi_coll_slice *slice, void *addr,
                                const struct ampi_coll_known *known)
{
    struct end *end = &slice->outs[slice->n_outs++];

    *end = make_end(addr, known);
    slice->targets |= bit_of(end->gpu);
}

static void end_slice(struct ampi_coll_slice *slice)
{
    if (BASE_UNLIKELY(slice->error))
        ampi_coll_device_fail(slice->part->slot, slice->error);
    put_scratch(slice);
    free(slice);
}

void ampi_coll_slice_fail(struct ampi_coll_slice *slice, int error)
{
    slice->error = error;
    end_slice(slice);
}

void ampi_coll_slice_start(struct ampi_coll_slice *slice, bool has_steps)
{
    if (has_steps) {
        group_inputs(slice);
        group_outputs(slice);
    }
    make_pieces(slice);
    for (int p = 0; p < slice->n_pieces && !slice->error && slice->taken < slice->count; p++) {
        slice->pieces[p].slice = slice;
        take_elems(&slice->pieces[p]);
        run_steps(&slice->pieces[p]);
    }
    if (BASE_LIKELY(slice->n_busy > 0))
        slice->part->n_moves++;
    else
        end_slice(slice); /* none could be started */
}
