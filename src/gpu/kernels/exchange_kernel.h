/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_kernel.h: messages between CUDA graphs (gpu/stream_graph.c). Each end of a message is a set of blocks in
 * a launch of its rank's graph, one per chunk of the data. The two blocks of a chunk meet in a bit: the one that
 * comes first sets it and ends; the second clears it and copies the chunk. So no block ever waits, and data moves
 * as soon as both ends have come, as MPI demands. The block that finishes the last chunk tells both ends.
 *
 * Memory order. A: the sender's earlier kernels write the data; its block makes them visible to the system (a
 * launch follows its stream's earlier work, and the fence is cumulative) and then changes the bit. The receiver's
 * block does the same for its earlier kernels, which have read the buffer. Whichever is second sees the bit, which
 * only an atomic operation of the first can have set, and its fence orders the copy after it. B: the copying block's
 * threads write the data; a barrier, a fence of one thread, and its addition to `n_done` follow. The last adder
 * has seen all additions; its fence and then its stores to `done` follow. A stream that has seen `done` thus sees all
 * chunks. The loads bypass the multiprocessor's cache.
 */
#ifndef GPU_KERNELS_EXCHANGE_KERNEL_H
#define GPU_KERNELS_EXCHANGE_KERNEL_H

#include "gpu/kernels/portable.h"
#include "gpu/kernels/resident_kernel.h"

#ifdef __CUDACC__

/* The previous value; atomic for all GPUs that reach the memory. */
GPU_FN uint32_t exchange_flip(uint64_t addr)
{
    return atomicXor_system((unsigned *)addr, 1u);
}
GPU_FN uint32_t exchange_add(uint64_t addr)
{
    return atomicAdd_system((unsigned *)addr, 1u);
}

#define GPU_EXCHANGE_KERNEL(name, type, body)                                                 \
    extern "C" __global__ void __launch_bounds__(512) name(const __grid_constant__ type args) \
    {                                                                                         \
        body(args, blockIdx.x, threadIdx.x, blockDim.x);                                      \
    }

#else

GPU_FN uint32_t exchange_flip(uint64_t addr)
{
    return __atomic_fetch_xor(GPU_AT(uint32_t, addr), 1, __ATOMIC_SEQ_CST);
}
GPU_FN uint32_t exchange_add(uint64_t addr)
{
    return __atomic_fetch_add(GPU_AT(uint32_t, addr), 1, __ATOMIC_SEQ_CST);
}

#define GPU_EXCHANGE_KERNEL(name, type, body)                                     \
    extern "C" __attribute__((visibility("default"))) void name(const void *args) \
    {                                                                             \
        for (uint32_t block = 0; block < ((const type *)args)->n_blocks; block++) \
            body(*(const type *)args, block, 0, 1);                               \
    }

#endif

/* What the second block of a chunk knows. */
struct exchange_work {
    uint64_t to;
    uint64_t from;
    uint64_t n_bytes;
    uint64_t done[2];
    uint32_t n_chunks; /* 0: nothing to do here */
};

/* One thread: comes to the chunk. True if the other end is there already; *work is set then. */
GPU_FN bool exchange_meet(const struct gpu_exchange_end &end, uint32_t chunk, struct exchange_work *work)
{
    uint64_t terms = end.terms;

    if (chunk == 0)
        gpu_write_now<uint32_t>(end.reached, 1);
    GPU_FENCE();
    if (!exchange_flip(end.meeting + offsetof(struct gpu_exchange_meeting, arrivals) +
                       chunk * sizeof(uint32_t)))
        return false;
    GPU_FENCE();
    work->to = gpu_read_now<uint64_t>(terms + offsetof(struct gpu_exchange_terms, to));
    work->from = gpu_read_now<uint64_t>(terms + offsetof(struct gpu_exchange_terms, from));
    work->n_bytes = gpu_read_now<uint64_t>(terms + offsetof(struct gpu_exchange_terms, n_bytes));
    work->done[0] = gpu_read_now<uint64_t>(terms + offsetof(struct gpu_exchange_terms, done));
    work->done[1] =
        gpu_read_now<uint64_t>(terms + offsetof(struct gpu_exchange_terms, done) + sizeof(uint64_t));
    work->n_chunks = gpu_read_now<uint32_t>(terms + offsetof(struct gpu_exchange_terms, n_chunks));
    return chunk < work->n_chunks;
}

/* One thread: the chunk is copied. */
GPU_FN void exchange_finish(const struct gpu_exchange_end &end, const struct exchange_work &work)
{
    uint64_t n_done = end.meeting + offsetof(struct gpu_exchange_meeting, n_done);

    GPU_FENCE();
    if (exchange_add(n_done) + 1 < work.n_chunks)
        return;
    gpu_write_now<uint32_t>(n_done, 0); /* for the next launch, which comes after `done` */
    GPU_FENCE();
    gpu_write_now<uint32_t>(work.done[0], 1);
    gpu_write_now<uint32_t>(work.done[1], 1);
}

GPU_FN void exchange_copy(const struct exchange_work &work, uint32_t chunk, unsigned thread,
                          unsigned n_threads)
{
    uint64_t share = ((work.n_bytes + work.n_chunks - 1) / work.n_chunks + 15) & ~(uint64_t)15;
    uint64_t at = chunk * share, n_bytes, words[3];

    if (at >= work.n_bytes)
        return;
    n_bytes = work.n_bytes - at < share ? work.n_bytes - at : share;
    words[0] = work.to + at;
    words[1] = work.from + at;
    words[2] = n_bytes;
    resident_copy(words, thread, n_threads);
}

GPU_FN void exchange_body(const struct gpu_kernel_exchange &a, uint32_t block, unsigned thread,
                          unsigned n_threads)
{
    GPU_SHARED struct exchange_work work;
    GPU_SHARED bool is_second;
    uint32_t i = 0, chunk;

    while (i + 1 < a.n && a.ends[i + 1].first_block <= block)
        i++;
    chunk = block - a.ends[i].first_block;
    if (thread == 0)
        is_second = exchange_meet(a.ends[i], chunk, &work);
    GPU_BARRIER();
    if (!is_second)
        return;
    exchange_copy(work, chunk, thread, n_threads);
    GPU_BARRIER();
    if (thread == 0)
        exchange_finish(a.ends[i], work);
}

#endif
