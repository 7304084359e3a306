/* SPDX-License-Identifier: BSD-3-Clause
 *
 * contexts.h: communicators by context id.
 *
 * A communicator across processes has the same id in all of them, which is never reused: the process of the
 * first member counts them. Other communicators have small numbers, known only in their process.
 *
 *      bit 63      the hidden communicator of the one without this bit
 *      bit 62      set
 *      48..61      the process that assigned the number
 *      47          the communicator between the streams of the one without this bit
 *      20..46      its count of creations
 *       0..19      index among the communicators of one creation (colors)
 */
#ifndef AMPI_CONTEXTS_H
#define AMPI_CONTEXTS_H

#include "base/base.h"

struct ampi_comm_shared;

#define AMPI_CONTEXT_HIDDEN ((uint64_t)1 << 63)
#define AMPI_CONTEXT_BY_STREAM ((uint64_t)1 << 47)
#define AMPI_CONTEXT_ANY_HIDDEN (AMPI_CONTEXT_HIDDEN | AMPI_CONTEXT_BY_STREAM)
#define AMPI_CONTEXT_CROSS ((uint64_t)1 << 62)
#define AMPI_CONTEXT_WORLD AMPI_CONTEXT_CROSS

/* A new number of this process. */
uint64_t ampi_contexts_propose(void);

void ampi_contexts_add(struct ampi_comm_shared *shared);
void ampi_contexts_remove(struct ampi_comm_shared *shared);

/* Removes a communicator that is not in the table any more, and its hidden ones, from a PE's cache. */
void ampi_contexts_forget(int pe_id, uint64_t context_id);

/* The communicator with this id; NULL: none (yet). */
struct ampi_comm_shared *ampi_contexts_find(int pe_id, uint64_t context_id);

/* The communicator with this id, or else the result of make, which has added it: the first of several
 * members to call creates it. */
struct ampi_comm_shared *ampi_contexts_find_or_make(uint64_t context_id,
                                                    struct ampi_comm_shared *(*make)(void *), void *arg);

/* For reports: true if this process had members in a communicator, all have freed it, and none of them has started the collective with
 * this number. Known for the last few that were freed. */
bool ampi_contexts_are_behind(uint64_t context_id, uint32_t coll_seq);

/* Changes when a communicator is added, or by ampi_contexts_changed: then messages that wait for one are looked up again. */
uint32_t ampi_contexts_generation(void);
void ampi_contexts_changed(void);

/* Calls fn for each communicator in the table, which stays alive meanwhile. */
void ampi_contexts_each(void (*fn)(struct ampi_comm_shared *shared, void *arg), void *arg);

#endif
