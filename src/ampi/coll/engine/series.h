/* SPDX-License-Identifier: BSD-3-Clause
 *
 * series.h: the starts of one persistent collective.
 *
 * The standard orders the initializations of persistent collectives on a communicator, not their starts,
 * and the starts are not ordered against other collectives either (MPI 5.0, section 6.13). So
 * initialization n of each member belongs to initialization n of the others: they are a series, which has
 * its own slots (slot.h), and start k of a member is operation k of the series. Whether the program asserts
 * mpi_assert_strict_persistent_collective_ordering makes no difference.
 *
 * A member starts operation k only when its own operation k - 1 is complete: that is slot.h's rule with two
 * slots.
 *
 * The first member of this process to initialize a series creates it, and the last to free its request
 * frees it; so it exists as long as a member may need it.
 *
 * Between processes a message carries the number of the series and that of the start. Operations of one
 * NCCL communicator have to be queued in the same order by all processes, and starts of different series
 * have no order: so each series has an NCCL communicator of its own. A series takes 576 bytes in each
 * process, 256 per PE with members, and 144 per member.
 */
#ifndef AMPI_COLL_SERIES_H
#define AMPI_COLL_SERIES_H

#include "ampi/coll/engine/slot.h"

#define AMPI_COLL_SERIES_SLOTS 2

struct ampi_coll_series {
    struct ampi_coll_series *next;     /* next in the bucket */
    uint32_t number;                   /* of the initialization on the communicator, from 1 */
    int n_left;                        /* members of this process that have not freed their requests */
    const struct ampi_coll_plan *plan; /* must be equal at all members */
    struct ampi_coll_slots_memory memory;
    struct ampi_coll_nccl *nccl; /* of the leader PE; NULL: no start was worth a vote (coll_nccl.h) */
    struct ampi_coll_slot slots[AMPI_COLL_SERIES_SLOTS];
};

/* Initializes the caller's next persistent collective on the communicator. Ends the job if other members
 * have initialized a different one. Never switches. */
struct ampi_coll_series *ampi_coll_series_join(struct ampi_comm *comm, const struct ampi_coll_plan *plan);

/* Called when the caller frees its request, which is inactive. */
void ampi_coll_series_leave(struct ampi_coll_series *series, const struct ampi_comm *comm);

/* True if this member, which is on this PE, has an operation in the slot. */
bool ampi_coll_series_is_pending(const struct ampi_coll_slot *slot, int member);

/* For reports, while no rank runs: true if the member of this process, whose handle this is, has not made start `seq` of the persistent
 * collective with this number; false if it may have freed its request after that. */
bool ampi_coll_series_lacks(const struct ampi_comm *comm, uint32_t number, uint32_t seq);

/* The same: a malloc'ed array of the series of which a start is pending at a member of this process, and the starts' numbers; ends with
 * number 0. */
struct ampi_coll_start_name {
    uint32_t number, seq;
};
struct ampi_coll_start_name *ampi_coll_series_find_pending(struct ampi_coll_state *state);

/* Calls visit for the slots of each series; meanwhile no series is created or freed. */
void ampi_coll_series_visit(struct ampi_coll_series_table *table,
                            void (*visit)(struct ampi_coll_slot *slots, int n_slots, int arg), int arg);

void ampi_coll_series_table_init(struct ampi_coll_series_table *table);
void ampi_coll_series_table_fini(struct ampi_coll_series_table *table);

#endif
