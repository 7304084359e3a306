/* SPDX-License-Identifier: BSD-3-Clause
 *
 * swap.c: compares and swaps an element in a GPU's memory by a kernel; see gpu.h. Operands in memory that the kernel
 * cannot access, as most of the host's, are passed in pinned memory.
 */
#include <string.h>

#include "gpu/copy/pool.h"
#include "gpu/copy/queue.h"
#include "gpu/driver/module.h"
#include "gpu/driver/query.h"
#include "gpu/gpu.h"
#include "gpu/kernels/kernels.h"

static bool is_host(const void *addr)
{
    return gpu_find(addr)->memory == GPU_MEMORY_HOST;
}

static bool can_use(int device, const void *addr)
{
    struct gpu_range range = *gpu_find(addr);

    if (range.memory == GPU_MEMORY_HOST)
        return true;
    range = *gpu_resolve(addr); /* a kernel that accesses unmapped memory would destroy the GPU's context */
    return gpu_peer_access_by_kernel(device, addr, &range);
}

/* The GPU whose kernel does it; -1: none. */
static int device_of(const struct gpu_swap *swap)
{
    return gpu_range_device(*gpu_find(swap->target));
}

bool gpu_swap_can(const struct gpu_swap *swap)
{
    int device = device_of(swap);

    return gpu_module.image && swap->n_bytes <= GPU_SWAP_BYTES_MAX && device >= 0 && !is_host(swap->target) &&
           can_use(device, swap->target) && can_use(device, swap->expected) &&
           can_use(device, swap->desired) && can_use(device, swap->old);
}

/* Operands of the kernel. */
struct slots {
    unsigned char expected[GPU_SWAP_BYTES_MAX];
    unsigned char desired[GPU_SWAP_BYTES_MAX];
    unsigned char old[GPU_SWAP_BYTES_MAX];
};

static uint64_t input_at(void *slot, const void *addr, size_t n_bytes)
{
    if (is_host(addr))
        addr = memcpy(slot, addr, n_bytes);
    return (uintptr_t)addr;
}

static int launch(struct gpu_queue *queue, struct gpu_kernel_swap *args, size_t n_bytes)
{
    uint64_t bits = args->target | args->expected | args->desired | args->old | n_bytes | sizeof(uint64_t);
    int error;

    args->unit = (uint32_t)(bits & -bits);
    args->n = (uint32_t)(n_bytes / args->unit);
    error = gpu_queue_launch(queue, GPU_KERNEL_SWAP, 1, 1, args, sizeof *args);
    return error ? error : gpu_queue_spin(queue);
}

int gpu_swap_now(const struct gpu_swap *swap)
{
    int error = 0;
    size_t size_bytes;
    struct gpu_queue *queue = gpu_queue_of(device_of(swap), GPU_STREAM_KERNELS, &error);
    struct slots *slots = queue ? gpu_pinned_get(sizeof *slots, &size_bytes, &error) : NULL;
    struct gpu_kernel_swap args;

    if (!slots)
        return error;
    args.target = (uintptr_t)swap->target;
    args.expected = input_at(slots->expected, swap->expected, swap->n_bytes);
    args.desired = input_at(slots->desired, swap->desired, swap->n_bytes);
    args.old = is_host(swap->old) ? (uintptr_t)slots->old : (uintptr_t)swap->old;
    error = launch(queue, &args, swap->n_bytes);
    if (!error && args.old == (uintptr_t)slots->old)
        memcpy(swap->old, slots->old, swap->n_bytes);
    gpu_pinned_put(slots);
    return error;
}
