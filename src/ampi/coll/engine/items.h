/* SPDX-License-Identifier: BSD-3-Clause
 *
 * items.h: what other processes need of a member, as a list of items: plans pack it, and make a stand-in of
 * it at the other side. How it gets there is the matter of coll/between.
 */
#ifndef AMPI_COLL_ITEMS_H
#define AMPI_COLL_ITEMS_H

#include "ampi/coll/engine/between_ops.h"
#include "ampi/coll/engine/coll.h"

/* Where items are packed to. A part begins with what is in it, which the CPU reads; then comes the data of
 * all items, which may be a GPU's, each padded so that it is aligned. */
struct ampi_coll_packer {
    unsigned char *at; /* NULL: sizes are only added up */
    size_t n_bytes;
    unsigned char *data;
    size_t data_bytes;
    int proc;                    /* index of the process that it is for */
    int n_items;                 /* of the current member */
    struct ampi_coll_args *args; /* of the current member */
};

/* An item of a member's part. */
struct ampi_coll_item {
    uint64_t n_bytes;
    uint64_t index; /* which of the member's blocks it is */
};

/* A member's items, as they came. */
struct ampi_coll_unpacker {
    const unsigned char *at;   /* the first item */
    const unsigned char *data; /* its data */
    int n_items;
    void *(*alloc)(void *memory, size_t n_bytes); /* memory for stand-ins' arrays, not cleared */
    void *memory;                                 /* ... its first argument */
};

/* Adds a block of a member's, packed; one that is a GPU's is there when the stage ends. */
void ampi_coll_put(struct ampi_coll_packer *out, uint64_t index, struct ampi_coll_block block);
/* Adds bytes. */
void ampi_coll_put_bytes(struct ampi_coll_packer *out, uint64_t index, const void *bytes, size_t n_bytes);

/* The next item's data. */
const void *ampi_coll_get(struct ampi_coll_unpacker *in, size_t *n_bytes_out, uint64_t *index_out);

/* Memory that lives as long as the stand-ins, cleared. */
void *ampi_coll_stand_in_alloc(struct ampi_coll_unpacker *in, size_t n_bytes);

/* Ready-made: one item, which is all of the member's data. */
void ampi_coll_unpack_whole(struct ampi_coll_args *args, struct ampi_coll_unpacker *in);

/* Ready-made: items are blocks by index, and become the stand-in's send buffer. */
void ampi_coll_unpack_blocks(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                             struct ampi_coll_unpacker *in);

/* Ready-made for reductions: the input, whose type the stand-in has in common with slot->last. */
void ampi_coll_put_input(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                         struct ampi_coll_packer *out);
void ampi_coll_unpack_input(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                            struct ampi_coll_unpacker *in);

/* The members of the peer side of args that live in a process (its index), and the i-th of them by its rank;
 * -1: that one is of the other side. */
static inline int ampi_coll_n_peers_in(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                                       int proc)
{
    (void)args;
    return ampi_coll_between->n_members_in(slot->state->remote, proc);
}

int ampi_coll_peer_in(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args, int proc, int i);

#endif
