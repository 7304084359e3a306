/* SPDX-License-Identifier: BSD-3-Clause
 *
 * device_bcast.c: large broadcasts across three or more GPUs; see coll_device.h.
 *
 * The data that leaves the root's GPU is the bottleneck, so it leaves once: each other GPU with receivers
 * gets a slice, and sends it on to all the others (device_slice.c).
 *
 * 64 MiB over four H200s: 203 us; 525 if three receivers read from the root's GPU, 267 to 423 by a chain of
 * copies.
 */
#include "ampi/coll/device/device_slice.h"
#include "gpu/kernels/kernels.h"

/* Minimum size; also for steps, if ranks share GPUs. */
#define SLICES_FROM ((size_t)128 << 10)
#define STEPS_FROM ((size_t)2 << 20)

/* Slices begin at multiples of this many bytes. */
#define SLICE_BYTES 512

/* The address of a buffer's data if it is one block, as large as the root's; else NULL. */
static char *block_at(const struct ampi_coll_args *args, size_t n_bytes)
{
    struct ampi_coll_block block = ampi_coll_whole(&args->recv);

    if (ampi_coll_block_bytes(&block) != n_bytes || !ampi_type_is_block(block.type, block.count))
        return NULL;
    return ampi_type_address(block.buf, block.type->true_lb_bytes);
}

static const struct ampi_coll_known *known_of(const struct ampi_coll_args *args)
{
    return ampi_coll_whole(&args->recv).known;
}

static size_t size_of(const struct ampi_coll_args *root)
{
    return (size_t)(root->recv.count * root->recv.type->size_bytes);
}

uint64_t ampi_coll_gpu_plan_bcast(const struct ampi_coll_slot *slot)
{
    const struct ampi_coll_args *root = ampi_coll_root_args(slot);
    size_t n_bytes = size_of(root);
    uint64_t gpus = 0;
    int root_gpu;

    if (n_bytes < SLICES_FROM || slot->state->remote || slot->state->shared->is_inter ||
        !block_at(root, n_bytes) || !gpu_can_combine(GPU_OP_BOR, GPU_TYPE_UINT64))
        return 0;
    root_gpu = ampi_coll_gpu_of(known_of(root), block_at(root, n_bytes));
    for (int i = 0; i < slot->state->n_members; i++) {
        char *at = block_at(slot->args[i], n_bytes);
        int gpu = at ? ampi_coll_gpu_of(known_of(slot->args[i]), at) : -1;
        if (gpu < 0)
            return 0;
        gpus |= (uint64_t)1 << gpu;
    }
    gpus &= ~((uint64_t)1 << root_gpu);
    return __builtin_popcountll(gpus) > 1 ? gpus : 0;
}

/* The largest element type that all buffers consist of. */
static const struct ampi_type *find_type(const struct ampi_coll_slot *slot, size_t n_bytes)
{
    uintptr_t bits = n_bytes;

    for (int i = 0; i < slot->state->n_members; i++)
        bits |= (uintptr_t)block_at(slot->args[i], n_bytes);
    return ampi_type_predefined[(uintptr_t)(bits % 8 ? MPI_BYTE : MPI_UINT64_T) - AMPI_TYPE_FIRST];
}

/* Forwards bytes from .. to - 1 from a GPU, as a combination of one vector. */
static void pass_on(const struct ampi_coll_slot *slot, int gpu, size_t from, size_t to)
{
    struct ampi_coll_args *root = ampi_coll_root_args(slot);
    size_t n_bytes = size_of(root);
    const struct ampi_type *type = find_type(slot, n_bytes);
    struct ampi_coll_slice *slice =
        ampi_coll_slice_create(gpu, ampi_op_predefined[(uintptr_t)MPI_BOR - AMPI_OP_FIRST], type,
                               (MPI_Count)(to - from) / type->extent_bytes, 1, slot->state->n_members - 1);

    ampi_coll_slice_add_input(slice, block_at(root, n_bytes) + from, known_of(root));
    for (int i = 0; i < slot->state->n_members; i++)
        if (slot->args[i] != root)
            ampi_coll_slice_add_output(slice, block_at(slot->args[i], n_bytes) + from,
                                       known_of(slot->args[i]));
    ampi_coll_slice_start(slice, n_bytes >= STEPS_FROM);
}

void ampi_coll_gpu_bcast(struct ampi_coll_slot *slot, int part)
{
    size_t n_bytes = size_of(ampi_coll_root_args(slot));
    size_t units = (n_bytes + SLICE_BYTES - 1) / SLICE_BYTES;
    int n = __builtin_popcountll(slot->gpus), n_parts = slot->state->n_parts, i = 0;

    for (uint64_t left = slot->gpus; left; left &= left - 1, i++) {
        size_t from = units * (size_t)i / (size_t)n * SLICE_BYTES;
        size_t to = base_min_u64(units * (size_t)(i + 1) / (size_t)n * SLICE_BYTES, n_bytes);
        if (from < to && i * n_parts / n == part)
            pass_on(slot, __builtin_ctzll(left), from, to);
    }
}
