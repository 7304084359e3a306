/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pair.h: small collectives of two members that run on different PEs.
 *
 * In the slot the members write to the same cache lines in turn, so an operation takes several transfers between
 * cores. In a pair each member sends the other one line at arrival, an inbox item with its contribution. It is done when
 * the other's has come. The root of a broadcast or scatter does not even wait, if the other member is known to have arrived at one of
 * the last operations.
 *
 * A member that cannot take part (large data, a type with gaps, GPU memory) arrives in the slot. It refuses the other's
 * item, and the other one goes to the slot, too. If the items show that the operations differ, both continue in the
 * slot, which reports it. So no agreement is needed before the call.
 *
 * States of a slot's part, which has one member:
 *
 *      idle      the member has no operation in the slot; an item that comes is kept (has_early)
 *      waiting   ampi_coll_pair_arrive has sent the item; the other's completes the operation, or leads to the slot
 *      in slot   (is_in_slot) the member has arrived in the slot
 *
 * There is at most one early item per slot: its sender has started operation k, so this member has arrived at k - SLOTS/2
 * or later, and left k - SLOTS. A root that leaves at once keeps this rule with pair_known.
 *
 * Cost: one line each way, which cross each other.
 */
#ifndef AMPI_COLL_PAIR_H
#define AMPI_COLL_PAIR_H

#include "ampi/coll/engine/coll.h"

/* The operation may run in a pair if its data, n_bytes from or to this member, is small. */
static inline void ampi_coll_pair_small(struct ampi_coll_args *args, size_t n_bytes)
{
    args->is_paired = n_bytes > 0 && n_bytes <= AMPI_COLL_PAIR_BYTES;
}

/* The same, if the operation may run in the pair or the other member's item has come. */
bool ampi_coll_pair_try(struct ampi_coll_pe *part, struct ampi_coll_args *args);

/* The part's only member arrives. False: it must arrive in the slot, which writes the part's first line, too. Never
 * switches. */
static inline bool ampi_coll_pair_arrive(struct ampi_coll_pe *part, struct ampi_coll_args *args)
{
    if (args->is_paired || part->has_early)
        return ampi_coll_pair_try(part, args);
    part->paired = args;
    part->is_in_slot = true;
    return false;
}

#endif
