/* SPDX-License-Identifier: BSD-3-Clause
 *
 * runs.c: see runs.h.
 */
#include "ampi/misuse/runs.h"

#include <limits.h>

#include "ampi/misuse/misuse.h"

/* Blocks of a run that are compared with another one. */
#define LOOKS_MAX 4096

/* Runs with one residue that are visited before those at the same addresses: there may be fewer of these. */
#define RESIDUES_MAX 256

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

/* ---- Sets of runs ---- */

/* The set for a stride; NULL: none, and none is free. */
static struct ampi_misuse_stride *stride_of(struct ampi_misuse_memory *memory, size_t stride)
{
    struct ampi_misuse_stride *unused = NULL;

    for (int i = 0; i < AMPI_MISUSE_STRIDES; i++) {
        struct ampi_misuse_stride *of = &memory->strides[i];
        if (of->stride == stride)
            return of;
        if (!of->by_address.root)
            unused = of;
    }
    if (unused)
        unused->stride = stride;
    return unused;
}

void ampi_misuse_memory_add(struct ampi_misuse_memory *memory, struct ampi_misuse_run *run)
{
    memory->n++;
    run->of = run->stride > run->block_bytes ? stride_of(memory, run->stride) : NULL;
    ampi_intervals_add(run->of ? &run->of->by_address : &memory->others, &run->interval);
    if (!run->of)
        return;
    run->residue.begin = run->interval.begin % run->stride;
    run->residue.end = run->residue.begin + run->block_bytes;
    ampi_intervals_add(&run->of->by_residue, &run->residue);
}

void ampi_misuse_memory_remove(struct ampi_misuse_memory *memory, struct ampi_misuse_run *run)
{
    memory->n--;
    ampi_intervals_remove(run->of ? &run->of->by_address : &memory->others, &run->interval);
    if (run->of)
        ampi_intervals_remove(&run->of->by_residue, &run->residue);
}

struct search {
    ampi_misuse_visit_fn visit;
    void *arg;
    int n_left; /* visits by residue */
};

static bool visit_at_address(const struct ampi_interval *interval, const void *arg)
{
    const struct search *search = arg;

    return search->visit(ampi_misuse_run_of(interval), search->arg);
}

static bool visit_residue(const struct ampi_interval *interval, const void *arg)
{
    struct search *search = (struct search *)(uintptr_t)arg;

    return search->n_left-- == 0 ||
           search->visit(BASE_CONTAINER(interval, struct ampi_misuse_run, residue), search->arg);
}

/* The residues in the set are below the stride, and their blocks end below twice the stride. */
static struct ampi_misuse_run *find_residue(const struct ampi_misuse_stride *of, uintptr_t at, size_t n_bytes,
                                            struct search *search)
{
    uintptr_t begin = at % of->stride, end = begin + n_bytes;
    const struct ampi_intervals *set = &of->by_residue;
    const struct ampi_interval *found;

    search->n_left = RESIDUES_MAX;
    found = ampi_intervals_find(set, begin, end, visit_residue, search, INT_MAX);
    if (!found)
        found =
            ampi_intervals_find(set, begin + of->stride, end + of->stride, visit_residue, search, INT_MAX);
    if (!found && end > of->stride)
        found = ampi_intervals_find(set, 0, end - of->stride, visit_residue, search, INT_MAX);
    return found ? BASE_CONTAINER(found, struct ampi_misuse_run, residue) : NULL;
}

struct ampi_misuse_run *ampi_misuse_memory_find(const struct ampi_misuse_memory *memory,
                                                const struct ampi_misuse_run *run, ampi_misuse_visit_fn visit,
                                                void *arg)
{
    struct search search = {visit, arg, 0};
    uintptr_t begin = run->interval.begin, end = run->interval.end;
    size_t n_bytes = run->stride > run->block_bytes ? run->block_bytes : end - begin;
    const struct ampi_interval *found =
        ampi_intervals_find(&memory->others, begin, end, visit_at_address, &search, INT_MAX);

    for (int i = 0; i < AMPI_MISUSE_STRIDES && !found; i++) {
        const struct ampi_misuse_stride *of = &memory->strides[i];
        if (!of->by_address.root)
            continue;
        if (n_bytes <= of->stride && (run->stride == of->stride || n_bytes == end - begin)) {
            struct ampi_misuse_run *same = find_residue(of, begin, n_bytes, &search);
            if (search.n_left >= 0) {
                if (same)
                    return same;
                continue;
            }
        }
        found = ampi_intervals_find(&of->by_address, begin, end, visit_at_address, &search, INT_MAX);
    }
    return found ? ampi_misuse_run_of(found) : NULL;
}
