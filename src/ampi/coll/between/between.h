/* SPDX-License-Identifier: BSD-3-Clause
 *
 * between.h: collectives on communicators with members in several processes.
 *
 * There is a further stage between arrival and the middle stage (slot.h): an exchange between processes
 * (exchange.h). It runs on the leader PE of each process, which is that of its first member. The plan's flow
 * determines its content:
 *
 *      reductions  the process's members combine their contributions, the processes combine the resulting
 *                  vectors, and the middle stage distributes the result (reduction.h)
 *      others      the process packs its members' data for other processes into parts, which the exchange
 *                  transfers. The receiving process creates stand-ins for members in other processes
 *                  (arguments whose buffers are the received data), and the plan's middle stage runs as in
 *                  one process. It writes only to members of its own process.
 *
 * The plan's flow and the root determine which processes exchange data, and each of them knows both.
 */
#ifndef AMPI_COLL_BETWEEN_BETWEEN_H
#define AMPI_COLL_BETWEEN_BETWEEN_H

#include "ampi/coll/between/exchange.h"
#include "ampi/coll/engine/items.h"

/* ---- The functions behind ampi_coll_between (described in engine/between_ops.h) ---- */

struct ampi_coll_remote *ampi_coll_remote_create(struct ampi_coll_state *state);
void ampi_coll_remote_destroy(struct ampi_coll_remote *remote);
void ampi_coll_between_slots_init(struct ampi_coll_slot *slots, int n_slots);
void ampi_coll_between_slots_fini(struct ampi_coll_slot *slots);
void ampi_coll_remote_arrived(struct ampi_coll_slot *slot);
void ampi_coll_remote_release(struct ampi_coll_slot *slot);
void ampi_coll_between_handle_failure(struct ampi_coll_state *state, int pe_id);

/* ---- Messages from other processes (between_connect.c) ---- */

void ampi_coll_between_handle(const struct ampi_am_header *am, void *bytes, size_t n_bytes);

/* Handles a message whose large data is still at the sender and may be fetched to a GPU. False: the data
 * must be fetched now. */
bool ampi_coll_between_handle_away(const struct ampi_am_header *am, const struct machine_data *data);

/* Retries messages to communicators that this process has not created yet. */
int ampi_coll_between_retry(int pe_id);
bool ampi_coll_between_must_retry(int pe_id);

/* Registers this room's functions with lower rooms and the engine (job/connect.c). */
void ampi_coll_between_connect(void);

/* An operation between processes begins: makes the communicator's first process compare this process's
 * arguments with the others'. On the leader PE. (usage_procs.c) */
void ampi_coll_usage_announce(const struct ampi_exchange *x);

/* AMPI_AM_USAGE (usage_procs.c). */
void ampi_coll_usage_handle(const struct ampi_am_header *am, void *bytes, size_t n_bytes);

#endif
