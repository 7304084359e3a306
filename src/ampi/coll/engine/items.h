/* SPDX-License-Identifier: BSD-3-Clause
 *
 * items.h: the data of a member for other processes, as a list of items. The plan of one side packs it,
 * coll/between transfers it, and the plan of the other side makes a stand-in from it.
 */
#ifndef AMPI_COLL_ITEMS_H
#define AMPI_COLL_ITEMS_H

#include "ampi/coll/engine/between_ops.h"
#include "ampi/coll/engine/coll.h"

/* The destination of packed items. A part begins with its contents list, which the CPU reads, followed by
 * the data of all items, which may be in GPU memory; each item is padded for alignment. */
struct ampi_coll_packer {
    unsigned char *at; /* NULL: only sizes are added up */
    size_t n_bytes;
    unsigned char *data; /* NULL: likewise */
    size_t data_bytes;
    uint64_t *addresses;         /* in place of data: the items' addresses, in order; NULL: none */
    int n_all;                   /* items so far */
    bool is_scattered;           /* an item is not consecutive host memory of its member */
    int share;                   /* the part (PE) that packs its share of the data */
    int n_shares;                /* the number of shares; 0: one part packs everything */
    int proc;                    /* index of the process that it is for */
    int n_items;                 /* of the current member */
    struct ampi_coll_block last; /* the last item put that was a block */
    struct ampi_coll_args *args; /* of the current member */
};

/* An item of a member's part. */
struct ampi_coll_item {
    uint64_t n_bytes;
    uint32_t index; /* index of the member's block */
    uint32_t leaf;  /* of a block, with +check usage: ampi_coll_usage_leaf_of its type; otherwise 0 */
};

/* A member's items, as received. */
struct ampi_coll_unpacker {
    const unsigned char *at;   /* the first item */
    const unsigned char *data; /* its data */
    const uint64_t *addresses; /* addresses of the data of this and later items; NULL: `data` has the bytes */
    int n_items;
    void *(*alloc)(void *memory, size_t n_bytes); /* allocates stand-ins' arrays, not cleared */
    void *memory;                                 /* ... the argument `memory` */
};

/* Adds a member's block, packed. A block in GPU memory is copied by the end of the stage. */
void ampi_coll_put(struct ampi_coll_packer *out, uint64_t index, struct ampi_coll_block block);
/* Adds bytes. */
void ampi_coll_put_bytes(struct ampi_coll_packer *out, uint64_t index, const void *bytes, size_t n_bytes);

/* The next item's data. */
const void *ampi_coll_get(struct ampi_coll_unpacker *in, size_t *n_bytes_out, uint64_t *index_out);

/* That item as a block: with +check usage it has the type of the member's data, if that is known, and MPI_BYTE otherwise. */
struct ampi_coll_block ampi_coll_get_block(struct ampi_coll_unpacker *in, uint64_t *index_out);

/* Zeroed memory that lives as long as the stand-ins. */
void *ampi_coll_stand_in_alloc(struct ampi_coll_unpacker *in, size_t n_bytes);

/* An unpack function: one item is all of the member's data. */
void ampi_coll_unpack_whole(struct ampi_coll_args *args, struct ampi_coll_unpacker *in);

/* An unpack function: items are blocks by index, and become the stand-in's send buffer. */
void ampi_coll_unpack_blocks(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                             struct ampi_coll_unpacker *in);

/* A pack and an unpack function for reductions: the item is the input, whose type is that of slot->last. */
void ampi_coll_put_input(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                         struct ampi_coll_packer *out);
void ampi_coll_unpack_input(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                            struct ampi_coll_unpacker *in);

/* By index of a process: its number of members of the peer side of args, and the i-th of them by rank (-1:
 * that member is of the other side). */
static inline int ampi_coll_n_peers_in(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                                       int proc)
{
    (void)args;
    return ampi_coll_between->n_members_in(slot->state->remote, proc);
}

int ampi_coll_peer_in(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args, int proc, int i);

#endif
