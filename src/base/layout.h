/* SPDX-License-Identifier: BSD-3-Clause
 *
 * layout.h: the program into which a datatype is flattened at commit. The CPU (ampi/datatype) and GPUs
 * (gpu/kernels) read it unchanged, so this file is both C and CUDA C++ and includes no other header of the
 * library.
 *
 * A program is one array of 64-bit words without pointers. It holds nodes, which refer to each other by
 * word index; a shared node is stored once. Its size is proportional to the description of the type, never
 * to the number of blocks.
 *
 *      kind      repeats                        n       stride        unit          table
 *      STRIDED   a block of bytes               blocks  between them  bytes         -
 *      OFFSETS   a block of bytes               blocks  -             bytes         disp
 *      BLOCKS    blocks of various sizes        blocks  -             -             disp, bytes, prefix
 *      LOOP      a node                         times   between them  child         -
 *      LIST      a node                         times   -             child         disp
 *      STRUCT    various nodes                  nodes   -             -             disp, child, prefix
 *
 * Invariants: no node is empty; the first byte of a node's data is at displacement 0 of the node, the
 * root's at disp_bytes of the type; n >= 2 except for STRIDED; prefix is the number of data bytes before
 * the entry; children come before their parents. STRIDED, OFFSETS and BLOCKS are the leaves. Written by
 * ampi/datatype/typemap_build.c, walked by ampi/datatype/cursor.c and gpu/kernels/pack.h.
 *
 * A list of blocks would take 16 MB for MPI_Type_vector(1000000, 1, 2, MPI_INT); the program takes 5 words.
 * A type of 40 levels that uses the level below twice takes less than 1,600 words for its 2^40 blocks.
 * After merging, most types of real programs are one or two nodes, whose block size alone selects the copy
 * loop. A GPU's thread seeks to its own bytes in the same program.
 */
#ifndef BASE_LAYOUT_H
#define BASE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define BASE_LAYOUT_FN static inline __host__ __device__
#else
#define BASE_LAYOUT_FN static inline
#endif

enum base_node_kind {
    BASE_NODE_STRIDED,
    BASE_NODE_OFFSETS,
    BASE_NODE_BLOCKS,
    BASE_NODE_LOOP,
    BASE_NODE_LIST,
    BASE_NODE_STRUCT,
};

struct base_node {
    int64_t kind;       /* enum base_node_kind */
    int64_t size_bytes; /* total size of its data */
    int64_t n;          /* repetitions or table entries */
    int64_t stride;     /* bytes between repetitions: STRIDED, LOOP */
    int64_t unit;       /* bytes of a block, or the word index of the child */
    int64_t table[];    /* see above */
};
#define BASE_NODE_WORDS ((int64_t)(sizeof(struct base_node) / sizeof(int64_t)))

/* An entry of the tables of BLOCKS and STRUCT. */
struct base_node_entry {
    int64_t disp;   /* bytes from the node's base */
    int64_t unit;   /* bytes of the block, or the word index of the child */
    int64_t prefix; /* data bytes of the entries before */
};
#define BASE_NODE_ENTRY_WORDS ((int64_t)(sizeof(struct base_node_entry) / sizeof(int64_t)))

struct base_layout {
    void *gpu;          /* copies on devices, owned by src/gpu; NULL: none */
    int64_t n_words;    /* words of the program */
    int64_t root;       /* word index of the outermost node */
    int64_t disp_bytes; /* displacement of the first byte of data */
    int64_t words[];
};

BASE_LAYOUT_FN const struct base_node *base_layout_node(const int64_t *words, int64_t index)
{
    return (const struct base_node *)(words + index);
}

BASE_LAYOUT_FN const struct base_node_entry *base_node_entries(const struct base_node *node)
{
    return (const struct base_node_entry *)node->table;
}

/* Returns the index of the entry of a BLOCKS or STRUCT node that holds data byte `offset`. O(log n). */
BASE_LAYOUT_FN int64_t base_node_find(const struct base_node *node, int64_t offset)
{
    const struct base_node_entry *entries = base_node_entries(node);
    int64_t low = 0, high = node->n;

    /* entries[low].prefix <= offset < entries[high].prefix */
    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;
        if (entries[mid].prefix <= offset)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* Number of words of a node, its table included. */
BASE_LAYOUT_FN int64_t base_node_words(const struct base_node *node)
{
    if (node->kind == BASE_NODE_OFFSETS || node->kind == BASE_NODE_LIST)
        return BASE_NODE_WORDS + node->n;
    if (node->kind == BASE_NODE_BLOCKS || node->kind == BASE_NODE_STRUCT)
        return BASE_NODE_WORDS + node->n * BASE_NODE_ENTRY_WORDS;
    return BASE_NODE_WORDS;
}

#endif
