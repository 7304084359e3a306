/* SPDX-License-Identifier: BSD-3-Clause
 *
 * intervals.h: a set of intervals of addresses, which may overlap: a treap by begin, each node with the highest end below it.
 *
 * Adding, removing and finding an overlap takes O(log n). The caller owns the nodes and guards the set.
 */
#ifndef AMPI_INTERVALS_H
#define AMPI_INTERVALS_H

#include "base/base.h"

struct ampi_interval {
    uintptr_t begin, end; /* not empty */
    uintptr_t high;       /* the highest end among this node and those below it */
    uint32_t priority;    /* random; the parent's is higher */
    struct ampi_interval *left, *right;
    struct ampi_interval *with; /* the owner's: the next one of the same operation */
    void *owner;                /* the owner's */
};

struct ampi_intervals {
    struct ampi_interval *root;
    uint32_t random; /* state of the generator */
};

void ampi_intervals_add(struct ampi_intervals *set, struct ampi_interval *interval);
void ampi_intervals_remove(struct ampi_intervals *set, struct ampi_interval *interval);

/* Calls visit for intervals that overlap [begin, end) until it returns true, for n_max at most. Returns that interval; NULL:
 * none. */
typedef bool (*ampi_intervals_visit_fn)(const struct ampi_interval *interval, const void *arg);
struct ampi_interval *ampi_intervals_find(const struct ampi_intervals *set, uintptr_t begin, uintptr_t end,
                                          ampi_intervals_visit_fn visit, const void *arg, int n_max);

#endif
