/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ranges.h: sets of bytes of the address space, and buffers as rows of bytes. No knowledge of MPI.
 *
 * Invariant of a set: its ranges are sorted, not empty, and neither overlap nor touch.
 */
#ifndef AMPI_WORK_RANGES_H
#define AMPI_WORK_RANGES_H

#include "base/base.h"

struct ampi_range {
    uintptr_t from;
    uintptr_t to; /* one past its end */
};

struct ampi_ranges {
    struct ampi_range *list;
    int n;
    int capacity;
};

/* Adds or removes [from, to). O(log n), and a move of the later ranges. */
void ampi_ranges_add(struct ampi_ranges *set, uintptr_t from, uintptr_t to);
void ampi_ranges_remove(struct ampi_ranges *set, uintptr_t from, uintptr_t to);

/* True if the set has a byte, or all bytes, of [from, to). */
bool ampi_ranges_overlap(const struct ampi_ranges *set, uintptr_t from, uintptr_t to);
bool ampi_ranges_contain(const struct ampi_ranges *set, uintptr_t from, uintptr_t to);

/* The index of the first range that ends above the address. */
int ampi_ranges_find(const struct ampi_ranges *set, uintptr_t at);

/* The first part of [from, to) that is in the set, or that is missing there. False: there is none. */
bool ampi_ranges_first(const struct ampi_ranges *set, uintptr_t from, uintptr_t to,
                       struct ampi_range *part_out);
bool ampi_ranges_first_gap(const struct ampi_ranges *set, uintptr_t from, uintptr_t to,
                           struct ampi_range *gap_out);

static inline void ampi_ranges_clear(struct ampi_ranges *set)
{
    set->n = 0;
}

void ampi_ranges_free(struct ampi_ranges *set);

/* ---- Rows ---- */

/* Rows of equal size at equal distances; n >= 1, row_bytes >= 1, stride >= row_bytes. */
struct ampi_rows {
    uintptr_t from;
    size_t row_bytes;
    size_t n;
    size_t stride;
};

static inline uintptr_t ampi_rows_end(const struct ampi_rows *rows)
{
    return rows->from + (rows->n - 1) * rows->stride + rows->row_bytes;
}

static inline struct ampi_range ampi_rows_get(const struct ampi_rows *rows, size_t row)
{
    uintptr_t from = rows->from + row * rows->stride;

    return (struct ampi_range){from, from + rows->row_bytes};
}

/* True if both have a byte in common. */
bool ampi_rows_overlap(const struct ampi_rows *a, const struct ampi_rows *b);

void ampi_ranges_add_rows(struct ampi_ranges *set, const struct ampi_rows *rows);
void ampi_ranges_remove_rows(struct ampi_ranges *set, const struct ampi_rows *rows);
size_t ampi_ranges_count_rows(const struct ampi_ranges *set,
                              const struct ampi_rows *rows); /* bytes in both */
bool ampi_ranges_overlap_rows(const struct ampi_ranges *set, const struct ampi_rows *rows);

#endif
