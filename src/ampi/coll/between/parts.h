/* SPDX-License-Identifier: BSD-3-Clause
 *
 * parts.h: parts, the data of one process's members for another process, or for all. A part begins with a
 * head, which lists the items of each member (engine/items.h); the data follows. The leader PE packs heads;
 * all PEs pack the data of large parts when the exchange starts. For between.c, on the leader PE.
 *
 * A listed part has the addresses of its items instead of their data. The receiving process copies the data
 * from this one's memory.
 */
#ifndef AMPI_COLL_PARTS_H
#define AMPI_COLL_PARTS_H

#include "ampi/coll/between/exchange.h"
#include "ampi/coll/engine/items.h"

/* A new array of parts by participant, all empty. */
struct ampi_exchange_block *ampi_parts_new(struct ampi_exchange *x);

/* The process for which a part is packed that all participants get. */
static inline int ampi_part_other(const struct ampi_exchange *x)
{
    return x->proc[ampi_exchange_after(x, 1)];
}

/* The sizes of a part for a process (its index), without packing it. */
struct ampi_coll_packer ampi_part_measure(const struct ampi_exchange *x, int proc);

/* Makes that part, after the algorithm was chosen. proposed: the context id that this process proposes. */
struct ampi_exchange_block ampi_part_make(struct ampi_exchange *x, int proc, uint64_t proposed);

/* The same, but always with the data. */
struct ampi_exchange_block ampi_part_make_packed(struct ampi_exchange *x, int proc);

/* Makes x->out for all participants that get one. */
void ampi_parts_make_for_each(struct ampi_exchange *x);

/* The place in a member's buffer for a bare part of n_bytes from a member of another process; NULL: it has
 * to be received elsewhere, because it has no place or does not fit as it is. The share stage does not move
 * bytes that are in their place. */
unsigned char *ampi_part_place(const struct ampi_exchange *x, int source, size_t n_bytes);

/* Iterates over the items of a listed part that has come from a process (its index). */
struct ampi_part_items {
    const struct ampi_coll_remote *remote;
    int next;      /* the member behind the current one, in the order of the processes */
    int n_members; /* behind the current one */
    int n_items;   /* of the current member, behind the current one */
    const unsigned char *at;
    const uint64_t *addresses;
    int member; /* the current item: the member that it is from */
    const struct ampi_coll_item *item;
    uint64_t address; /* of its data */
};
struct ampi_part_items ampi_part_items_of(const struct ampi_exchange *x, int proc,
                                          const struct ampi_exchange_block *part);
bool ampi_part_next_item(struct ampi_part_items *items);

/* The place of such an item, as ampi_part_place. */
unsigned char *ampi_part_place_of_item(const struct ampi_exchange *x, int source,
                                       const struct ampi_coll_item *item);

/* A part from a process (its index) has arrived: creates stand-ins for its members. */
void ampi_part_stand_in(struct ampi_exchange *x, int proc, const struct ampi_exchange_block *part);

#endif
