/* SPDX-License-Identifier: BSD-3-Clause
 *
 * runs.c: see runs.h.
 */
#include "ampi/misuse/runs.h"

/* Blocks of a run that are compared with another one. */
#define LOOKS_MAX 4096

/* ---- The runs of data ---- */

struct collector {
    struct ampi_misuse_run run;     /* so far; end 0: none */
    struct ampi_misuse_run columns; /* finished runs before it, which lie side by side; end 0: none */
    bool (*visit)(const struct ampi_misuse_run *run, void *arg);
    void *arg;
    bool is_over;
};

/* From the first block to the last one. */
static size_t reach_of(const struct ampi_misuse_run *run)
{
    return run->interval.end - run->block_bytes - run->interval.begin;
}

/* Adds a run whose blocks begin where those of the other one end, or the reverse; false: they do not, or overlap. */
static bool widen(struct ampi_misuse_run *columns, const struct ampi_misuse_run *run)
{
    bool is_left = run->interval.begin + run->block_bytes == columns->interval.begin;

    if ((!is_left && run->interval.begin != columns->interval.begin + columns->block_bytes) ||
        run->stride != columns->stride || reach_of(run) != reach_of(columns) ||
        columns->block_bytes + run->block_bytes > columns->stride)
        return false;
    if (is_left)
        columns->interval.begin = run->interval.begin;
    else
        columns->interval.end = run->interval.end;
    columns->block_bytes += run->block_bytes;
    if (columns->block_bytes == columns->stride)
        columns->block_bytes = columns->stride = columns->interval.end - columns->interval.begin;
    return true;
}

/* False if the visitor has had enough. */
static bool finish_run(struct collector *collector)
{
    if (collector->columns.interval.end) {
        if (widen(&collector->columns, &collector->run))
            return true;
        if (!collector->visit(&collector->columns, collector->arg)) {
            collector->is_over = true;
            return false;
        }
    }
    collector->columns = collector->run;
    return true;
}

static bool add_block(uintptr_t begin, size_t n_bytes, void *arg)
{
    struct collector *collector = arg;
    struct ampi_misuse_run *run = &collector->run;
    uintptr_t last = run->interval.end - run->block_bytes;

    if (run->interval.end && n_bytes == run->block_bytes && begin >= run->interval.end &&
        (last == run->interval.begin || begin - last == run->stride)) {
        run->stride = begin - last;
        run->interval.end = begin + n_bytes;
        return true;
    }
    if (run->interval.end && !finish_run(collector))
        return false;
    run->interval.begin = begin;
    run->interval.end = begin + n_bytes;
    run->block_bytes = run->stride = n_bytes;
    return true;
}

void ampi_misuse_each_run(const void *buf, MPI_Count count, const struct ampi_type *type,
                          bool (*visit)(const struct ampi_misuse_run *run, void *arg), void *arg)
{
    struct collector collector = {.visit = visit, .arg = arg};

    ampi_misuse_each_block(buf, count, type, add_block, &collector);
    if (collector.run.interval.end && !collector.is_over && finish_run(&collector))
        visit(&collector.columns, arg);
}

/* ---- Overlaps ---- */

static uintptr_t max(uintptr_t a, uintptr_t b)
{
    return a > b ? a : b;
}

static uintptr_t min(uintptr_t a, uintptr_t b)
{
    return a < b ? a : b;
}

/* The first block of the run that ends behind the address, which is below the run's end. */
static uintptr_t first_block_behind(const struct ampi_misuse_run *run, uintptr_t addr)
{
    uintptr_t end = run->interval.begin + run->block_bytes;

    return run->interval.begin + (addr < end ? 0 : ((addr - end) / run->stride + 1) * run->stride);
}

static size_t n_blocks_in(const struct ampi_misuse_run *run, const struct ampi_misuse_run *other)
{
    return (min(run->interval.end, other->interval.end) - max(run->interval.begin, other->interval.begin)) /
           run->stride;
}

bool ampi_misuse_runs_overlap(const struct ampi_misuse_run *a, const struct ampi_misuse_run *b,
                              uintptr_t *begin_out, uintptr_t *end_out)
{
    int n_left = LOOKS_MAX;

    if (a->interval.begin >= b->interval.end || b->interval.begin >= a->interval.end)
        return false;
    if (n_blocks_in(a, b) > n_blocks_in(b, a)) {
        const struct ampi_misuse_run *more = a;
        a = b;
        b = more;
    }
    if (a->stride == b->stride)
        n_left = 3; /* then it repeats, but at the ends a block may have its partner outside */
    for (uintptr_t at = first_block_behind(a, b->interval.begin);
         at < min(a->interval.end, b->interval.end) && n_left > 0; at += a->stride, n_left--) {
        uintptr_t end = at + a->block_bytes, other;
        if (at >= b->interval.end || end <= b->interval.begin)
            continue;
        other = first_block_behind(b, at);
        if (other < end && other < b->interval.end) {
            *begin_out = max(at, other);
            *end_out = min(end, other + b->block_bytes);
            return true;
        }
    }
    return false;
}
