/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stats_matrix.h: the communication matrix of +stats: what each rank sent to each other one, as a picture and in JSON.
 *
 * Both axes have at most AMPI_STATS_BINS_MAX bins of ranks of the job's start, so the matrix of many ranks stays small.
 */
#ifndef AMPI_TOOL_STATS_MATRIX_H
#define AMPI_TOOL_STATS_MATRIX_H

#include <stdio.h>

#include "ampi/object/rank.h"

#define AMPI_STATS_BINS_MAX 256

/* Messages of one rank, or of a bin of ranks, to a bin. */
struct ampi_stats_cell {
    int64_t n;
    int64_t n_bytes;
};

static inline int ampi_stats_n_bins(void)
{
    return ampi_job.n_ranks < AMPI_STATS_BINS_MAX ? ampi_job.n_ranks : AMPI_STATS_BINS_MAX;
}

static inline int ampi_stats_bin_of(int world_rank)
{
    return (int)((int64_t)world_rank * ampi_stats_n_bins() / ampi_job.n_ranks);
}

/* "sent_to": {"1": [messages, bytes], ...}, and a comma, if each rank is a bin; else nothing. row: of one rank. */
void ampi_stats_print_row(FILE *out, const struct ampi_stats_cell *row);

/* The matrix as SVG, darker where there were more bytes. */
void ampi_stats_print_matrix(FILE *out, const struct ampi_stats_cell *matrix);

#endif
