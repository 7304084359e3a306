/* SPDX-License-Identifier: BSD-3-Clause
 *
 * runs.h: blocks of memory that have one size and equal distances. The blocks of a column or a face of an array are one run, or a
 * few, where single blocks would be thousands of nodes in a set.
 */
#ifndef AMPI_MISUSE_RUNS_H
#define AMPI_MISUSE_RUNS_H

#include "ampi/datatype/type.h"
#include "ampi/misuse/intervals.h"

struct ampi_misuse_run {
    struct ampi_interval interval; /* from the first block to the end of the last one */
    size_t block_bytes;
    size_t stride;                 /* from block to block, at least block_bytes */
    struct ampi_interval residue;  /* in `of`: begins at the first address modulo the stride */
    struct ampi_misuse_stride *of; /* the set of its stride; NULL: none */
};

/* Runs of several blocks with one stride. */
struct ampi_misuse_stride {
    size_t stride; /* 0: unused */
    struct ampi_intervals by_address, by_residue;
};

#define AMPI_MISUSE_STRIDES 8 /* that have a set; runs with other strides are only found by address */

/* Runs, which may overlap. The caller owns and guards them. The columns of a matrix all have the same addresses from the first
 * to the last block, but not the same residue. */
struct ampi_misuse_memory {
    struct ampi_intervals others; /* single blocks, and runs with further strides */
    struct ampi_misuse_stride strides[AMPI_MISUSE_STRIDES];
    int n; /* runs in all */
};

void ampi_misuse_memory_add(struct ampi_misuse_memory *memory, struct ampi_misuse_run *run);
void ampi_misuse_memory_remove(struct ampi_misuse_memory *memory, struct ampi_misuse_run *run);

/* Calls visit for runs that may overlap this one, some twice, until it returns true; all that do overlap are among them. Returns
 * that run; NULL: none. Takes O(log n) and the visits. */
typedef bool (*ampi_misuse_visit_fn)(const struct ampi_misuse_run *run, void *arg);
struct ampi_misuse_run *ampi_misuse_memory_find(const struct ampi_misuse_memory *memory,
                                                const struct ampi_misuse_run *run, ampi_misuse_visit_fn visit,
                                                void *arg);

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
