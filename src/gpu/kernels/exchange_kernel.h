/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_kernel.h: messages between CUDA graphs (gpu/streams/stream_graph.c). Each end of a message is a
 * set of blocks in a launch of its rank's graph, one per chunk of the data. The two blocks of a chunk share
 * a bit: the first block sets it and ends, the second one clears it and copies the chunk. So no block of a
 * chunk waits, and data moves as soon as both ends have come, as MPI demands. The block that finishes the
 * last chunk notifies both ends. If the graph waits for the ends at once, the launch has a further block for
 * the wait; else a later kernel of one block waits.
 *
 * The addresses of the data (the terms) are known when the second end is captured. Blocks of the second end
 * have the terms as arguments, and store them in the meeting's memory for blocks of the first one. (Pinned
 * memory, which blocks read one after the other, would cost 6 us per chunk.)
 *
 * Memory order. A: the sender's earlier kernels write the data; its block makes them visible to the system (a
 * launch follows its stream's earlier work, and the fence is cumulative) and then changes the bit; likewise the terms. The receiver's
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

/* Between polls. A GPU has no reason to pause; a CPU (the fake driver) yields to other threads. */
#define EXCHANGE_NAP() (void)0

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

#define EXCHANGE_NAP() usleep(2)

#define GPU_EXCHANGE_KERNEL(name, type, body)                                     \
    extern "C" __attribute__((visibility("default"))) void name(const void *args) \
    {                                                                             \
        for (uint32_t block = 0; block < ((const type *)args)->n_blocks; block++) \
            body(*(const type *)args, block, 0, 1);                               \
    }

#endif

/* The words of the terms, which another GPU may write or read. */
#define EXCHANGE_TERMS(meeting, i) \
    ((meeting) + offsetof(struct gpu_exchange_meeting, terms) + (i) * sizeof(uint64_t))

GPU_FN void exchange_leave_terms(uint64_t meeting, const struct gpu_exchange_terms &terms)
{
    gpu_write_now<uint64_t>(EXCHANGE_TERMS(meeting, 0), terms.to);
    gpu_write_now<uint64_t>(EXCHANGE_TERMS(meeting, 1), terms.from);
    gpu_write_now<uint64_t>(EXCHANGE_TERMS(meeting, 2), terms.n_bytes);
    gpu_write_now<uint64_t>(EXCHANGE_TERMS(meeting, 3), terms.done[0]);
    gpu_write_now<uint64_t>(EXCHANGE_TERMS(meeting, 4), terms.done[1]);
    gpu_write_now<uint64_t>(EXCHANGE_TERMS(meeting, 5), terms.n_chunks);
}

GPU_FN void exchange_find_terms(uint64_t meeting, struct gpu_exchange_terms *terms)
{
    terms->to = gpu_read_now<uint64_t>(EXCHANGE_TERMS(meeting, 0));
    terms->from = gpu_read_now<uint64_t>(EXCHANGE_TERMS(meeting, 1));
    terms->n_bytes = gpu_read_now<uint64_t>(EXCHANGE_TERMS(meeting, 2));
    terms->done[0] = gpu_read_now<uint64_t>(EXCHANGE_TERMS(meeting, 3));
    terms->done[1] = gpu_read_now<uint64_t>(EXCHANGE_TERMS(meeting, 4));
    terms->n_chunks = (uint32_t)gpu_read_now<uint64_t>(EXCHANGE_TERMS(meeting, 5));
}

/* One thread: arrives at the chunk. True if the other end has arrived before: this block copies, and *terms
 * is set. */
GPU_FN bool exchange_meet(const struct gpu_exchange_end &end, uint32_t chunk,
                          struct gpu_exchange_terms *terms)
{
    bool knows_terms = end.terms.n_chunks > 0;

    if (chunk == 0 && end.reached)
        gpu_write_now<uint32_t>(end.reached, 1);
    if (knows_terms)
        exchange_leave_terms(end.meeting, end.terms);
    GPU_FENCE();
    if (!exchange_flip(end.meeting + offsetof(struct gpu_exchange_meeting, arrivals) +
                       chunk * sizeof(uint32_t)))
        return false;
    GPU_FENCE();
    if (knows_terms)
        *terms = end.terms;
    else
        exchange_find_terms(end.meeting, terms);
    return chunk < terms->n_chunks;
}

/* One thread: counts the copied chunk, and notifies both ends after the last one. */
GPU_FN void exchange_finish(uint64_t meeting, const struct gpu_exchange_terms &terms)
{
    uint64_t n_done = meeting + offsetof(struct gpu_exchange_meeting, n_done);

    GPU_FENCE();
    if (exchange_add(n_done) + 1 < terms.n_chunks)
        return;
    gpu_write_now<uint32_t>(n_done, 0); /* for the next launch, which comes after `done` */
    GPU_FENCE();
    gpu_write_now<uint32_t>(terms.done[0], 1);
    gpu_write_now<uint32_t>(terms.done[1], 1);
}

GPU_FN void exchange_copy(const struct gpu_exchange_terms &terms, uint32_t chunk, unsigned thread,
                          unsigned n_threads)
{
    uint64_t share = ((terms.n_bytes + terms.n_chunks - 1) / terms.n_chunks + 15) & ~(uint64_t)15;
    uint64_t at = chunk * share, n_bytes, words[3];

    if (at >= terms.n_bytes)
        return;
    n_bytes = terms.n_bytes - at < share ? terms.n_bytes - at : share;
    words[0] = terms.to + at;
    words[1] = terms.from + at;
    words[2] = n_bytes;
    resident_copy(words, thread, n_threads);
}

/* One thread waits until the word is 1, and makes it 0. */
GPU_FN void exchange_await(uint64_t word)
{
    while (gpu_read_now<uint32_t>(word) == 0)
        EXCHANGE_NAP();
    gpu_write_now<uint32_t>(word, 0);
}

GPU_FN void exchange_body(const struct gpu_kernel_exchange &a, uint32_t block, unsigned thread,
                          unsigned n_threads)
{
    GPU_SHARED struct gpu_exchange_terms terms;
    GPU_SHARED bool is_second;
    uint32_t i = 0, chunk;

    if (a.n_awaited > 0 && block == a.n_blocks - 1) {
        for (i = thread; i < a.n; i += n_threads)
            if (a.ends[i].awaited)
                exchange_await(a.ends[i].awaited);
        GPU_FENCE(); /* as in hold_body */
        return;
    }
    while (i + 1 < a.n && a.ends[i + 1].first_block <= block)
        i++;
    chunk = block - a.ends[i].first_block;
    if (thread == 0)
        is_second = exchange_meet(a.ends[i], chunk, &terms);
    GPU_BARRIER();
    if (!is_second)
        return;
    exchange_copy(terms, chunk, thread, n_threads);
    GPU_BARRIER();
    if (thread == 0)
        exchange_finish(a.ends[i].meeting, terms);
}

/* The stream's later work begins when the block ends. So the fence orders it after the data that the words announce. */
GPU_FN void hold_body(const struct gpu_kernel_hold &a, unsigned thread, unsigned n_threads)
{
    for (uint32_t i = thread; i < a.n; i += n_threads)
        exchange_await(a.words[i]);
    GPU_FENCE();
}

#endif
