/* SPDX-License-Identifier: BSD-3-Clause
 *
 * copies.c: many copies by one kernel; see gpu.h. Each single copy costs the CPU 2 us or more and the GPU
 * as much; a kernel with up to GPU_KERNEL_COPIES_MAX of them costs as much as one. Large copies are faster
 * on their own.
 */
#include "gpu/copy/queue.h"
#include "gpu/driver/module.h"
#include "gpu/driver/query.h"
#include "gpu/gpu.h"
#include "gpu/kernels/kernels.h"

#define THREADS 512
#define BLOCKS_MAX 264

/* Copies of this size and more from other GPUs saturate the links with this many blocks. */
#define LARGE ((size_t)4 << 20)
#define LARGE_BLOCKS_MAX 66

bool gpu_kernel_can_use(int device, const void *addr, const struct gpu_range *exact, struct gpu_known *known)
{
    struct gpu_range range = exact ? *exact : *gpu_find(addr);
    size_t place = (range.buffer + (unsigned)device) % BASE_COUNT(known->entries);

    if (range.buffer && known->entries[place].buffer == range.buffer &&
        known->entries[place].device == device)
        return true;
    if (!exact)
        range = *gpu_resolve(addr);
    if (!gpu_peer_access_by_kernel(device, addr, &range))
        return false;
    place = (range.buffer + (unsigned)device) % BASE_COUNT(known->entries);
    known->entries[place].buffer = range.buffer;
    known->entries[place].device = device;
    return true;
}

bool gpu_copies_can(int device, const struct gpu_copy *copy, const struct gpu_facts *dst_facts,
                    const struct gpu_facts *src_facts, struct gpu_known *known)
{
    return gpu_module.image &&
           gpu_kernel_can_use(device, copy->dst, gpu_facts_range(dst_facts, copy->dst), known) &&
           gpu_kernel_can_use(device, copy->src, gpu_facts_range(src_facts, copy->src), known);
}

static void all_done(struct gpu_ticket *ticket, int error)
{
    struct gpu_copies *copies = BASE_CONTAINER(ticket, struct gpu_copies, ticket);

    copies->done(copies, copies->error ? copies->error : error);
}

static int launch(struct gpu_queue *queue, const struct gpu_copy *copies, int n)
{
    struct gpu_kernel_copies args = {.n = (uint64_t)n};
    size_t longest = 0, n_blocks, most;

    for (int i = 0; i < n; i++) {
        args.copies[i] =
            (struct gpu_kernel_copy){(uintptr_t)copies[i].dst, (uintptr_t)copies[i].src, copies[i].n_bytes};
        longest = copies[i].n_bytes > longest ? copies[i].n_bytes : longest;
    }
    args.n_pieces = (longest + GPU_COPIES_PIECE - 1) / GPU_COPIES_PIECE;
    n_blocks = ((size_t)n * args.n_pieces * GPU_COPIES_WARP + THREADS - 1) / THREADS;
    most = longest > LARGE ? LARGE_BLOCKS_MAX : BLOCKS_MAX;
    return gpu_queue_launch(queue, GPU_KERNEL_COPIES, (unsigned)(n_blocks < most ? n_blocks : most), THREADS,
                            &args, sizeof args);
}

static int launch_all(struct gpu_queue *queue, const struct gpu_copy *copies, int n)
{
    int error = 0;

    for (int i = 0; i < n && !error; i += GPU_KERNEL_COPIES_MAX)
        error = launch(queue, copies + i, n - i < GPU_KERNEL_COPIES_MAX ? n - i : GPU_KERNEL_COPIES_MAX);
    return error;
}

int gpu_copies_now(int device, const struct gpu_copy *copies, int n)
{
    int error = 0, end_error;
    struct gpu_queue *queue = gpu_queue_of(device, GPU_STREAM_KERNELS, &error);

    if (!queue)
        return error;
    error = launch_all(queue, copies, n);
    end_error = gpu_queue_spin(queue);
    return error ? error : end_error;
}

int gpu_copies_start(struct gpu_copies *copies)
{
    struct gpu_queue *queue;
    int error = 0;

    queue = gpu_queue_of(copies->device, GPU_STREAM_KERNELS, &error);
    if (!queue)
        return error;
    error = launch_all(queue, copies->copies, copies->n);
    copies->error = error; /* work that has been queued must end first */
    copies->ticket.handle = all_done;
    gpu_queue_then(queue, &copies->ticket);
    return 0;
}
