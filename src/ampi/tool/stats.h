/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stats.h: +stats: sums of each rank's events (object/event.h), as a table or as JSON.
 */
#ifndef AMPI_TOOL_STATS_H
#define AMPI_TOOL_STATS_H

#include "ampi/object/event.h"

struct ampi_stats;

/* At the start of MPI, on the rank: from now on its events are summed up, if +stats is set. */
void ampi_stats_begin(struct ampi_rank *self);

/* An event of the rank. */
void ampi_stats_take(struct ampi_stats *stats, const struct ampi_rank *rank, enum ampi_event_kind kind,
                     const struct ampi_comm *comm, const int64_t *values) BASE_COLD;

/* In MPI_Finalize: rank 0 collects the sums of its MPI_COMM_WORLD and prints them. May switch. */
void ampi_stats_end(struct ampi_rank *self);

/* A session has ended: prints a message if the rank has not called MPI_Init, because then nothing is summed up for
 * it. */
void ampi_stats_end_session(const struct ampi_rank *self);

#endif
