/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ranges.c: see ranges.h. A sorted array: most sets have a few ranges, and large ones mostly grow at their end.
 */
#include "ampi/work/ranges.h"

#include <string.h>

#include "base/log.h"

int ampi_ranges_find(const struct ampi_ranges *set, uintptr_t at)
{
    int low = 0, high = set->n;

    if (high > 0 && set->list[high - 1].to <= at)
        return high;
    while (low < high) {
        int mid = (low + high) / 2;
        if (set->list[mid].to <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void reserve(struct ampi_ranges *set, int n)
{
    if (n <= set->capacity)
        return;
    set->capacity = 2 * set->capacity > n ? 2 * set->capacity : n + 3;
    set->list = base_realloc(set->list, (size_t)set->capacity * sizeof *set->list, "ranges of work");
}

/* Replaces the ranges first .. first + n_old - 1 by n_new other ones. */
static void replace(struct ampi_ranges *set, int first, int n_old, const struct ampi_range *ranges, int n_new)
{
    reserve(set, set->n + n_new - n_old);
    memmove(&set->list[first + n_new], &set->list[first + n_old],
            (size_t)(set->n - first - n_old) * sizeof *set->list);
    for (int i = 0; i < n_new; i++)
        set->list[first + i] = ranges[i];
    set->n += n_new - n_old;
}

void ampi_ranges_add(struct ampi_ranges *set, uintptr_t from, uintptr_t to)
{
    int first = from > 0 ? ampi_ranges_find(set, from - 1) : 0; /* it may touch the one before */
    int end = first;
    struct ampi_range joined = {from, to};

    for (; end < set->n && set->list[end].from <= to; end++) {
        joined.from = set->list[end].from < joined.from ? set->list[end].from : joined.from;
        joined.to = set->list[end].to > joined.to ? set->list[end].to : joined.to;
    }
    if (end - first == 1)
        set->list[first] = joined;
    else
        replace(set, first, end - first, &joined, 1);
}

void ampi_ranges_remove(struct ampi_ranges *set, uintptr_t from, uintptr_t to)
{
    int first = ampi_ranges_find(set, from), end = first, n_left = 0;
    struct ampi_range left[2];

    for (; end < set->n && set->list[end].from < to; end++) {
        if (set->list[end].from < from)
            left[n_left++] = (struct ampi_range){set->list[end].from, from};
        if (set->list[end].to > to)
            left[n_left++] = (struct ampi_range){to, set->list[end].to};
    }
    if (end > first)
        replace(set, first, end - first, left, n_left);
}

bool ampi_ranges_first(const struct ampi_ranges *set, uintptr_t from, uintptr_t to,
                       struct ampi_range *part_out)
{
    int i = ampi_ranges_find(set, from);

    if (i == set->n || set->list[i].from >= to)
        return false;
    part_out->from = set->list[i].from > from ? set->list[i].from : from;
    part_out->to = set->list[i].to < to ? set->list[i].to : to;
    return true;
}

bool ampi_ranges_first_gap(const struct ampi_ranges *set, uintptr_t from, uintptr_t to,
                           struct ampi_range *gap_out)
{
    int i = ampi_ranges_find(set, from);

    if (i < set->n && set->list[i].from <= from)
        from = set->list[i++].to;
    if (from >= to)
        return false;
    gap_out->from = from;
    gap_out->to = i < set->n && set->list[i].from < to ? set->list[i].from : to;
    return true;
}

bool ampi_ranges_overlap(const struct ampi_ranges *set, uintptr_t from, uintptr_t to)
{
    struct ampi_range part;

    return ampi_ranges_first(set, from, to, &part);
}

bool ampi_ranges_contain(const struct ampi_ranges *set, uintptr_t from, uintptr_t to)
{
    struct ampi_range gap;

    return !ampi_ranges_first_gap(set, from, to, &gap);
}

void ampi_ranges_free(struct ampi_ranges *set)
{
    free(set->list);
    *set = (struct ampi_ranges){0};
}

/* ---- Rows ---- */

/* True if a row of `rows` has a byte of the range. */
static bool has_byte_of(const struct ampi_rows *rows, struct ampi_range range)
{
    size_t row;

    if (range.to <= rows->from || range.from >= ampi_rows_end(rows))
        return false;
    if (range.from <= rows->from)
        return true;
    row = (range.from - rows->from) / rows->stride; /* the last row that begins at or below the range */
    return ampi_rows_get(rows, row).to > range.from ||
           (row + 1 < rows->n && ampi_rows_get(rows, row + 1).from < range.to);
}

bool ampi_rows_overlap(const struct ampi_rows *a, const struct ampi_rows *b)
{
    if (ampi_rows_end(a) <= b->from || ampi_rows_end(b) <= a->from)
        return false;
    if (a->n > b->n)
        return ampi_rows_overlap(b, a);
    for (size_t i = 0; i < a->n; i++)
        if (has_byte_of(b, ampi_rows_get(a, i)))
            return true;
    return false;
}

/* Merges the rows and the ranges that they meet, which first move out of the way: so that many rows move the later ranges once. */
static void add_many(struct ampi_ranges *set, const struct ampi_rows *rows)
{
    int n_rows = (int)rows->n, first = rows->from > 0 ? ampi_ranges_find(set, rows->from - 1) : 0;
    int out = first, old = first + n_rows, end = set->n + n_rows;
    struct ampi_range *list;

    reserve(set, end);
    list = set->list;
    memmove(&list[old], &list[first], (size_t)(set->n - first) * sizeof *list);
    for (int row = 0; row < n_rows || (old < end && list[old].from <= ampi_rows_end(rows));) {
        struct ampi_range next = {UINTPTR_MAX, UINTPTR_MAX};
        if (row < n_rows)
            next = ampi_rows_get(rows, (size_t)row);
        if (old < end && list[old].from <= next.from)
            next = list[old++];
        else
            row++;
        if (out > first && list[out - 1].to >= next.from)
            list[out - 1].to = list[out - 1].to > next.to ? list[out - 1].to : next.to;
        else
            list[out++] = next;
    }
    if (out < old)
        memmove(&list[out], &list[old], (size_t)(end - old) * sizeof *list);
    set->n = out + end - old;
}

void ampi_ranges_add_rows(struct ampi_ranges *set, const struct ampi_rows *rows)
{
    if (rows->n == 1)
        ampi_ranges_add(set, rows->from, ampi_rows_end(rows));
    else
        add_many(set, rows);
}

void ampi_ranges_remove_rows(struct ampi_ranges *set, const struct ampi_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        ampi_ranges_remove(set, ampi_rows_get(rows, i).from, ampi_rows_get(rows, i).to);
}

bool ampi_ranges_overlap_rows(const struct ampi_ranges *set, const struct ampi_rows *rows)
{
    if (!ampi_ranges_overlap(set, rows->from, ampi_rows_end(rows)))
        return false;
    for (size_t i = 0; i < rows->n; i++)
        if (ampi_ranges_overlap(set, ampi_rows_get(rows, i).from, ampi_rows_get(rows, i).to))
            return true;
    return false;
}

size_t ampi_ranges_count_rows(const struct ampi_ranges *set, const struct ampi_rows *rows)
{
    struct ampi_range part;
    size_t n_bytes = 0;

    for (size_t i = 0; i < rows->n; i++) {
        struct ampi_range row = ampi_rows_get(rows, i);
        while (row.from < row.to && ampi_ranges_first(set, row.from, row.to, &part)) {
            n_bytes += part.to - part.from;
            row.from = part.to;
        }
    }
    return n_bytes;
}
