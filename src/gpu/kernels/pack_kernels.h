/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pack_kernels.h: copies between a layout and consecutive memory.
 *
 * Consecutive threads take consecutive units of the consecutive side, whatever the layout: that side is
 * always coalesced, and the other as well as the layout allows. Each thread finds the place of its unit by
 * itself, by a division per loop or a binary search per table, so a launch may begin and end anywhere. A
 * thread has several units under way at once.
 */
#ifndef GPU_KERNELS_PACK_KERNELS_H
#define GPU_KERNELS_PACK_KERNELS_H

#include "gpu/kernels/portable.h"

/* Units that a thread loads before it stores the first. */
#ifndef PACK_UNITS
#define PACK_UNITS 4
#endif

/* ---- Consecutive bytes ---- */

/* Vectors where both sides have the same alignment, bytes elsewhere. */
GPU_FN void copy_body(const struct gpu_kernel_copy &a, uint64_t thread, uint64_t n_threads)
{
    uint64_t n_vectors = (a.to | a.from) % sizeof(uint4) ? 0 : a.n_bytes / sizeof(uint4);

    for (uint64_t i = thread; i < n_vectors; i += n_threads * PACK_UNITS) {
        uint4 value[PACK_UNITS] = {};
        GPU_UNROLL
        for (uint64_t j = 0; j < PACK_UNITS; j++)
            if (i + j * n_threads < n_vectors)
                value[j] = *GPU_AT(const uint4, a.from + (i + j * n_threads) * sizeof(uint4));
        GPU_UNROLL
        for (uint64_t j = 0; j < PACK_UNITS; j++)
            if (i + j * n_threads < n_vectors)
                *GPU_AT(uint4, a.to + (i + j * n_threads) * sizeof(uint4)) = value[j];
    }
    for (uint64_t i = n_vectors * sizeof(uint4) + thread; i < a.n_bytes; i += n_threads)
        *GPU_AT(uint8_t, a.to + i) = *GPU_AT(const uint8_t, a.from + i);
}

/* ---- Nested loops over blocks of one size ---- */

GPU_FN uint32_t divide(struct gpu_divisor d, uint32_t n)
{
    return d.mul ? high_word(n, d.mul) >> d.shift : n;
}

/* Bytes from base to the unit with this number. */
GPU_FN int64_t box_place(const struct gpu_kernel_box &a, uint32_t number)
{
    uint32_t index = divide(a.block, number);
    int64_t place = (int64_t)(number - index * a.block.by) * a.unit;

    for (int d = 0; d < a.n_dims - 1; d++) {
        uint32_t outer = divide(a.dim[d], index);
        place += (int64_t)(index - outer * a.dim[d].by) * a.stride[d];
        index = outer;
    }
    return place + (int64_t)index * a.stride[a.n_dims - 1];
}

template <typename T>
GPU_FN void copy_box(const struct gpu_kernel_box &a, uint64_t thread, uint64_t n_threads)
{
    for (uint64_t i = thread; i < a.n; i += n_threads * PACK_UNITS) {
        uint64_t to[PACK_UNITS] = {};
        T value[PACK_UNITS] = {};
        GPU_UNROLL
        for (uint64_t j = 0; j < PACK_UNITS; j++) {
            uint64_t number = i + j * n_threads;
            if (number < a.n) {
                uint64_t place = a.base + (uint64_t)box_place(a, a.first + (uint32_t)number);
                uint64_t flat = a.flat + number * sizeof(T);
                to[j] = a.is_pack ? flat : place;
                value[j] = *GPU_AT(const T, a.is_pack ? place : flat);
            }
        }
        GPU_UNROLL
        for (uint64_t j = 0; j < PACK_UNITS; j++)
            if (i + j * n_threads < a.n)
                *GPU_AT(T, to[j]) = value[j];
    }
}

GPU_FN void pack_box_body(const struct gpu_kernel_box &a, uint64_t thread, uint64_t n_threads)
{
    switch (a.unit) {
    case 16:
        return copy_box<uint4>(a, thread, n_threads);
    case 8:
        return copy_box<uint64_t>(a, thread, n_threads);
    case 4:
        return copy_box<uint32_t>(a, thread, n_threads);
    case 2:
        return copy_box<uint16_t>(a, thread, n_threads);
    default:
        return copy_box<uint8_t>(a, thread, n_threads);
    }
}

/* ---- Any program ---- */

/* A division of numbers that mostly have 32 bits, which is several times as fast. */
GPU_FN int64_t quotient(int64_t a, int64_t b)
{
    if (((uint64_t)a | (uint64_t)b) >> 32)
        return a / b;
    return (int64_t)((uint32_t)a / (uint32_t)b);
}

/* Bytes from the first byte of the node's data to the one with this number. */
GPU_FN int64_t program_place(const int64_t *words, int64_t root, int64_t number)
{
    const struct base_node *node = base_layout_node(words, root);
    int64_t place = 0, index, unit_bytes;

    for (;;) {
        switch (node->kind) {
        case BASE_NODE_STRIDED:
            index = quotient(number, node->unit);
            return place + index * node->stride + (number - index * node->unit);
        case BASE_NODE_OFFSETS:
            index = quotient(number, node->unit);
            return place + node->table[index] + (number - index * node->unit);
        case BASE_NODE_BLOCKS:
            index = base_node_find(node, number);
            return place + base_node_entries(node)[index].disp + number -
                   base_node_entries(node)[index].prefix;
        case BASE_NODE_STRUCT:
            index = base_node_find(node, number);
            place += base_node_entries(node)[index].disp;
            number -= base_node_entries(node)[index].prefix;
            node = base_layout_node(words, base_node_entries(node)[index].unit);
            break;
        default: {
            const struct base_node *child = base_layout_node(words, node->unit);
            unit_bytes = child->size_bytes;
            index = quotient(number, unit_bytes);
            place += node->kind == BASE_NODE_LOOP ? index * node->stride : node->table[index];
            number -= index * unit_bytes;
            node = child;
        }
        }
    }
}

template <typename T>
GPU_FN void copy_program(const struct gpu_kernel_pack &a, const int64_t *words, uint64_t thread,
                         uint64_t n_threads)
{
    for (uint64_t i = thread; i < a.n; i += n_threads) {
        int64_t number = (int64_t)(a.first + i * sizeof(T));
        int64_t element = quotient(number, a.size_bytes);
        int64_t place = element * a.extent_bytes + a.disp_bytes +
                        program_place(words, a.root, number - element * a.size_bytes);
        uint64_t flat = a.flat + i * sizeof(T);
        if (a.is_pack)
            *GPU_AT(T, flat) = *GPU_AT(const T, a.base + (uint64_t)place);
        else
            *GPU_AT(T, a.base + (uint64_t)place) = *GPU_AT(const T, flat);
    }
}

GPU_FN void copy_program_units(const struct gpu_kernel_pack &a, const int64_t *words, uint64_t thread,
                               uint64_t n_threads)
{
    switch (a.unit) {
    case 16:
        return copy_program<uint4>(a, words, thread, n_threads);
    case 8:
        return copy_program<uint64_t>(a, words, thread, n_threads);
    case 4:
        return copy_program<uint32_t>(a, words, thread, n_threads);
    case 2:
        return copy_program<uint16_t>(a, words, thread, n_threads);
    default:
        return copy_program<uint8_t>(a, words, thread, n_threads);
    }
}

GPU_FN void pack_program_body(const struct gpu_kernel_pack &a, uint64_t thread, uint64_t n_threads)
{
    if (a.program) {
        copy_program_units(a, GPU_AT(const int64_t, a.program), thread, n_threads);
    } else {
        GPU_BLOCK_WORDS(words, a.words, a.n_words, GPU_PROGRAM_WORDS);
        copy_program_units(a, words, thread, n_threads);
    }
}

#endif
