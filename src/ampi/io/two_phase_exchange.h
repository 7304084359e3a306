/* SPDX-License-Identifier: BSD-3-Clause
 *
 * two_phase_exchange.h: collective accesses in which processes exchange data, so that few of them (aggregators) read and
 * write large parts of the file.
 */
#ifndef AMPI_IO_TWO_PHASE_EXCHANGE_H
#define AMPI_IO_TWO_PHASE_EXCHANGE_H

#include "ampi/comm/comm.h"
#include "ampi/io/two_phase_merge.h"

/* The processes of a communicator; by process: its lowest rank, which sends and receives for it. */
struct ampi_two_phase_procs {
    int n;
    int own;
    int leaders[];
};

/* Finds them. NULL: all members are in this process. */
struct ampi_two_phase_procs *ampi_two_phase_find_procs(const struct ampi_comm_shared *comm);

/* Transfers the pieces of all processes' merges with this number, and calls merge->done on the leader's PE. The merge's
 * results are set, and its window_bytes are those of an aggregator's transfers. hints: equal at all processes; must stay valid
 * until then. Any PE. */
void ampi_two_phase_exchange(const struct ampi_two_phase_procs *procs, struct ampi_comm_shared *comm,
                             uint32_t number, const struct ampi_disk_hints *hints, struct ampi_merge *merge);

#endif
