/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device_reduce.c: reductions by kernels, on all GPUs that take part; see coll_device.h.
 *
 * Each GPU combines a slice of the elements: one kernel reads that slice of all contributions, in its own
 * memory and its peers', in rank order, and writes the result to the receivers. So data crosses the links
 * between GPUs in both directions at once. A small vector is one slice, and the PE that comes last starts it.
 * Large ones take steps (device_slice.c).
 *
 * The middle stage decides for all parts, which may have other knowledge of addresses (slot->gpus).
 */
#include "ampi/coll/device/device_slice.h"
#include "ampi/coll/engine/fold.h"
#include "base/log.h"

/* A vector of this size is worth a kernel on each GPU. */
#define SLICES_FROM ((size_t)128 << 10)

/* A vector of this size is worth steps. */
#define STEPS_FROM ((size_t)2 << 20)

/* A vector of this size, whose result is dealt out, is worth going through the second of two GPUs. */
#define SECOND_FROM ((size_t)8 << 20)

/* Slices begin at multiples of this many elements. */
#define SLICE_ELEMS 64

/* ---- Which GPUs ---- */

static void *first_byte(void *buf, const struct ampi_type *type)
{
    return ampi_type_address(buf, type->true_lb_bytes);
}

/* The GPU that has a buffer; -1: none. */
static int gpu_of(void *buf, const struct ampi_type *type)
{
    return ampi_coll_gpu_of(first_byte(buf, type));
}

static uint64_t bit_of(int device)
{
    return device < 0 ? 0 : (uint64_t)1 << device;
}

static bool is_target(const struct ampi_coll_args *args, const struct ampi_coll_args *root)
{
    return args && !args->is_remote && (!root || args == root);
}

/* The members' buffers. */
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
            if (!ampi_coll_is_plain(args, type))
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

/* The first GPU's contributions come first, so they may be combined there; and the second GPU's part is more
 * than one vector to read. */
static bool is_for_second(const struct ampi_coll_slot *slot, const struct census *census)
{
    return census->second >= 0 && census->n_second > 1 && !(census->targets & ~census->inputs) &&
           !ampi_coll_can_regroup(slot->last->op, slot->last->send.type);
}

/* Large vectors. */
static uint64_t choose_gpus(const struct ampi_coll_slot *slot, const struct census *census, bool has_root)
{
    uint64_t others = census->inputs & ~census->targets;

    if (is_for_second(slot, census))
        return bit_of(census->second);
    /* Only the result comes to the one receiver's GPU. */
    if (has_root && __builtin_popcountll(others) > 1)
        return others;
    return census->targets ? census->targets : census->inputs;
}

uint64_t ampi_coll_gpu_plan(const struct ampi_coll_slot *slot, const struct ampi_coll_args *root)
{
    const struct ampi_coll_args *last = slot->last;
    const struct ampi_type *type = last->send.type;
    size_t n_bytes = (size_t)(last->send.count * type->size_bytes);
    struct census census;
    uint64_t gpus;

    if (!ampi_coll_gpu_any(slot) || !ampi_coll_device_has_kernel(last->op, type) ||
        !take_census(slot, root, &census) || census.n_targets == 0)
        return 0;
    if (n_bytes >= SLICES_FROM)
        return choose_gpus(slot, &census, root != NULL);
    gpus = census.targets ? census.targets : census.inputs;
    return gpus & -gpus;
}

bool ampi_coll_gpu_must_share(const struct ampi_coll_slot *slot)
{
    return slot->state->n_parts > 1 && __builtin_popcountll(slot->gpus) > 1;
}

/* ---- One result, for one member or for all ---- */

/* The first of the elements from `from` on of a buffer. */
static void *elem_at(void *buf, const struct ampi_type *type, MPI_Count from)
{
    return (char *)first_byte(buf, type) + from * type->extent_bytes;
}

/* count elements from `from` on, of the sources, on a GPU; nothing receives them yet. */
static struct ampi_coll_slice *make_slice(const struct ampi_coll_slot *slot, int gpu,
                                          struct ampi_coll_span sources, int n_outs, MPI_Count from,
                                          MPI_Count count)
{
    const struct ampi_type *type = slot->last->send.type;
    struct ampi_coll_slice *slice =
        ampi_coll_slice_create(gpu, slot->last->op, type, count, sources.n, n_outs);

    for (int i = sources.first; i < sources.first + sources.n; i++)
        ampi_coll_slice_add_input(slice, elem_at(ampi_coll_input(slot->args[i]), type, from));
    return slice;
}

/* Is a vector of so many elements worth steps? */
static bool has_steps(const struct ampi_type *type, MPI_Count count)
{
    return (size_t)(count * type->size_bytes) >= STEPS_FROM;
}

/* Elements from .. to - 1. */
static void reduce_slice(const struct ampi_coll_slot *slot, int gpu, struct ampi_coll_span sources,
                         struct ampi_coll_span targets, MPI_Count from, MPI_Count to)
{
    const struct ampi_type *type = slot->last->send.type;
    struct ampi_coll_slice *slice = make_slice(slot, gpu, sources, targets.n, from, to - from);

    for (int i = targets.first; i < targets.first + targets.n; i++)
        if (is_target(slot->args[i], NULL))
            ampi_coll_slice_add_output(slice, elem_at(slot->args[i]->recv.buf, type, from));
    ampi_coll_slice_start(slice, has_steps(type, slot->last->send.count));
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

uint64_t ampi_coll_gpu_plan_deal(const struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *last = slot->last;
    const struct ampi_type *type = last->send.type;
    struct census census;

    if (!ampi_coll_gpu_any(slot) || !ampi_coll_device_has_kernel(last->op, type) ||
        !take_census(slot, NULL, &census))
        return 0;
    if ((size_t)(last->send.count * type->size_bytes) >= SECOND_FROM && is_for_second(slot, &census))
        return bit_of(census.second);
    return AMPI_COLL_ANY_GPU;
}

/* The GPU for a result: where it goes, or where a contribution or another result is. */
static int choose_gpu(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                      struct ampi_coll_span sources)
{
    const struct ampi_type *type = slot->last->send.type;
    int gpu = slot->gpus == AMPI_COLL_ANY_GPU ? gpu_of(args->recv.buf, type) : __builtin_ctzll(slot->gpus);

    for (int i = 0; i < sources.n && gpu < 0; i++)
        gpu = gpu_of(ampi_coll_input(slot->args[sources.first + i]), type);
    for (int i = 0; i < slot->state->n_members && gpu < 0; i++)
        if (is_target(slot->args[i], NULL))
            gpu = gpu_of(slot->args[i]->recv.buf, type);
    return gpu < 0 ? 0 : gpu;
}

void ampi_coll_gpu_deal(struct ampi_coll_slot *slot, int part, const struct ampi_coll_args *args,
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
        ampi_coll_slice_add_output(slice, first_byte(args->recv.buf, type));
    } else {
        held = base_calloc(1, sizeof *held, "a reduction on GPUs");
        held->args = args;
        held->gpu = gpu;
        held->n_bytes = (size_t)(count * type->extent_bytes);
        held->memory = gpu_scratch_get(gpu, held->n_bytes, &error);
        held->next = slot->parts[part].held;
        slot->parts[part].held = held;
        ampi_coll_slice_add_output(slice, held->memory);
    }
    if (BASE_UNLIKELY(error))
        ampi_coll_slice_fail(slice, error);
    else
        ampi_coll_slice_start(slice, has_steps(type, count));
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

void ampi_coll_gpu_dealt(struct ampi_coll_slot *slot, int part)
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
