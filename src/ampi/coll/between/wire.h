/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wire.h: collectives of communicators with members in several processes.
 *
 * Between arrival and the middle stage (slot.h) comes one more, on the leader PE of each process (that of its
 * first member): an exchange between processes (exchange.h). What is exchanged follows from the plan's flow:
 *
 *      reductions  the process's members combine their contributions, the processes combine the resulting
 *                  vectors, and the middle stage hands the result out (reduction.h)
 *      the others  the process packs what others need of its members into parts, which the exchange takes to
 *                  where they are needed; there stand-ins for the members elsewhere are set up (arguments
 *                  whose buffers are the data that came), and the plan's middle stage runs as in one process.
 *                  It writes to this process's members alone.
 *
 * Which processes need something of which follows from the plan's flow and the root, and each of them knows
 * it.
 */
#ifndef AMPI_COLL_WIRE_H
#define AMPI_COLL_WIRE_H

#include "ampi/coll/between/exchange.h"
#include "ampi/coll/engine/items.h"

/* ---- The functions behind ampi_coll_between (engine/between_ops.h has their meaning) ---- */

struct ampi_coll_remote *ampi_coll_remote_create(struct ampi_coll_state *state);
void ampi_coll_remote_destroy(struct ampi_coll_remote *remote);
void ampi_coll_wire_slots_init(struct ampi_coll_slot *slots, int n_slots);
void ampi_coll_wire_slots_fini(struct ampi_coll_slot *slots);
void ampi_coll_remote_arrived(struct ampi_coll_slot *slot);
void ampi_coll_remote_release(struct ampi_coll_slot *slot);
void ampi_coll_wire_lose(struct ampi_coll_state *state, int pe_id);

/* ---- Messages from other processes (between_connect.c) ---- */

void ampi_coll_wire_handle(const struct ampi_wire *wire, void *bytes, size_t n_bytes);

/* Large data that is away, where it may be fetched to a GPU; false: it has to be fetched now. */
bool ampi_coll_wire_handle_away(const struct ampi_wire *wire, const struct machine_data *data);

/* Messages to communicators that this process has not made yet: tries again. */
int ampi_coll_wire_retry(int pe_id);
bool ampi_coll_wire_must_retry(int pe_id);

/* Gives the rooms below, and the engine, what they need of this one (job/connect.c). */
void ampi_coll_between_connect(void);

/* An operation between processes begins: has the communicator's first process compare what this one does with
 * the others. On the leader PE. (usage_procs.c) */
void ampi_coll_usage_announce(const struct ampi_exchange *x);

/* AMPI_WIRE_USAGE (usage_procs.c). */
void ampi_coll_usage_handle(const struct ampi_wire *wire, void *bytes, size_t n_bytes);

#endif
