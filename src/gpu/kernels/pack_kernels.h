/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pack_kernels.h: copies between a layout and consecutive memory.
 *
 * Consecutive threads take consecutive units of the consecutive side, whatever the layout: that side is
 * always coalesced, and the other one as far as the layout allows. Each thread locates its unit by itself,
 * by a division per loop or a binary search per table, so a launch may begin and end anywhere. A thread has
 * several units in flight at once.
 *
 * 64 MiB of doubles on an H200, in percent of a copy's speed, pack and unpack. Unpacking every second
 * double writes half sectors, of which the GPU reads the rest first: 40 % is the limit.
 *
 *     every second one (box)                                      73  46
 *     one of each two, irregular: walk through the program        38  32
 *     the same: table, 2; 4; 8 units per thread at a time         57  40;  54  41;  47  36
 *     three of each five, in a struct: table                      74  45
 */
#ifndef GPU_KERNELS_PACK_KERNELS_H
#define GPU_KERNELS_PACK_KERNELS_H

#include "gpu/kernels/portable.h"

/* Units that a thread loads before it stores the first. */
#ifndef PACK_UNITS
#define PACK_UNITS 4
#endif

/* ---- Consecutive bytes ---- */

/* n aligned units. */
template <typename U>
GPU_FN void copy_units(uint64_t to, uint64_t from, uint64_t n, uint64_t thread, uint64_t n_threads)
{
    for (uint64_t i = thread; i < n; i += n_threads * PACK_UNITS) {
        U value[PACK_UNITS] = {};
        GPU_UNROLL
        for (uint64_t j = 0; j < PACK_UNITS; j++)
            if (i + j * n_threads < n)
                value[j] = *GPU_AT(const U, from + (i + j * n_threads) * sizeof(U));
        GPU_UNROLL
        for (uint64_t j = 0; j < PACK_UNITS; j++)
            if (i + j * n_threads < n)
                *GPU_AT(U, to + (i + j * n_threads) * sizeof(U)) = value[j];
    }
}

/* Vectors, or words, where both sides are aligned to them, bytes elsewhere. */
GPU_FN void copy_body(const struct gpu_kernel_copy &a, uint64_t thread, uint64_t n_threads)
{
    uint64_t bits = a.to | a.from, unit = bits % sizeof(uint4) == 0 ? sizeof(uint4) : bits % 4 == 0 ? 4 : 1;
    uint64_t n = a.n_bytes / unit, done = n * unit;

    if (unit == sizeof(uint4))
        copy_units<uint4>(a.to, a.from, n, thread, n_threads);
    else if (unit == 4)
        copy_units<uint32_t>(a.to, a.from, n, thread, n_threads);
    else
        copy_units<uint8_t>(a.to, a.from, n, thread, n_threads);
    for (uint64_t i = done + thread; i < a.n_bytes; i += n_threads)
        *GPU_AT(uint8_t, a.to + i) = *GPU_AT(const uint8_t, a.from + i);
}

/* A warp takes pieces of GPU_COPIES_PIECE bytes of one copy after the other, so that short and long ones
 * are in progress together. */
GPU_FN void copies_body(const struct gpu_kernel_copies &a, uint64_t thread, uint64_t n_threads)
{
    uint64_t lane = thread % GPU_COPIES_WARP, n_warps = n_threads / GPU_COPIES_WARP;

    for (uint64_t i = thread / GPU_COPIES_WARP; i < a.n * a.n_pieces; i += n_warps) {
        struct gpu_kernel_copy piece = a.copies[i % a.n];
        uint64_t skip = i / a.n * GPU_COPIES_PIECE;
        if (skip >= piece.n_bytes)
            continue;
        piece.to += skip;
        piece.from += skip;
        piece.n_bytes = piece.n_bytes - skip < GPU_COPIES_PIECE ? piece.n_bytes - skip : GPU_COPIES_PIECE;
        copy_body(piece, lane, GPU_COPIES_WARP);
    }
}

/* ---- Nested loops over blocks of one size ---- */

GPU_FN uint32_t divide(struct gpu_divisor d, uint32_t n)
{
    return d.mul ? high_word(n, d.mul) >> d.shift : n;
}

/* Offset from base of the unit with this number. */
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

/* A division of numbers that usually have 32 bits, which is several times as fast. */
GPU_FN int64_t quotient(int64_t a, int64_t b)
{
    if (((uint64_t)a | (uint64_t)b) >> 32)
        return a / b;
    return (int64_t)((uint32_t)a / (uint32_t)b);
}

/* A position in a program's data: block and leaf. */
struct walk {
    const struct base_node *leaf;
    int64_t base;  /* offset of the leaf's first byte */
    int64_t index; /* of the block in the leaf */
    int64_t place; /* offset of the byte itself */
    int64_t left;  /* bytes from there to the block's end */
};

/* Offset of the block from the leaf's first byte, and the block's size. */
GPU_FN int64_t block_at(const struct base_node *leaf, int64_t index, int64_t *size_out)
{
    *size_out = leaf->kind == BASE_NODE_BLOCKS ? base_node_entries(leaf)[index].unit : leaf->unit;
    return leaf->kind == BASE_NODE_STRIDED   ? index * leaf->stride
           : leaf->kind == BASE_NODE_OFFSETS ? leaf->table[index]
                                             : base_node_entries(leaf)[index].disp;
}

/* The position of byte `number` of a program's data. */
GPU_FN struct walk walk_to(const int64_t *words, int64_t root, int64_t number)
{
    const struct base_node *node = base_layout_node(words, root);
    struct walk walk = {};
    int64_t index;

    while (node->kind > BASE_NODE_BLOCKS) {
        if (node->kind == BASE_NODE_STRUCT) {
            const struct base_node_entry *entry = &base_node_entries(node)[base_node_find(node, number)];
            walk.base += entry->disp;
            number -= entry->prefix;
            node = base_layout_node(words, entry->unit);
        } else {
            const struct base_node *child = base_layout_node(words, node->unit);
            index = quotient(number, child->size_bytes);
            walk.base += node->kind == BASE_NODE_LOOP ? index * node->stride : node->table[index];
            number -= index * child->size_bytes;
            node = child;
        }
    }
    walk.leaf = node;
    switch (node->kind) {
    case BASE_NODE_STRIDED:
        walk.index = quotient(number, node->unit);
        number -= walk.index * node->unit;
        walk.place = walk.base + walk.index * node->stride + number;
        walk.left = node->unit - number;
        break;
    case BASE_NODE_OFFSETS:
        walk.index = quotient(number, node->unit);
        number -= walk.index * node->unit;
        walk.place = walk.base + node->table[walk.index] + number;
        walk.left = node->unit - number;
        break;
    default:
        walk.index = base_node_find(node, number);
        number -= base_node_entries(node)[walk.index].prefix;
        walk.place = walk.base + base_node_entries(node)[walk.index].disp + number;
        walk.left = base_node_entries(node)[walk.index].unit - number;
    }
    return walk;
}

/* Advances to the leaf's next block. false: there is none. */
GPU_FN bool walk_on(struct walk *walk)
{
    if (++walk->index >= walk->leaf->n)
        return false;
    walk->place = walk->base + block_at(walk->leaf, walk->index, &walk->left);
    return true;
}

/* The position of byte `number` of all elements. */
GPU_FN struct walk walk_elements(const struct gpu_kernel_pack &a, const int64_t *words, int64_t number)
{
    int64_t element = quotient(number, a.size_bytes);
    struct walk walk = walk_to(words, a.root, number - element * a.size_bytes);

    walk.base += element * a.extent_bytes + a.disp_bytes;
    walk.place += element * a.extent_bytes + a.disp_bytes;
    return walk;
}

template <typename T>
GPU_FN void copy_program(const struct gpu_kernel_pack &a, const int64_t *words, uint64_t thread,
                         uint64_t n_threads)
{
    for (uint64_t i = thread; i < a.n; i += n_threads) {
        int64_t place = walk_elements(a, words, (int64_t)(a.first + i * sizeof(T))).place;
        uint64_t flat = a.flat + i * sizeof(T);
        if (a.is_pack)
            *GPU_AT(T, flat) = *GPU_AT(const T, a.base + (uint64_t)place);
        else
            *GPU_AT(T, a.base + (uint64_t)place) = *GPU_AT(const T, flat);
    }
}

/* 16 bytes in memory order, filled and emptied from one end to the other. */
struct alignas(16) run {
    uint64_t low, high;
};

/* As many bytes as one load or store can take at an address, n_bytes at most. */
GPU_FN unsigned piece_size(uint64_t at, unsigned n_bytes)
{
    return n_bytes >= 8 && at % 8 == 0   ? 8
           : n_bytes >= 4 && at % 4 == 0 ? 4
           : n_bytes >= 2 && at % 2 == 0 ? 2
                                         : 1;
}

GPU_FN uint64_t read_piece(uint64_t from, unsigned n_bytes, unsigned *size_out)
{
    *size_out = piece_size(from, n_bytes);
    switch (*size_out) {
    case 8:
        return *GPU_AT(const uint64_t, from);
    case 4:
        return *GPU_AT(const uint32_t, from);
    case 2:
        return *GPU_AT(const uint16_t, from);
    default:
        return *GPU_AT(const uint8_t, from);
    }
}

GPU_FN unsigned write_piece(uint64_t to, unsigned n_bytes, uint64_t value)
{
    if (n_bytes >= 8 && to % 8 == 0) {
        *GPU_AT(uint64_t, to) = value;
        return 8;
    }
    if (n_bytes >= 4 && to % 4 == 0) {
        *GPU_AT(uint32_t, to) = (uint32_t)value;
        return 4;
    }
    if (n_bytes >= 2 && to % 2 == 0) {
        *GPU_AT(uint16_t, to) = (uint16_t)value;
        return 2;
    }
    *GPU_AT(uint8_t, to) = (uint8_t)value;
    return 1;
}

/* Stores a piece after the first `at` bytes. */
GPU_FN void run_put(struct run *run, unsigned at, uint64_t value)
{
    if (at >= 8) {
        run->high |= value << 8 * (at - 8);
    } else {
        run->low |= value << 8 * at;
        if (at > 0)
            run->high |= value >> (64 - 8 * at);
    }
}

/* The eight bytes after the first `at`. */
GPU_FN uint64_t run_get(const struct run *run, unsigned at)
{
    if (at >= 8)
        return run->high >> 8 * (at - 8);
    return at == 0 ? run->low : run->low >> 8 * at | run->high << (64 - 8 * at);
}

/* Each thread takes 16 bytes of the consecutive side at a time, with one load or store, and transfers the
 * blocks on the other side piece by piece: for blocks of any size and position. */
GPU_FN void copy_program_runs(const struct gpu_kernel_pack &a, const int64_t *words, uint64_t thread,
                              uint64_t n_threads)
{
    uint64_t before = a.flat % sizeof(uint4); /* the first run begins there, before the data */

    for (uint64_t i = thread; i * sizeof(uint4) < a.n + before; i += n_threads) {
        uint64_t begin = i == 0 ? 0 : i * sizeof(uint4) - before;
        uint64_t end = (i + 1) * sizeof(uint4) - before < a.n ? (i + 1) * sizeof(uint4) - before : a.n;
        unsigned n_bytes = (unsigned)(end - begin), size;
        struct run run = {0, 0};
        struct walk walk = walk_elements(a, words, (int64_t)(a.first + begin));

        if (!a.is_pack && n_bytes == sizeof(uint4))
            run = *GPU_AT(const struct run, a.flat + begin);
        else if (!a.is_pack)
            for (unsigned at = 0; at < n_bytes; at++)
                run_put(&run, at, *GPU_AT(const uint8_t, a.flat + begin + at));
        for (unsigned at = 0; at < n_bytes; at += size) {
            unsigned most;
            if (walk.left == 0 && !walk_on(&walk))
                walk = walk_elements(a, words, (int64_t)(a.first + begin + at));
            most = walk.left < (int64_t)(n_bytes - at) ? (unsigned)walk.left : n_bytes - at;
            if (a.is_pack)
                run_put(&run, at, read_piece(a.base + (uint64_t)walk.place, most, &size));
            else
                size = write_piece(a.base + (uint64_t)walk.place, most, run_get(&run, at));
            walk.place += size;
            walk.left -= size;
        }
        if (a.is_pack && n_bytes == sizeof(uint4))
            *GPU_AT(struct run, a.flat + begin) = run;
        else if (a.is_pack)
            for (unsigned at = 0; at < n_bytes; at++)
                *GPU_AT(uint8_t, a.flat + begin + at) = (uint8_t)run_get(&run, at);
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
    default:
        return copy_program_runs(a, words, thread, n_threads);
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
