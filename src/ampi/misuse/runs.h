/* SPDX-License-Identifier: BSD-3-Clause
 *
 * runs.h: blocks of memory that have one size and equal distances. The blocks of a column or a face of an array are one run, or a
 * few, where single blocks would be thousands of nodes in a set.
 */
#ifndef AMPI_MISUSE_RUNS_H
#define AMPI_MISUSE_RUNS_H

#include "ampi/misuse/misuse.h"

struct ampi_misuse_run {
    struct ampi_interval interval; /* from the first block to the end of the last one */
    size_t block_bytes;
    size_t stride; /* from block to block, at least block_bytes */
};

static inline struct ampi_misuse_run *ampi_misuse_run_of(const struct ampi_interval *interval)
{
    return (struct ampi_misuse_run *)(uintptr_t)interval; /* its first member */
}

/* Calls visit for each run of data, with the members that are its memory; stops if it returns false. */
void ampi_misuse_each_run(const void *buf, MPI_Count count, const struct ampi_type *type,
                          bool (*visit)(const struct ampi_misuse_run *run, void *arg), void *arg);

/* True if blocks of the two overlap; outputs the first bytes that do. False also if that would take too long to find. */
bool ampi_misuse_runs_overlap(const struct ampi_misuse_run *a, const struct ampi_misuse_run *b,
                              uintptr_t *begin_out, uintptr_t *end_out);

#endif
