/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device_reduce.c: reductions by kernels, on all participating GPUs; see coll_device.h.
 *
 * Each GPU combines a slice of the elements: one kernel reads that slice of all contributions, in its own
 * memory and its peers', in rank order, and writes the result to the receivers. So data crosses the links
 * between GPUs in both directions at once. A small vector is one slice, and the last PE to arrive starts
 * it. Large ones are processed in steps (device_slice.c).
 *
 * The middle stage decides for all parts, which may have different data in their address caches
 * (slot->gpus).
 *
 * Measured on H200s, us: allreduce of 64 MiB on two GPUs takes 216 by slices (a copy in one direction 182),
 * 221 if the result is copied afterwards, 231 to 288 in pieces that overlap. On four GPUs 331 to 340, and
 * 330 to 1,500 in all variants with copies. Blocks of 132 x 512 threads leave room for other kernels, and
 * more vectors per thread are slower among four GPUs (reduce_scatter 180 with one, 203 with four).
 */
#include "ampi/coll/device/device_slice.h"
#include "ampi/coll/engine/fold.h"
#include "base/log.h"
#include "gpu/copy/pool.h"

/* Minimum vector size for a kernel on each GPU. */
#define SLICES_FROM ((size_t)128 << 10)

/* Minimum vector size for steps. */
#define STEPS_FROM ((size_t)2 << 20)

/* Minimum vector size, if the result is scattered, for using the second of two GPUs. */
#define SECOND_FROM ((size_t)8 << 20)

/* Slices begin at multiples of this many elements. */
#define SLICE_ELEMS 64

/* ---- Choosing GPUs ---- */

static void *first_byte(void *buf, const struct ampi_type *type)
{
    return ampi_type_address(buf, type->true_lb_bytes);
}

/* The GPU that owns a buffer; -1: none. */
static int gpu_of_result(const struct ampi_coll_args *args, const struct ampi_type *type)
{
    return ampi_coll_gpu_of(ampi_coll_whole(&args->recv).known, first_byte(args->recv.buf, type));
}

static int gpu_of_input(const struct ampi_coll_args *args, const struct ampi_type *type)
{
    return ampi_coll_gpu_of(ampi_coll_input_known(args), first_byte(ampi_coll_input(args), type));
}

static uint64_t bit_of(int device)
{
    return device < 0 ? 0 : (uint64_t)1 << device;
}

static bool is_target(const struct ampi_coll_args *args, const struct ampi_coll_args *root)
{
    return args && !args->is_remote && (!root || args == root);
}

/* A survey of the members' buffers. */
struct survey {
    uint64_t targets; /* GPUs with receivers */
    uint64_t inputs;  /* GPUs with contributions */
    int n_targets;
    int first, second; /* if the contributions are first those of one GPU, then those of a second one: these
                        * GPUs; else -1 */
    int n_first, n_second;
};

/* false: a receiver cannot be written. */
static bool take_survey(const struct ampi_coll_slot *slot, const struct ampi_coll_args *root,
                        struct survey *survey)
{
    const struct ampi_type *type = slot->last->send.type;
    bool is_in_two = true;

    *survey = (struct survey){.first = -1, .second = -1};
    for (int i = 0; i < slot->state->n_members; i++) {
        struct ampi_coll_args *args = slot->args[i];
        if (is_target(args, root)) {
            if (!ampi_coll_is_plain(args, type))
                return false;
            survey->targets |= bit_of(gpu_of_result(args, type));
            survey->n_targets++;
        }
        if (args && args->send.type) {
            int gpu = gpu_of_input(args, type);
            survey->inputs |= bit_of(gpu);
            if (survey->first < 0)
                survey->first = gpu;
            if (gpu != survey->first && survey->second < 0)
                survey->second = gpu;
            is_in_two &= gpu >= 0 && (gpu == survey->second || survey->n_second == 0);
            survey->n_first += gpu == survey->first;
            survey->n_second += gpu == survey->second;
        }
    }
    if (!is_in_two || survey->second < 0)
        survey->first = survey->second = -1;
    return true;
}

/* True if the first GPU's contributions precede the others, so that they may be combined there, and the
 * second GPU's part is more than one vector to read. */
static bool is_for_second(const struct ampi_coll_slot *slot, const struct survey *survey)
{
    return survey->second >= 0 && survey->n_second > 1 && !(survey->targets & ~survey->inputs) &&
           !ampi_coll_can_regroup(slot->last->op, slot->last->send.type);
}

/* The GPUs for a large vector. */
static uint64_t choose_gpus(const struct ampi_coll_slot *slot, const struct survey *survey, bool has_root)
{
    uint64_t others = survey->inputs & ~survey->targets;

    if (is_for_second(slot, survey))
        return bit_of(survey->second);
    /* Only the result travels to the only receiver's GPU. */
    if (has_root && __builtin_popcountll(others) > 1)
        return others;
    return survey->targets ? survey->targets : survey->inputs;
}

uint64_t ampi_coll_gpu_plan(const struct ampi_coll_slot *slot, const struct ampi_coll_args *root)
{
    const struct ampi_coll_args *last = slot->last;
    const struct ampi_type *type = last->send.type;
    size_t n_bytes = (size_t)(last->send.count * type->size_bytes);
    struct survey survey;
    uint64_t gpus;

    if (!ampi_coll_gpu_any(slot) || !ampi_coll_device_has_kernel(last->op, type) ||
        !take_survey(slot, root, &survey) || survey.n_targets == 0)
        return 0;
    if (n_bytes >= SLICES_FROM)
        return choose_gpus(slot, &survey, root != NULL);
    gpus = survey.targets ? survey.targets : survey.inputs;
    return gpus & -gpus;
}

bool ampi_coll_gpu_must_share(const struct ampi_coll_slot *slot)
{
    return slot->state->n_parts > 1 && __builtin_popcountll(slot->gpus) > 1;
}

/* ---- One result, for one member or for all ---- */

/* The address of element `from` of a buffer. */
static void *elem_at(void *buf, const struct ampi_type *type, MPI_Count from)
{
    return (char *)first_byte(buf, type) + from * type->extent_bytes;
}

/* Makes a slice of count elements of the sources, from `from` on, on a GPU; without receivers so far. */
static struct ampi_coll_slice *make_slice(const struct ampi_coll_slot *slot, int gpu,
                                          struct ampi_coll_span sources, int n_outs, MPI_Count from,
                                          MPI_Count count)
{
    const struct ampi_type *type = slot->last->send.type;
    struct ampi_coll_slice *slice =
        ampi_coll_slice_create(gpu, slot->last->op, type, count, sources.n, n_outs);

    for (int i = sources.first; i < sources.first + sources.n; i++)
        ampi_coll_slice_add_input(slice, elem_at(ampi_coll_input(slot->args[i]), type, from),
                                  ampi_coll_input_known(slot->args[i]));
    return slice;
}

/* True if a vector of this length is worth steps. */
static bool has_steps(const struct ampi_type *type, MPI_Count count)
{
    return (size_t)(count * type->size_bytes) >= STEPS_FROM;
}

/* Reduces elements from .. to - 1. */
static void reduce_slice(const struct ampi_coll_slot *slot, int gpu, struct ampi_coll_span sources,
                         struct ampi_coll_span targets, MPI_Count from, MPI_Count to)
{
    const struct ampi_type *type = slot->last->send.type;
    struct ampi_coll_slice *slice = make_slice(slot, gpu, sources, targets.n, from, to - from);

    for (int i = targets.first; i < targets.first + targets.n; i++)
        if (is_target(slot->args[i], NULL))
            ampi_coll_slice_add_output(slice, elem_at(slot->args[i]->recv.buf, type, from),
                                       ampi_coll_whole(&slot->args[i]->recv).known);
    ampi_coll_slice_start(slice, has_steps(type, slot->last->send.count));
}

/* On an intercommunicator all receivers of one side may be in other processes. */
static bool has_target(const struct ampi_coll_slot *slot, struct ampi_coll_span targets)
{
    for (int i = targets.first; i < targets.first + targets.n; i++)
        if (is_target(slot->args[i], NULL))
            return true;
    return false;
}

/* GPU i of n gets the i-th slice; if there are fewer PEs, consecutive GPUs share a PE. */
void ampi_coll_gpu_reduce(struct ampi_coll_slot *slot, int part, struct ampi_coll_span sources,
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

/* ---- Scattered results ---- */

/* A member's result that is held until its buffer is no longer read. */
struct held {
    struct gpu_move move;
    struct held *next; /* next in the part's list */
    struct ampi_coll_pe *part;
    const struct ampi_coll_args *args;
    void *memory; /* on a GPU */
    size_t n_bytes;
    int gpu;
};

uint64_t ampi_coll_gpu_plan_scatter(const struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *last = slot->last;
    const struct ampi_type *type = last->send.type;
    struct survey survey;

    if (!ampi_coll_gpu_any(slot) || !ampi_coll_device_has_kernel(last->op, type) ||
        !take_survey(slot, NULL, &survey))
        return 0;
    if ((size_t)(last->send.count * type->size_bytes) >= SECOND_FROM && is_for_second(slot, &survey))
        return bit_of(survey.second);
    return AMPI_COLL_ANY_GPU;
}

/* The GPU for a result: that of the destination, or of a contribution or another result. */
static int choose_gpu(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                      struct ampi_coll_span sources)
{
    const struct ampi_type *type = slot->last->send.type;
    int gpu = slot->gpus == AMPI_COLL_ANY_GPU ? gpu_of_result(args, type) : __builtin_ctzll(slot->gpus);

    for (int i = 0; i < sources.n && gpu < 0; i++)
        gpu = gpu_of_input(slot->args[sources.first + i], type);
    for (int i = 0; i < slot->state->n_members && gpu < 0; i++)
        if (is_target(slot->args[i], NULL))
            gpu = gpu_of_result(slot->args[i], type);
    return gpu < 0 ? 0 : gpu;
}

void ampi_coll_gpu_scatter_result(struct ampi_coll_slot *slot, int part, const struct ampi_coll_args *args,
                                  MPI_Count from, MPI_Count count, bool is_held)
{
    const struct ampi_type *type = slot->last->send.type;
    struct ampi_coll_span sources = ampi_coll_peers(args->comm);
    int gpu = choose_gpu(slot, args, sources), error = 0;
    struct ampi_coll_slice *slice;
    struct held *held;

    if (count == 0)
        return;
    slice = make_slice(slot, gpu, sources, 1, from, count);
    if (!is_held) {
        ampi_coll_slice_add_output(slice, first_byte(args->recv.buf, type),
                                   ampi_coll_whole(&args->recv).known);
    } else {
        held = base_calloc(1, sizeof *held, "a reduction on GPUs");
        held->args = args;
        held->gpu = gpu;
        held->n_bytes = (size_t)(count * type->extent_bytes);
        held->memory = gpu_scratch_get(gpu, held->n_bytes, &error);
        held->next = slot->parts[part].held;
        slot->parts[part].held = held;
        ampi_coll_slice_add_output(slice, held->memory, NULL);
    }
    if (BASE_UNLIKELY(error))
        ampi_coll_slice_fail(slice, error);
    else
        ampi_coll_slice_start(slice, has_steps(type, count));
}

static void released(struct gpu_move *move, int error)
{
    struct held *held = BASE_CONTAINER(move, struct held, move);
    struct ampi_coll_pe *part = held->part;

    if (BASE_UNLIKELY(error))
        ampi_coll_device_fail(part->slot, error);
    gpu_scratch_put(held->gpu, held->memory, held->n_bytes);
    free(held);
    ampi_coll_device_end(part);
}

void ampi_coll_gpu_scatter_end(struct ampi_coll_slot *slot, int part)
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
