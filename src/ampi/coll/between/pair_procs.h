/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pair_procs.h: small collectives of two members in two processes, as engine/pair.h does within a process. An item is a
 * header, which has room for the data: one cache line in a ring between the processes.
 *
 * Barrier, allreduce, allgather, alltoall: if the data is small by arguments that MPI requires to be equal at both members,
 * each sends the other one item at arrival. The operation is done when the other's item has come. A member that cannot
 * take part (a type with gaps, GPU memory) says so in its item, and then both continue in the slot, with an exchange.
 *
 * Broadcast, scatter, gather, reduce have a source and a sink. A source with small data sends it and leaves the operation,
 * unless the sink has not answered earlier ones; other sources are in the slot. A sink waits for what comes, an item, which
 * it answers, or a message of the exchange, with which it continues in the slot. A root of a reduction only waits if the data is
 * small.
 *
 * So each item is consumed by an operation of the other member, or answers one that the sender has left: then
 * this member's communicator stays until the answer has come.
 *
 * A sink owes at most one answer, which is part of its next item; that is the answer to the next operation at the latest. It
 * answers at once if the source waits for it, and in an item of its own if no other item may follow: before it arrives in the
 * slot, and when it has freed the communicator. The only answer to an operation is never sent twice, so that each comes to
 * a communicator that is still there, even if items overtake each other.
 *
 * Operations of a wrong program may be eligible at one member only. A member in the slot answers the other's item, and
 * a message of the exchange takes a waiting member to the slot, which reports it. Items that differ end the job.
 *
 * States of an operation at a member:
 *
 *      early     the other's item has come (ampi_pair_handle)
 *      waiting   the member has arrived (ampi_pair_arrive)
 *      left      it was the source, and is over; the sink has not answered
 *      over, or in the slot
 *
 * At most SLOTS/2 operations of the other member wait (slot.h), and it has left at most AMPI_PAIR_LEFT_MAX more: there is room
 * for their early items.
 *
 * Cost: one message each way; of a series of operations from the same source, one, and an answer to every second.
 */
#ifndef AMPI_COLL_BETWEEN_PAIR_PROCS_H
#define AMPI_COLL_BETWEEN_PAIR_PROCS_H

#include "ampi/coll/engine/slot.h"

struct ampi_am_header;

/* Maximum size of the data: the last fields of the header, from source to cookie. */
#define AMPI_PAIR_BYTES 16
#define AMPI_PAIR_DATA_AT 24

#define AMPI_PAIR_LEFT_MAX 4
#define AMPI_PAIR_EARLY_MAX (AMPI_COLL_SLOTS / 2 + AMPI_PAIR_LEFT_MAX)

/* The description of an item, in the header's tag. */
struct ampi_pair_item {
    uint8_t what;         /* the operation: the plan's flow, and whether it has data */
    uint8_t n_bytes;      /* of the data */
    uint8_t answers;      /* it answers the operation that was this many before, too; 0: none */
    bool root : 1;        /* 0 or 1 */
    bool to_slot : 1;     /* the sender cannot take part; no data */
    bool must_answer : 1; /* the source waits */
};
_Static_assert(sizeof(struct ampi_pair_item) == 4, "it is the header's tag");

/* An item that has come before its operation. */
struct ampi_pair_early {
    uint32_t seq;
    struct ampi_pair_item item;
    unsigned char bytes[AMPI_PAIR_BYTES];
};

/* An operation that this member has left. */
struct ampi_pair_left {
    uint32_t seq;
    struct ampi_pair_item item; /* as sent */
    const struct ampi_coll_plan *plan;
};

/* A communicator's. */
struct ampi_pair {
    struct ampi_coll_args *waiting[AMPI_COLL_SLOTS]; /* by number of the operation; NULL: none */
    int n_early;
    struct ampi_pair_early early[AMPI_PAIR_EARLY_MAX]; /* in any order */
    int n_left;                                     /* the member holds the communicator if there are any */
    struct ampi_pair_left left[AMPI_PAIR_LEFT_MAX]; /* in any order */
    bool is_owed;                                   /* as the sink, an answer to this operation: */
    uint32_t owed;
    struct ampi_pair_item owed_item;
};

/* The only member here arrives at an operation that has started. False: it must arrive in the slot. Never switches. */
bool ampi_pair_arrive(struct ampi_coll_slot *slot, struct ampi_coll_args *args);

/* The member has freed the communicator. */
void ampi_pair_settle(struct ampi_comm *comm);

/* AMPI_AM_PAIR: an item for a communicator has come, which may be destroyed then. */
void ampi_pair_handle(struct ampi_comm_shared *shared, const struct ampi_am_header *am);

/* A message of the exchange of an operation has come, from a communicator with state->is_pair. */
void ampi_pair_note_exchange(struct ampi_coll_state *state, uint32_t seq);

/* The other process has failed: ends the operations that wait. */
void ampi_pair_fail(struct ampi_coll_state *state);

#endif
