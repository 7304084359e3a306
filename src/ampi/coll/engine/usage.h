/* SPDX-License-Identifier: BSD-3-Clause
 *
 * usage.h: +check usage: checks that the members of a collective pass matching arguments.
 *
 * The standard makes programs responsible for that, and the check costs time: in allgathers and all-to-alls it
 * compares every pair of members. It detects a blocking and a nonblocking call of one operation, different roots and
 * operations, and blocks whose size or type signature differs between sender and receiver. The report has two ranks
 * with their values and calls, and the job ends.
 *
 * Across processes: arguments of members of one process are compared, and blocks with those received from
 * other processes (sizes, and the type if all elements have one). Forms, roots, predefined operations, sizes and types that must be equal are sent to the
 * communicator's first process (usage_procs.c), and all but the types as a hash in each message: a report based on the
 * hash has only this side's values.
 */
#ifndef AMPI_COLL_USAGE_H
#define AMPI_COLL_USAGE_H

#include "ampi/coll/engine/coll.h"
#include "base/settings.h"

/* Ends messages about different collectives, which cannot say more without +check usage. */
#define AMPI_COLL_USAGE_HINT "; +check usage names the calls and their lines"

/* True if the option is set. */
static inline bool ampi_coll_usage_is_on(void)
{
    return BASE_UNLIKELY(base_settings.check_usage);
}

/* Always: reports two members whose roots differ. a: a member of this process. */
void ampi_coll_usage_check_roots(const struct ampi_coll_args *a, const struct ampi_coll_args *b);

/* Checks the members of this process, all of which have arrived: their roots, operations and contributions
 * to reductions. */
void ampi_coll_usage_check_arrived(const struct ampi_coll_slot *slot);

/* Called when all members have arrived and are in this process (misuse/windows.c). */
extern void (*ampi_coll_usage_met)(const struct ampi_coll_slot *slot);

/* Checks blocks between members of this process, and those received from others. */
void ampi_coll_usage_check_blocks(const struct ampi_coll_slot *slot);

/* For plans' check_blocks: compares a receiver's block and the source's block for it. Ends the job if they
 * differ. */
void ampi_coll_usage_compare(const struct ampi_coll_args *to, struct ampi_coll_block dst,
                             const struct ampi_coll_args *from, struct ampi_coll_block src);

/* Hash of the arguments that must be equal at members of all processes; mixed into x->plan_hash. */
uint32_t ampi_coll_usage_hash(const struct ampi_coll_slot *slot, uint32_t hash);

/* The number of the predefined type of which a datatype consists; 0: several, or not known. */
int ampi_coll_usage_leaf_of(const struct ampi_type *type);

/* That number of all data that must have the same types at all members, for ampi_coll_usage_are_equal;
 * 0: several, or not known. */
int ampi_coll_usage_leaf(const struct ampi_coll_slot *slot);
bool ampi_coll_usage_are_equal(int leaf, int other);

/* The arguments of a request; NULL: it is not a collective on buffers. */
const struct ampi_coll_args *ampi_coll_args_of(const struct ampi_request *request);

/* The number of a persistent collective (series.h); 0: another request. */
uint32_t ampi_coll_number_of(const struct ampi_request *request);

/* Formats the values in the hash, for a report. */
void ampi_coll_usage_describe(const struct ampi_coll_slot *slot, char *text, size_t size_bytes);

/* "; the first in MPI_Bcast, called at main (a.c:12); the other in ..." of members in their calls. Empty without
 * the option. */
void ampi_coll_usage_describe_calls(const struct ampi_coll_args *a, const struct ampi_coll_args *b,
                                    char *text, size_t size_bytes);

#endif
