/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pair_procs.h: small collectives of two members in two processes, as engine/pair.h does within a process.
 *
 * An operation is eligible if its data is small by arguments that MPI requires to be equal at both members. Then each
 * member sends the other one item at arrival: a header, which has room for the data, one cache line in a ring between
 * processes. The operation is done when the other's item has come. A member that cannot take part (a type with gaps, GPU
 * memory) says so in its item, and then both continue in the slot, with an exchange. So each member gets an item of each
 * eligible operation before it completes it, and none comes later: the communicator may be freed.
 *
 * Operations of a wrong program may be eligible at one member only. A member in the slot answers the other's item, and
 * a message of the exchange takes a waiting member to the slot, which reports it.
 *
 * States of an operation at a member:
 *
 *      early     (has_early) the other's item has come (ampi_pair_handle)
 *      waiting   (waiting) it has arrived and sent its item (ampi_pair_arrive)
 *      over, or in the slot
 *
 * At most SLOTS/2 operations of the other member, with consecutive numbers, wait for this one's items (slot.h). So no two early
 * items have the same place.
 *
 * Cost: one message each way, which cross each other.
 */
#ifndef AMPI_COLL_BETWEEN_PAIR_PROCS_H
#define AMPI_COLL_BETWEEN_PAIR_PROCS_H

#include "ampi/coll/engine/slot.h"

struct ampi_am_header;

/* Maximum size of the data: the last fields of the header, from source to cookie. */
#define AMPI_PAIR_BYTES 16
#define AMPI_PAIR_DATA_AT 24

/* The description of an item, in the header's tag. */
struct ampi_pair_item {
    uint8_t what;    /* the operation: the plan's flow, and whether it has data */
    uint8_t root;    /* 0 or 1 */
    uint8_t n_bytes; /* of the data */
    bool to_slot;    /* the sender cannot take part; no data */
};
_Static_assert(sizeof(struct ampi_pair_item) == 4, "it is the header's tag");

/* An operation at a member; by its number modulo AMPI_COLL_SLOTS. */
struct ampi_pair_op {
    struct ampi_coll_args *waiting; /* NULL: no operation waits */
    bool has_early;
    struct ampi_pair_item early; /* if has_early: the other member's item */
    uint32_t early_seq;          /* ... its number */
    unsigned char early_bytes[AMPI_PAIR_BYTES];
};

/* The only member here arrives at an operation that has started. False: it must arrive in the slot. Never switches. */
bool ampi_pair_arrive(struct ampi_coll_slot *slot, struct ampi_coll_args *args);

/* AMPI_AM_PAIR: an item for a communicator has come. */
void ampi_pair_handle(struct ampi_comm_shared *shared, const struct ampi_am_header *am);

/* A message of the exchange of an operation has come, from a communicator with state->is_pair. */
void ampi_pair_note_exchange(struct ampi_coll_state *state, uint32_t seq);

/* The other process has failed: ends the operations that wait. */
void ampi_pair_fail(struct ampi_coll_state *state);

#endif
