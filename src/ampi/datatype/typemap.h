/* SPDX-License-Identifier: BSD-3-Clause
 *
 * typemap.h: the program into which a datatype is flattened at commit.
 *
 * A program is one array of 64-bit words without pointers, so it can be copied to a GPU as it is. It holds
 * nodes, which refer to each other by word index; a node that several others use is stored once. Its size is
 * proportional to the description of the type, never to the number of blocks.
 *
 *      kind      repeats                        n       stride        unit          table
 *      STRIDED   a block of bytes               blocks  between them  bytes         -
 *      OFFSETS   a block of bytes               blocks  -             bytes         disp
 *      BLOCKS    blocks of various sizes        blocks  -             -             disp, bytes, prefix
 *      LOOP      a node                         times   between them  child         -
 *      LIST      a node                         times   -             child         disp
 *      STRUCT    various nodes                  nodes   -             -             disp, child, prefix
 *
 * Invariants: no node is empty; the first byte of a node's data lies at displacement 0 of the node, the
 * root's at disp_bytes of the type; n >= 2 but for STRIDED; prefix is the number of data bytes before the
 * entry; children come before their parents. STRIDED, OFFSETS and BLOCKS are the leaves. Written by
 * typemap_build.c, walked by cursor.c.
 */
#ifndef AMPI_DATATYPE_TYPEMAP_H
#define AMPI_DATATYPE_TYPEMAP_H

#include "ampi/type.h"

enum ampi_node_kind {
    AMPI_NODE_STRIDED,
    AMPI_NODE_OFFSETS,
    AMPI_NODE_BLOCKS,
    AMPI_NODE_LOOP,
    AMPI_NODE_LIST,
    AMPI_NODE_STRUCT,
};

struct ampi_node {
    int64_t kind;       /* enum ampi_node_kind */
    int64_t size_bytes; /* of all its data */
    int64_t n;          /* repetitions or table entries */
    int64_t stride;     /* bytes between repetitions: STRIDED, LOOP */
    int64_t unit;       /* bytes of a block, or the word index of the child */
    int64_t table[];    /* see above */
};
#define AMPI_NODE_WORDS ((int64_t)(sizeof(struct ampi_node) / sizeof(int64_t)))

/* An entry of the tables of BLOCKS and STRUCT. */
struct ampi_node_entry {
    int64_t disp;   /* bytes from the node's base */
    int64_t unit;   /* bytes of the block, or the word index of the child */
    int64_t prefix; /* data bytes of the entries before */
};
#define AMPI_NODE_ENTRY_WORDS ((int64_t)(sizeof(struct ampi_node_entry) / sizeof(int64_t)))

struct ampi_typemap {
    int64_t n_words;    /* of the program */
    int64_t root;       /* word index of the outermost node */
    int64_t disp_bytes; /* of the first byte of data */
    int64_t words[];
};

static inline const struct ampi_node *ampi_typemap_node(const struct ampi_typemap *map, int64_t index)
{
    return (const struct ampi_node *)(map->words + index);
}

static inline const struct ampi_node_entry *ampi_node_entries(const struct ampi_node *node)
{
    return (const struct ampi_node_entry *)node->table;
}

/* The entry of a BLOCKS or STRUCT node that holds the data byte with this number. O(log n). */
int64_t ampi_node_find(const struct ampi_node *node, int64_t offset);

/* Flattens the type: sets is_dense, map and nothing else. */
void ampi_typemap_build(struct ampi_type *type);

#endif
