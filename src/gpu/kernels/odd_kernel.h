/* SPDX-License-Identifier: BSD-3-Clause
 *
 * odd_kernel.h: copies between consecutive memory and small blocks of odd sizes, such as those of a struct of a
 * char and a double.
 *
 * The blocks are aligned in the layout, but anywhere in the consecutive memory. So a warp takes a chunk of
 * consecutive memory, which it reads or writes by whole vectors, and holds it in shared memory. There each lane
 * puts or gets one block after the other, with as few loads and stores of the layout as its alignment allows.
 *
 * 64 MiB of a struct of a char, a double and an int on an H200, in percent of a copy's speed, pack and
 * unpack (bench/gpu/pack_methods.cu):
 *
 *     walk through the program per 16 bytes                       18  14
 *     table of bytes                                              13  13
 *     shared memory, lanes take the blocks in order               37  20
 *     shared memory, lanes take the same block of many bodies     49  21   (chunks of 2 KiB; 46 22 of 1 KiB, 36 21 of 4)
 */
#ifndef GPU_KERNELS_ODD_KERNEL_H
#define GPU_KERNELS_ODD_KERNEL_H

#include "gpu/kernels/pack_kernels.h"

/* Data bytes begin .. end - 1. */
struct odd_chunk {
    uint8_t *bytes;  /* shared memory, from data byte `origin` on */
    uint32_t origin; /* at a vector's start in the consecutive memory; may be below 0, modulo 2^32 */
    uint32_t begin;
    uint32_t end;
};

GPU_FN uint64_t odd_word(const struct gpu_kernel_odd &a, uint32_t index)
{
    return *GPU_AT(const uint64_t, a.blocks + (uint64_t)index * sizeof(uint64_t));
}

/* The block of the body that holds a byte of it. */
GPU_FN uint32_t odd_find(const struct gpu_kernel_odd &a, uint32_t within)
{
    uint32_t low = 0, high = a.n_blocks.by;

    while (high - low > 1) {
        uint32_t mid = (low + high) / 2;
        if (gpu_odd_prefix(odd_word(a, mid)) <= within)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* The offset of a repetition of the body. */
GPU_FN int64_t odd_body_place(const struct gpu_kernel_odd &a, uint32_t index)
{
    int64_t place = 0;

    for (uint32_t d = 0; d + 1 < a.n_dims; d++) {
        uint32_t outer = divide(a.dim[d], index);
        place += (int64_t)(index - outer * a.dim[d].by) * a.stride[d];
        index = outer;
    }
    return place + (int64_t)index * a.stride[a.n_dims - 1];
}

template <unsigned size>
GPU_FN void put_bytes(uint8_t *bytes, uint64_t value)
{
    GPU_UNROLL
    for (unsigned i = 0; i < size; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

template <unsigned size>
GPU_FN uint64_t get_bytes(const uint8_t *bytes)
{
    uint64_t value = 0;

    GPU_UNROLL
    for (unsigned i = 0; i < size; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

/* One block between the layout and shared memory. */
GPU_FN void odd_block(uint64_t at, uint8_t *bytes, uint32_t left, bool is_pack)
{
    for (unsigned size; left; at += size, bytes += size, left -= size) {
        size = piece_size(at, left);
        switch (size) {
        case 8:
            if (is_pack)
                put_bytes<8>(bytes, *GPU_AT(const uint64_t, at));
            else
                *GPU_AT(uint64_t, at) = get_bytes<8>(bytes);
            break;
        case 4:
            if (is_pack)
                put_bytes<4>(bytes, *GPU_AT(const uint32_t, at));
            else
                *GPU_AT(uint32_t, at) = (uint32_t)get_bytes<4>(bytes);
            break;
        case 2:
            if (is_pack)
                put_bytes<2>(bytes, *GPU_AT(const uint16_t, at));
            else
                *GPU_AT(uint16_t, at) = (uint16_t)get_bytes<2>(bytes);
            break;
        default:
            if (is_pack)
                *bytes = *GPU_AT(const uint8_t, at);
            else
                *GPU_AT(uint8_t, at) = *bytes;
        }
    }
}

/* The part of a block that is in the chunk. from: the block's first data byte. */
GPU_FN void odd_part(const struct gpu_kernel_odd &a, const struct odd_chunk &chunk, uint32_t index,
                     uint64_t word, uint32_t from, uint32_t to)
{
    uint32_t skip = from < chunk.begin ? chunk.begin - from : 0;

    to = to < chunk.end ? to : chunk.end;
    if (from + skip < to)
        odd_block(a.base + (uint64_t)(odd_body_place(a, index) + gpu_odd_disp(word) + skip),
                  chunk.bytes + (from + skip - chunk.origin), to - from - skip, a.is_pack);
}

/* A chunk of many bodies: each lane takes the same block of other bodies, so all lanes do the same. */
GPU_FN void odd_bodies(const struct gpu_kernel_odd &a, const struct odd_chunk &chunk, uint32_t first,
                       uint32_t n, uint32_t lane)
{
    for (uint32_t block = 0; block < a.n_blocks.by; block++) {
        uint64_t word = odd_word(a, block);
        uint32_t from = gpu_odd_prefix(word), to = gpu_odd_prefix(odd_word(a, block + 1));
        for (uint32_t index = first + lane; index < first + n; index += GPU_LANES)
            odd_part(a, chunk, index, word, index * a.size.by + from, index * a.size.by + to);
    }
}

/* A chunk of few bodies: the lanes take the blocks in order. */
GPU_FN void odd_blocks(const struct gpu_kernel_odd &a, const struct odd_chunk &chunk, uint32_t body,
                       uint32_t lane)
{
    uint32_t first = body * a.n_blocks.by + odd_find(a, chunk.begin - body * a.size.by);

    for (uint32_t number = first + lane;; number += GPU_LANES) {
        uint32_t index = divide(a.n_blocks, number), block = number - index * a.n_blocks.by;
        uint64_t word = odd_word(a, block);
        uint32_t from = index * a.size.by + gpu_odd_prefix(word);
        if (from >= chunk.end)
            break;
        odd_part(a, chunk, index, word, from, index * a.size.by + gpu_odd_prefix(odd_word(a, block + 1)));
    }
}

GPU_FN void odd_layout(const struct gpu_kernel_odd &a, const struct odd_chunk &chunk, uint32_t lane)
{
    uint32_t first = divide(a.size, chunk.begin), n = divide(a.size, chunk.end - 1) + 1 - first;

    if (n >= GPU_ODD_MANY)
        odd_bodies(a, chunk, first, n, lane);
    else
        odd_blocks(a, chunk, first, lane);
}

/* The chunk's bytes between shared memory and the consecutive side: vectors, and bytes at its two ends. */
GPU_FN void odd_flat(const struct gpu_kernel_odd &a, const struct odd_chunk &chunk, uint32_t lane)
{
    uint64_t flat = a.flat + (uint64_t)(int64_t)(int32_t)(chunk.origin - a.first);

    for (uint32_t at = lane * sizeof(uint4); at < GPU_ODD_CHUNK; at += GPU_LANES * sizeof(uint4)) {
        uint32_t low = chunk.begin - chunk.origin, high = chunk.end - chunk.origin;
        bool is_whole = at >= low && at + sizeof(uint4) <= high;
        if (is_whole && a.is_pack)
            *GPU_AT(uint4, flat + at) = *(const uint4 *)(chunk.bytes + at);
        else if (is_whole)
            *(uint4 *)(chunk.bytes + at) = *GPU_AT(const uint4, flat + at);
        else
            for (uint32_t i = at > low ? at : low; i < at + sizeof(uint4) && i < high; i++) {
                if (a.is_pack)
                    *GPU_AT(uint8_t, flat + i) = chunk.bytes[i];
                else
                    chunk.bytes[i] = *GPU_AT(const uint8_t, flat + i);
            }
    }
}

GPU_FN void pack_odd_body(const struct gpu_kernel_odd &a, uint64_t thread, uint64_t n_threads)
{
    /* A thread block of GPU_ODD_WARPS warps. */
    GPU_SHARED uint4 buffers[GPU_ODD_BUFFERS][GPU_ODD_CHUNK / sizeof(uint4)];
    uint32_t lane = (uint32_t)(thread % GPU_LANES), end = a.first + a.n;
    uint32_t before = (uint32_t)(a.flat % sizeof(uint4)); /* the first chunk begins there, before the data */
    struct odd_chunk chunk = {(uint8_t *)buffers[thread / GPU_LANES % GPU_ODD_BUFFERS], 0, 0, 0};

    for (uint64_t i = thread / GPU_LANES; i * GPU_ODD_CHUNK < (uint64_t)a.n + before;
         i += n_threads / GPU_LANES) {
        chunk.origin = a.first + (uint32_t)(i * GPU_ODD_CHUNK) - before;
        chunk.begin = i == 0 ? a.first : chunk.origin;
        chunk.end = end - chunk.begin < GPU_ODD_CHUNK - (chunk.begin - chunk.origin)
                        ? end
                        : chunk.origin + GPU_ODD_CHUNK;
        if (a.is_pack)
            odd_layout(a, chunk, lane);
        else
            odd_flat(a, chunk, lane);
        GPU_WARP_BARRIER();
        if (a.is_pack)
            odd_flat(a, chunk, lane);
        else
            odd_layout(a, chunk, lane);
        GPU_WARP_BARRIER();
    }
}

#endif
