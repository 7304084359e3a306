/* SPDX-License-Identifier: BSD-3-Clause
 *
 * two_phase.h: collective reads and writes. The ranks of a process merge their pieces without messages into few large
 * transfers, which several threads make; aggregators of several processes exchange data first if that is worth it.
 */
#ifndef AMPI_IO_TWO_PHASE_H
#define AMPI_IO_TWO_PHASE_H

#include "ampi/comm/comm.h"
#include "ampi/io/disk.h"

/* Common state of the ranks of this process that opened a file together: one per open file and process. */
struct ampi_two_phase;

/* Creates it, for the file's own communicator (which nothing else uses for collectives in parallel). Called once per process.
 * NULL: out of memory. Never switches. */
struct ampi_two_phase *ampi_two_phase_create(struct ampi_comm_shared *shared);

/* Frees it; no operation is in progress. */
void ampi_two_phase_destroy(struct ampi_two_phase *shared);

/* Starts a rank's part of a collective operation. All ranks of the communicator start the same operations in the same order;
 * several may be in progress. comm: the calling rank's handle of the file's communicator. A rank without data, or whose
 * arguments are wrong, passes n_pieces 0 (and may set op->error, which does not disturb the others). The op is as in
 * ampi_disk_start: done and error concern this rank's pieces; an error of another rank's pieces is not reported here, except
 * that of a failed process (ECONNABORTED). op->fd: the same file at all ranks, any descriptor of it. op->hints: those of collective
 * buffering are equal at all ranks. In a call of the rank. Never switches. */
void ampi_two_phase_start(struct ampi_two_phase *shared, struct ampi_comm *comm, struct ampi_disk_op *op);

/* For reports of deadlocks: finds the oldest operation of a rank of this process that waits for others of them. False: none. */
bool ampi_two_phase_find_waiting(struct ampi_two_phase *shared, int rank, uint32_t *number_out);

/* The same: a rank of this process has started the operation with this number. */
bool ampi_two_phase_has_started(const struct ampi_two_phase *shared, int rank, uint32_t number);

/* The same as ampi_two_phase_start, and waits. May switch. */
void ampi_two_phase_run(struct ampi_two_phase *shared, struct ampi_comm *comm, struct ampi_disk_op *op);

#endif
