/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cycle.c: finds ranks that wait for each other in a circle. See report.h.
 *
 * A rank waits for one other at most, so a walk along the waits ends, or comes to a rank where it has been. Each rank is visited
 * once: a walk also ends at a rank of an earlier one.
 */
#include <stdlib.h>

#include "ampi/job/report.h"
#include "base/log.h"

/* Maximum number of ranks of a cycle that are printed. */
#define CYCLE_MAX 10

static int compare(const void *a, const void *b)
{
    const struct ampi_wait *first = a, *second = b;

    return (first->rank > second->rank) - (first->rank < second->rank);
}

/* The next rank of a walk; NULL: it waits for none, or nothing is known about it. */
static const struct ampi_wait *next_of(const struct ampi_wait *waits, size_t n, const struct ampi_wait *wait)
{
    struct ampi_wait key = {.rank = wait->for_rank};

    return bsearch(&key, waits, n, sizeof *waits, compare);
}

/* "rank 3 (spawn 1)". */
static void add_rank(struct base_text *text, const struct ampi_wait *wait)
{
    base_text_add(text, "rank ");
    base_text_add_number(text, wait->number);
    if (wait->spawn == 0)
        return;
    base_text_add(text, " (spawn ");
    base_text_add_number(text, wait->spawn);
    base_text_add(text, ")");
}

static void print(const struct ampi_wait *waits, size_t n, const struct ampi_wait *first, size_t length)
{
    const struct ampi_wait *wait = first;
    char bytes[1000];
    struct base_text text = base_text_in(bytes, sizeof bytes);

    add_rank(&text, first);
    for (size_t i = 0; i < length; i++) {
        wait = next_of(waits, n, wait);
        if (i >= CYCLE_MAX && wait != first)
            continue;
        base_text_add(&text, length == 1      ? " waits for itself"
                             : i == 0         ? " waits for "
                             : i <= CYCLE_MAX ? ", which waits for "
                                              : ", ..., for ");
        if (length > 1)
            add_rank(&text, wait);
    }
    if (length == 1)
        base_log("%s", bytes);
    else
        base_log("cycle of %zu ranks: %s", length, bytes);
}

void ampi_report_cycle(void *waits, size_t n_bytes)
{
    const struct ampi_wait *all = waits, *shortest = NULL;
    size_t n = n_bytes / sizeof *all, length = 0;
    size_t *seen = base_calloc(n + 1, sizeof *seen, "a report"); /* number of the step, over all walks */
    size_t step = 0;

    if (n > 0)
        qsort(waits, n, sizeof *all, compare);
    for (size_t i = 0; i < n; i++) {
        const struct ampi_wait *wait = &all[i];
        size_t first_step = step + 1;
        for (; wait && !seen[wait - all]; wait = next_of(all, n, wait))
            seen[wait - all] = ++step;
        if (wait && seen[wait - all] >= first_step && (!shortest || step + 1 - seen[wait - all] < length)) {
            shortest = wait;
            length = step + 1 - seen[wait - all];
        }
    }
    if (shortest)
        print(all, n, shortest, length);
    free(seen);
}
