/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device_reduce.c: reductions by kernels, on all GPUs that take part; see device.h.
 *
 * Each GPU combines a slice of the elements: one kernel reads that slice of all contributions, its own
 * memory's and its peers', in rank order, and writes the result to all receivers. So data crosses the links
 * between GPUs in both directions at once. A small vector is one slice, and the PE that comes last starts it.
 *
 * The middle stage decides for all parts, which may have other knowledge of addresses (slot->gpus).
 */
#include "ampi/coll/device.h"
#include "ampi/coll/fold.h"
#include "ampi/op_device.h"
#include "base/log.h"

/* A vector of this size is worth a kernel on each GPU. */
#define SLICES_FROM ((size_t)128 << 10)

/* Slices begin at multiples of this many elements. */
#define SLICE_ELEMS 64

/* ---- Which GPUs ---- */

static void *first_byte(void *buf, const struct ampi_type *type)
{
    return ampi_type_address(buf, type->true_lb_bytes);
}

/* The bit of the GPU that has a buffer; 0: none. */
static uint64_t gpu_bit(void *buf, const struct ampi_type *type)
{
    const struct gpu_range *range = gpu_resolve(first_byte(buf, type));

    if (range->memory < GPU_MEMORY_MANAGED)
        return 0;
    return (uint64_t)1 << (range->device > 0 ? range->device : 0);
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

static uint64_t lowest(uint64_t bits)
{
    return bits & -bits;
}

uint64_t ampi_coll_device_plan(const struct ampi_coll_slot *slot, const struct ampi_coll_args *root)
{
    const struct ampi_coll_args *last = slot->last;
    const struct ampi_type *type = last->send.type;
    uint64_t targets = 0, inputs = 0, all;
    int n_targets = 0;

    if (!ampi_coll_device_any(slot) || !ampi_coll_device_has_kernel(last->op, type))
        return 0;
    for (int i = 0; i < slot->state->n_members; i++) {
        struct ampi_coll_args *args = slot->args[i];
        if (is_target(args, root)) {
            if (!is_plain(args, type))
                return 0;
            targets |= gpu_bit(args->recv.buf, type);
            n_targets++;
        }
        if (args && args->send.type)
            inputs |= gpu_bit(ampi_coll_input(args), type);
    }
    if (n_targets == 0)
        return 0;
    /* One receiver, and inputs on several other GPUs: these share the work, and what comes to its GPU is the
     * result alone. */
    if (root && __builtin_popcountll(inputs & ~targets) > 1)
        all = inputs & ~targets;
    else
        all = targets ? targets : inputs;
    return (size_t)(last->send.count * type->size_bytes) < SLICES_FROM ? lowest(all) : all;
}

bool ampi_coll_device_must_share(const struct ampi_coll_slot *slot)
{
    return slot->state->n_parts > 1 && __builtin_popcountll(slot->gpus) > 1;
}

/* ---- One slice ---- */

struct slice {
    struct gpu_combine combine;
    struct ampi_coll_part *part;
    void *addrs[]; /* of the outputs, then of the inputs */
};

static void slice_done(struct gpu_combine *combine, int error)
{
    struct slice *slice = BASE_CONTAINER(combine, struct slice, combine);
    struct ampi_coll_part *part = slice->part;

    if (BASE_UNLIKELY(error))
        ampi_coll_device_fail(part->slot, error);
    free(slice);
    ampi_coll_device_end(part);
}

/* Elements from .. to - 1 on a GPU. */
static void start_slice(struct ampi_coll_slot *slot, int part, int device, struct ampi_coll_span sources,
                        struct ampi_coll_span targets, MPI_Count from, MPI_Count to)
{
    const struct ampi_type *type = slot->last->send.type;
    size_t skip = (size_t)(from * type->extent_bytes);
    struct slice *slice =
        base_malloc(sizeof *slice + (size_t)(sources.n + targets.n) * sizeof(void *), "a reduction on GPUs");
    int n = 0, error;

    slice->part = &slot->parts[part];
    for (int i = targets.first; i < targets.first + targets.n; i++)
        if (is_target(slot->args[i], NULL))
            slice->addrs[n++] = (char *)first_byte(slot->args[i]->recv.buf, type) + skip;
    slice->combine = (struct gpu_combine){.outs = slice->addrs,
                                          .n_outs = n,
                                          .inputs = (const void *const *)slice->addrs + n,
                                          .n_inputs = sources.n,
                                          .count_elems = (int64_t)ampi_op_elems(type, to - from),
                                          .device = device,
                                          .done = slice_done};
    ampi_op_set_gpu_kernel(slot->last->op, type, &slice->combine);
    for (int i = sources.first; i < sources.first + sources.n; i++)
        slice->addrs[n++] = (char *)first_byte(ampi_coll_input(slot->args[i]), type) + skip;
    error = gpu_combine_start(&slice->combine);
    if (BASE_UNLIKELY(error)) {
        ampi_coll_device_fail(slot, error);
        free(slice);
        return;
    }
    slice->part->n_moves++;
}

/* GPU number i of n takes the i-th slice; consecutive GPUs have the same PE if there are fewer of these. */
void ampi_coll_device_reduce(struct ampi_coll_slot *slot, int part, struct ampi_coll_span sources,
                             struct ampi_coll_span targets)
{
    MPI_Count count = slot->last->send.count, units = (count + SLICE_ELEMS - 1) / SLICE_ELEMS;
    int n = __builtin_popcountll(slot->gpus), n_parts = slot->state->n_parts, i = 0;

    for (uint64_t left = slot->gpus; left; left &= left - 1, i++) {
        MPI_Count from = units * i / n * SLICE_ELEMS, to = units * (i + 1) / n * SLICE_ELEMS;
        if (to > count)
            to = count;
        if (from < to && (!slot->needs_share || i * n_parts / n == part))
            start_slice(slot, part, __builtin_ctzll(left), sources, targets, from, to);
    }
}
