/* SPDX-License-Identifier: BSD-3-Clause
 *
 * usage.h: +check usage: do the members of a collective give it arguments that agree?
 *
 * The standard makes programs responsible for that, and looking costs time: a look at every pair of members
 * in allgathers and all-to-alls. Found are other roots, other operations, and blocks whose size or basic type
 * is not the same where they are sent and where they are received. A report names two ranks and what each
 * gives, and the job ends.
 *
 * Between processes: what members of one process give is compared, and blocks with those that came from
 * other processes (sizes only). Roots, predefined operations and the sizes that all have to give alike are
 * told to the communicator's first process (usage_procs.c), and travel as a hash in each message: there a
 * report names this side's values only.
 */
#ifndef AMPI_COLL_USAGE_H
#define AMPI_COLL_USAGE_H

#include "ampi/coll/engine/coll.h"
#include "ampi/object/settings.h"

/* Is it asked for? */
static inline bool ampi_coll_usage_is_on(void)
{
    return BASE_UNLIKELY(ampi_options.check_usage);
}

/* The members of this process have arrived: their roots, operations and contributions to reductions. */
void ampi_coll_usage_check_arrived(const struct ampi_coll_slot *slot);

/* Blocks: between the members of this process, and what came from others. */
void ampi_coll_usage_check_blocks(const struct ampi_coll_slot *slot);

/* For plans' check_blocks: a receiver's block and what a source has for it. Ends the job if they differ. */
void ampi_coll_usage_compare(const struct ampi_coll_args *to, struct ampi_coll_block dst,
                             const struct ampi_coll_args *from, struct ampi_coll_block src);

/* Of what members of all processes have to give alike; mixed into x->plan_hash. */
uint32_t ampi_coll_usage_hash(const struct ampi_coll_slot *slot, uint32_t hash);

/* The values that are in it, for a report. */
void ampi_coll_usage_describe(const struct ampi_coll_slot *slot, char *text, size_t size_bytes);

#endif
