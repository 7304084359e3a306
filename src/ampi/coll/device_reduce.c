/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device_reduce.c: reductions by kernels, on all GPUs that take part; see device.h.
 *
 * Each GPU combines a slice of the elements: one kernel reads that slice of all contributions, in its own
 * memory and its peers', in rank order, and writes the result to the receivers. So data crosses the links
 * between GPUs in both directions at once. A small vector is one slice, and the PE that comes last starts it.
 *
 * Where several ranks share a GPU, each GPU's part crosses a link once. A slice then takes three steps, a
 * piece of it after the other, several pieces at once:
 *
 *      before    other GPUs combine contributions of their own
 *      combine   the slice's GPU does these and what is left, for its receivers and one of each other GPU
 *      after     that one's result is copied on, on its GPU
 *
 * The first step may not change a bit: see can_regroup.
 *
 * The middle stage decides for all parts, which may have other knowledge of addresses (slot->gpus).
 */
#include "ampi/coll/device.h"
#include "ampi/coll/fold.h"
#include "ampi/op_device.h"
#include "base/log.h"
#include "gpu/kernels/kernels.h"

/* A vector of this size is worth a kernel on each GPU. */
#define SLICES_FROM ((size_t)128 << 10)

/* A vector of this size is worth three steps. */
#define STEPS_FROM ((size_t)2 << 20)

/* Slices and pieces begin at multiples of this many elements. */
#define SLICE_ELEMS 64

/* A slice in three steps has pieces of this size at least, and at most; so many are under way at once. */
#define PIECE_LEAST ((size_t)2 << 20)
#define PIECE_MOST ((size_t)16 << 20)
#define PIECES 4

#define GPU_BITS 64

/* ---- Which GPUs ---- */

static void *first_byte(void *buf, const struct ampi_type *type)
{
    return ampi_type_address(buf, type->true_lb_bytes);
}

/* The GPU that has a buffer; -1: none. An old answer costs time, nothing else. */
static int gpu_of(void *buf, const struct ampi_type *type)
{
    const struct gpu_range *range = gpu_find(first_byte(buf, type));

    if (range->memory < GPU_MEMORY_MANAGED)
        return -1;
    return range->device > 0 ? range->device : 0;
}

static uint64_t bit_of(int device)
{
    return device < 0 ? 0 : (uint64_t)1 << device;
}

/* Can a kernel, or a copy of what it has written, write a member's result? */
static bool is_plain(const struct ampi_coll_args *args, const struct ampi_type *type)
{
    return ampi_type_is_block(args->recv.type, 2) && args->recv.type->size_bytes == type->size_bytes;
}

static bool is_target(const struct ampi_coll_args *args, const struct ampi_coll_args *root)
{
    return args && !args->is_remote && (!root || args == root);
}

/* What is known of the members' buffers. */
struct census {
    uint64_t targets; /* GPUs with receivers */
    uint64_t inputs;  /* GPUs with contributions */
    int n_targets;
    int first, second; /* the contributions are those of the first GPU, then those of the second; else -1 */
    int n_first, n_second;
};

/* false: there is a receiver that cannot be written. */
static bool take_census(const struct ampi_coll_slot *slot, const struct ampi_coll_args *root,
                        struct census *census)
{
    const struct ampi_type *type = slot->last->send.type;
    bool is_in_two = true;

    *census = (struct census){.first = -1, .second = -1};
    for (int i = 0; i < slot->state->n_members; i++) {
        struct ampi_coll_args *args = slot->args[i];
        if (is_target(args, root)) {
            if (!is_plain(args, type))
                return false;
            census->targets |= bit_of(gpu_of(args->recv.buf, type));
            census->n_targets++;
        }
        if (args && args->send.type) {
            int gpu = gpu_of(ampi_coll_input(args), type);
            census->inputs |= bit_of(gpu);
            if (census->first < 0)
                census->first = gpu;
            if (gpu != census->first && census->second < 0)
                census->second = gpu;
            is_in_two &= gpu >= 0 && (gpu == census->second || census->n_second == 0);
            census->n_first += gpu == census->first;
            census->n_second += gpu == census->second;
        }
    }
    if (!is_in_two || census->second < 0)
        census->first = census->second = -1;
    return true;
}

/* Are the bits the same, however contributions are grouped? Not of floating-point numbers: sums round, and
 * the smallest of some is the others' if the first is a NaN. */
static bool can_regroup(const struct ampi_op *op, const struct ampi_type *type)
{
    struct gpu_combine kernel;

    ampi_op_set_gpu_kernel(op, type, &kernel);
    return kernel.type <= GPU_TYPE_UINT64 || kernel.type == GPU_TYPE_BYTE || kernel.type == GPU_TYPE_BOOL;
}

/* Large vectors. */
static uint64_t choose_gpus(const struct ampi_coll_slot *slot, const struct census *census, bool has_root)
{
    uint64_t others = census->inputs & ~census->targets;

    /* The first GPU's contributions come first, so they may be combined there; and the second GPU's part is
     * more than one vector to read. */
    if (census->second >= 0 && census->n_second > 1 && !(census->targets & ~census->inputs) &&
        !can_regroup(slot->last->op, slot->last->send.type))
        return bit_of(census->second);
    /* What comes to the one receiver's GPU is the result alone. */
    if (has_root && __builtin_popcountll(others) > 1)
        return others;
    return census->targets ? census->targets : census->inputs;
}

uint64_t ampi_coll_device_plan(const struct ampi_coll_slot *slot, const struct ampi_coll_args *root)
{
    const struct ampi_coll_args *last = slot->last;
    const struct ampi_type *type = last->send.type;
    size_t n_bytes = (size_t)(last->send.count * type->size_bytes);
    struct census census;
    uint64_t gpus;

    if (!ampi_coll_device_any(slot) || !ampi_coll_device_has_kernel(last->op, type) ||
        !take_census(slot, root, &census) || census.n_targets == 0)
        return 0;
    if (n_bytes >= SLICES_FROM)
        return choose_gpus(slot, &census, root != NULL);
    gpus = census.targets ? census.targets : census.inputs;
    return gpus & -gpus;
}

bool ampi_coll_device_must_share(const struct ampi_coll_slot *slot)
{
    return slot->state->n_parts > 1 && __builtin_popcountll(slot->gpus) > 1;
}

/* ---- A slice ---- */

/* A contribution or a receiver. */
struct end {
    char *addr;      /* of element 0 of the slice */
    int gpu;         /* -1: the host's */
    bool is_grouped; /* a contribution: combined before; a receiver: gets its result after */
};

/* Some of the elements on their way through the steps. */
struct piece {
    struct slice *slice;
    MPI_Count from, count;
    int step;
    int n_running; /* of the step */
};

struct slice {
    struct ampi_coll_part *part;
    const struct ampi_op *op;
    const struct ampi_type *type;
    int gpu;
    MPI_Count count;
    MPI_Count taken;       /* by pieces */
    MPI_Count piece_count; /* of all pieces but the last */
    int n_pieces;          /* at a time */
    int n_busy;
    int error; /* the first */
    int n_inputs, n_outs;
    uint64_t before;         /* GPUs that combine contributions before */
    uint64_t after;          /* GPUs that copy results after */
    char *scratch[GPU_BITS]; /* per GPU that combines before: what comes out, of all pieces */
    struct piece pieces[PIECES];
    struct end ends[]; /* the inputs, then the outputs */
};

enum { STEP_BEFORE, STEP_COMBINE, STEP_AFTER, N_STEPS };

/* A kernel of a step. */
struct task {
    struct gpu_combine combine;
    struct piece *piece;
    void *addrs[]; /* of the outputs, then of the inputs */
};

static void run_steps(struct piece *piece);
static void end_slice(struct slice *slice);

static void set_error(struct slice *slice, int error)
{
    if (error && !slice->error)
        slice->error = error;
}

static void task_done(struct gpu_combine *combine, int error)
{
    struct task *task = BASE_CONTAINER(combine, struct task, combine);
    struct piece *piece = task->piece;
    struct slice *slice = piece->slice;
    struct ampi_coll_part *part = slice->part;

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

/* n_outs outputs and n_inputs inputs are in addrs. */
static void start_task(struct task *task, struct piece *piece, int gpu, int n_outs, int n_inputs)
{
    struct slice *slice = piece->slice;
    int error;

    task->piece = piece;
    task->combine = (struct gpu_combine){.outs = task->addrs,
                                         .inputs = (const void *const *)task->addrs + n_outs,
                                         .n_outs = n_outs,
                                         .n_inputs = n_inputs,
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

static struct task *make_task(const struct slice *slice)
{
    return base_malloc(sizeof(struct task) +
                           (size_t)(slice->n_inputs + slice->n_outs + GPU_BITS) * sizeof(void *),
                       "a reduction on GPUs");
}

/* A piece's elements of a buffer. */
static void *at(const struct piece *piece, const struct end *end)
{
    return end->addr + piece->from * piece->slice->type->extent_bytes;
}

static size_t piece_bytes(const struct slice *slice)
{
    return (size_t)(slice->piece_count * slice->type->extent_bytes);
}

/* Where a piece's contributions of a GPU are combined. */
static void *scratch_of(const struct piece *piece, int gpu)
{
    return piece->slice->scratch[gpu] + (size_t)(piece - piece->slice->pieces) * piece_bytes(piece->slice);
}

static void start_before(struct piece *piece, int gpu)
{
    struct slice *slice = piece->slice;
    struct task *task = make_task(slice);
    int n = 0;

    task->addrs[n++] = scratch_of(piece, gpu);
    for (int i = 0; i < slice->n_inputs; i++)
        if (slice->ends[i].is_grouped && slice->ends[i].gpu == gpu)
            task->addrs[n++] = at(piece, &slice->ends[i]);
    start_task(task, piece, gpu, 1, n - 1);
}

static void start_combine(struct piece *piece)
{
    struct slice *slice = piece->slice;
    struct task *task = make_task(slice);
    uint64_t seen = 0;
    int n = 0, n_outs;

    for (int i = slice->n_inputs; i < slice->n_inputs + slice->n_outs; i++)
        if (!slice->ends[i].is_grouped)
            task->addrs[n++] = at(piece, &slice->ends[i]);
    n_outs = n;
    for (int i = 0; i < slice->n_inputs; i++) {
        const struct end *end = &slice->ends[i];
        if (!end->is_grouped)
            task->addrs[n++] = at(piece, end);
        else if (!(seen & bit_of(end->gpu)))
            task->addrs[n++] = scratch_of(piece, end->gpu);
        seen |= end->is_grouped ? bit_of(end->gpu) : 0;
    }
    start_task(task, piece, slice->gpu, n_outs, n - n_outs);
}

static void start_after(struct piece *piece, int gpu)
{
    struct slice *slice = piece->slice;
    struct task *task = make_task(slice);
    int n = 0;

    for (int i = slice->n_inputs; i < slice->n_inputs + slice->n_outs; i++)
        if (slice->ends[i].gpu == gpu && slice->ends[i].is_grouped)
            task->addrs[n++] = at(piece, &slice->ends[i]);
    for (int i = slice->n_inputs; i < slice->n_inputs + slice->n_outs; i++)
        if (slice->ends[i].gpu == gpu && !slice->ends[i].is_grouped)
            task->addrs[n] = at(piece, &slice->ends[i]);
    start_task(task, piece, gpu, n, 1);
}

static void put_scratch(struct slice *slice)
{
    for (uint64_t left = slice->before; left; left &= left - 1) {
        int gpu = __builtin_ctzll(left);
        if (slice->scratch[gpu])
            gpu_scratch_put(gpu, slice->scratch[gpu], (size_t)slice->n_pieces * piece_bytes(slice));
    }
}

static void end_slice(struct slice *slice)
{
    if (BASE_UNLIKELY(slice->error))
        ampi_coll_device_fail(slice->part->slot, slice->error);
    put_scratch(slice);
    free(slice);
}

/* The next elements are the piece's. */
static void take_elems(struct piece *piece)
{
    struct slice *slice = piece->slice;

    piece->step = STEP_BEFORE;
    piece->from = slice->taken;
    piece->count = base_min_u64((uint64_t)slice->piece_count, (uint64_t)(slice->count - slice->taken));
    slice->taken += piece->count;
    slice->n_busy++;
}

static void start_step(struct piece *piece)
{
    struct slice *slice = piece->slice;
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

/* Goes on, from piece to piece, until something has to be waited for. */
static void run_steps(struct piece *piece)
{
    struct slice *slice = piece->slice;

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

/* ---- What is done before and after ---- */

static void group_outputs(struct slice *slice)
{
    uint64_t seen = bit_of(slice->gpu);

    for (int i = slice->n_inputs; i < slice->n_inputs + slice->n_outs; i++) {
        struct end *end = &slice->ends[i];
        end->is_grouped = end->gpu >= 0 && end->gpu != slice->gpu && (seen & bit_of(end->gpu));
        slice->after |= end->is_grouped ? bit_of(end->gpu) : 0;
        seen |= bit_of(end->gpu);
    }
}

/* Those of each other GPU that has several; or the first ones, as long as they are of one other GPU. */
static void group_inputs(struct slice *slice)
{
    int first = slice->ends[0].gpu, n = slice->n_inputs;
    uint64_t once = 0, twice = 0;

    if (can_regroup(slice->op, slice->type)) {
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
    for (int i = 0; i < n; i++)
        slice->ends[i].is_grouped = (slice->before & bit_of(slice->ends[i].gpu)) != 0;
}

/* Memory for what comes out before. false: there is not so much. */
static bool get_scratch(struct slice *slice)
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

static void make_pieces(struct slice *slice)
{
    MPI_Count extent = slice->type->extent_bytes, units;
    size_t n_bytes = (size_t)(slice->count * extent) / PIECES;

    slice->piece_count = slice->count;
    slice->n_pieces = 1;
    if (slice->before | slice->after) {
        n_bytes = n_bytes < PIECE_LEAST ? PIECE_LEAST : n_bytes > PIECE_MOST ? PIECE_MOST : n_bytes;
        units = (MPI_Count)n_bytes / extent / SLICE_ELEMS;
        slice->piece_count =
            base_min_u64((uint64_t)(units ? units * SLICE_ELEMS : SLICE_ELEMS), (uint64_t)slice->count);
        slice->n_pieces = (int)base_min_u64(
            PIECES, (uint64_t)((slice->count + slice->piece_count - 1) / slice->piece_count));
    }
    if (get_scratch(slice))
        return;
    put_scratch(slice);
    for (int i = 0; i < slice->n_inputs; i++)
        slice->ends[i].is_grouped = false;
    slice->before = 0;
}

/* Elements from .. from + count - 1 on a GPU; room for n_outs outputs. */
static struct slice *make_slice(const struct ampi_coll_slot *slot, int gpu, struct ampi_coll_span sources,
                                int n_outs, MPI_Count from, MPI_Count count)
{
    const struct ampi_type *type = slot->last->send.type;
    struct slice *slice = base_calloc(1, sizeof *slice + (size_t)(sources.n + n_outs) * sizeof(struct end),
                                      "a reduction on GPUs");

    slice->part = ampi_coll_device_stage();
    slice->op = slot->last->op;
    slice->type = type;
    slice->gpu = gpu;
    slice->count = count;
    slice->n_inputs = sources.n;
    for (int i = 0; i < sources.n; i++) {
        void *buf = ampi_coll_input(slot->args[sources.first + i]);
        slice->ends[i].addr = (char *)first_byte(buf, type) + from * type->extent_bytes;
        slice->ends[i].gpu = gpu_of(buf, type);
    }
    return slice;
}

/* The slice's first element goes to addr. */
static void add_output(struct slice *slice, char *addr, int gpu)
{
    slice->ends[slice->n_inputs + slice->n_outs++] = (struct end){addr, gpu, false};
}

static void start_slice(struct slice *slice, bool has_steps)
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
        end_slice(slice); /* nothing could be started */
}

/* ---- One result, for one member or for all ---- */

/* Elements from .. to - 1. */
static void reduce_slice(const struct ampi_coll_slot *slot, int gpu, struct ampi_coll_span sources,
                         struct ampi_coll_span targets, MPI_Count from, MPI_Count to)
{
    const struct ampi_type *type = slot->last->send.type;
    struct slice *slice = make_slice(slot, gpu, sources, targets.n, from, to - from);

    for (int i = targets.first; i < targets.first + targets.n; i++)
        if (is_target(slot->args[i], NULL)) {
            void *buf = slot->args[i]->recv.buf;
            add_output(slice, (char *)first_byte(buf, type) + from * type->extent_bytes, gpu_of(buf, type));
        }
    start_slice(slice, (size_t)(slot->last->send.count * type->size_bytes) >= STEPS_FROM);
}

/* On an intercommunicator all receivers of one side may be other processes'. */
static bool has_target(const struct ampi_coll_slot *slot, struct ampi_coll_span targets)
{
    for (int i = targets.first; i < targets.first + targets.n; i++)
        if (is_target(slot->args[i], NULL))
            return true;
    return false;
}

/* GPU number i of n takes the i-th slice; consecutive GPUs have the same PE if there are fewer of these. */
void ampi_coll_device_reduce(struct ampi_coll_slot *slot, int part, struct ampi_coll_span sources,
                             struct ampi_coll_span targets)
{
    MPI_Count count = slot->last->send.count, units = (count + SLICE_ELEMS - 1) / SLICE_ELEMS;
    int n = __builtin_popcountll(slot->gpus), n_parts = slot->state->n_parts, i = 0;

    for (uint64_t left = has_target(slot, targets) ? slot->gpus : 0; left; left &= left - 1, i++) {
        MPI_Count from = units * i / n * SLICE_ELEMS, to = units * (i + 1) / n * SLICE_ELEMS;
        if (to > count)
            to = count;
        if (from < to && (!slot->needs_share || i * n_parts / n == part))
            reduce_slice(slot, __builtin_ctzll(left), sources, targets, from, to);
    }
}

/* ---- A result that is dealt out ---- */

/* A member's result that waits until nobody reads its buffer any more. */
struct held {
    struct gpu_move move;
    struct held *next; /* link of the part's list */
    struct ampi_coll_part *part;
    const struct ampi_coll_args *args;
    void *memory; /* of a GPU */
    size_t n_bytes;
    int gpu;
};

bool ampi_coll_device_can_deal(const struct ampi_coll_slot *slot)
{
    const struct ampi_type *type = slot->last->send.type;

    if (!ampi_coll_device_any(slot) || !ampi_coll_device_has_kernel(slot->last->op, type))
        return false;
    for (int i = 0; i < slot->state->n_members; i++)
        if (is_target(slot->args[i], NULL) && !is_plain(slot->args[i], type))
            return false;
    return true;
}

/* The GPU for a result: where it goes, or where a contribution or another result is. */
static int choose_gpu(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                      struct ampi_coll_span sources)
{
    const struct ampi_type *type = slot->last->send.type;
    int gpu = gpu_of(args->recv.buf, type);

    for (int i = 0; i < sources.n && gpu < 0; i++)
        gpu = gpu_of(ampi_coll_input(slot->args[sources.first + i]), type);
    for (int i = 0; i < slot->state->n_members && gpu < 0; i++)
        if (is_target(slot->args[i], NULL))
            gpu = gpu_of(slot->args[i]->recv.buf, type);
    return gpu < 0 ? 0 : gpu;
}

void ampi_coll_device_deal(struct ampi_coll_slot *slot, int part, const struct ampi_coll_args *args,
                           MPI_Count from, MPI_Count count, bool is_held)
{
    const struct ampi_type *type = slot->last->send.type;
    struct ampi_coll_span sources = ampi_coll_peers(args->comm);
    int gpu = choose_gpu(slot, args, sources), error = 0;
    struct slice *slice;
    struct held *held;

    if (count == 0)
        return;
    slice = make_slice(slot, gpu, sources, 1, from, count);
    if (!is_held) {
        add_output(slice, first_byte(args->recv.buf, type), gpu_of(args->recv.buf, type));
    } else {
        held = base_calloc(1, sizeof *held, "a reduction on GPUs");
        held->args = args;
        held->gpu = gpu;
        held->n_bytes = (size_t)(count * type->extent_bytes);
        held->memory = gpu_scratch_get(gpu, held->n_bytes, &error);
        held->next = slot->parts[part].held;
        slot->parts[part].held = held;
        add_output(slice, held->memory, gpu);
    }
    if (BASE_UNLIKELY(error)) {
        slice->error = error;
        end_slice(slice);
        return;
    }
    start_slice(slice, (size_t)(count * type->size_bytes) >= STEPS_FROM);
}

static void released(struct gpu_move *move, int error)
{
    struct held *held = BASE_CONTAINER(move, struct held, move);
    struct ampi_coll_part *part = held->part;

    if (BASE_UNLIKELY(error))
        ampi_coll_device_fail(part->slot, error);
    gpu_scratch_put(held->gpu, held->memory, held->n_bytes);
    free(held);
    ampi_coll_device_end(part);
}

void ampi_coll_device_dealt(struct ampi_coll_slot *slot, int part)
{
    struct held *held = slot->parts[part].held, *next;

    slot->parts[part].held = NULL;
    for (; held; held = next) {
        next = held->next;
        if (!held->memory) {
            free(held);
            continue;
        }
        held->part = ampi_coll_device_stage();
        held->move.dst = gpu_bytes(first_byte(held->args->recv.buf, held->args->recv.type), held->n_bytes);
        held->move.src = gpu_bytes(held->memory, held->n_bytes);
        held->move.n_bytes = held->n_bytes;
        held->move.done = released;
        held->part->n_moves++;
        gpu_move_start(&held->move);
    }
}
