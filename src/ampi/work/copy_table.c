/* SPDX-License-Identifier: BSD-3-Clause
 *
 * copy_table.c: see copy_table.h.
 */
#include "ampi/work/copy_table.h"

#include <string.h>

#include "base/log.h"

/* A copy lies on the GPU as on the host modulo this, so that vector loads work in both places. */
#define ALIGNMENT GPU_WORKER_UNIT

int ampi_work_table_find(const struct ampi_work_table *table, uintptr_t at)
{
    int low = 0, high = table->n;

    while (low < high) {
        int mid = (low + high) / 2;
        if (table->ends[mid] <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct ampi_work_entry *ampi_work_table_get(const struct ampi_work_table *table, uintptr_t from, uintptr_t to)
{
    int i = ampi_work_table_find(table, from);

    if (i == table->n || table->entries[i]->from > from || table->entries[i]->to < to)
        return NULL;
    return table->entries[i];
}

static void grow(struct ampi_work_table *table)
{
    table->capacity = table->capacity ? 2 * table->capacity : 64;
    table->entries = base_realloc(table->entries, (size_t)table->capacity * sizeof(struct ampi_work_entry *),
                                  "the data of work");
    table->ends =
        base_realloc(table->ends, (size_t)table->capacity * sizeof *table->ends, "the data of work");
}

struct ampi_work_entry *ampi_work_table_add(struct ampi_work_table *table, uintptr_t from, uintptr_t to,
                                            bool is_device)
{
    size_t skipped = from % ALIGNMENT, n_bytes = skipped + (to - from);
    int i = ampi_work_table_find(table, from);
    struct ampi_work_entry *entry;
    uint64_t block = from;

    BASE_ASSERT(i == table->n || table->entries[i]->from >= to);
    if (!is_device && !gpu_worker_take(table->worker, n_bytes, &block))
        return NULL;
    if (table->n == table->capacity)
        grow(table);
    entry = base_calloc(1, sizeof *entry, "the data of work");
    entry->from = from;
    entry->to = to;
    entry->block = block;
    entry->block_bytes = is_device ? 0 : n_bytes;
    entry->address = is_device ? from : block + skipped;
    memmove(&table->entries[i + 1], &table->entries[i],
            (size_t)(table->n - i) * sizeof(struct ampi_work_entry *));
    memmove(&table->ends[i + 1], &table->ends[i], (size_t)(table->n - i) * sizeof *table->ends);
    table->entries[i] = entry;
    table->ends[i] = to;
    table->n++;
    table->n_bytes += entry->block_bytes;
    ampi_work_table_touch(table, entry);
    return entry;
}

/* Closes the gap of the entries first .. end - 1, which are gone. */
static void close_gap(struct ampi_work_table *table, int first, int end)
{
    memmove(&table->entries[first], &table->entries[end],
            (size_t)(table->n - end) * sizeof(struct ampi_work_entry *));
    memmove(&table->ends[first], &table->ends[end], (size_t)(table->n - end) * sizeof *table->ends);
    table->n -= end - first;
}

static void release(struct ampi_work_table *table, struct ampi_work_entry *entry)
{
    BASE_ASSERT(entry->dirty.n == 0);
    table->n_removed++;
    table->n_bytes -= entry->block_bytes;
    if (entry->block_bytes > 0)
        gpu_worker_give(table->worker, entry->block, entry->block_bytes);
    ampi_ranges_free(&entry->valid);
    ampi_ranges_free(&entry->dirty);
    free(entry);
}

void ampi_work_table_remove(struct ampi_work_table *table, struct ampi_work_entry *entry)
{
    int i = ampi_work_table_find(table, entry->from);

    BASE_ASSERT(table->entries[i] == entry);
    release(table, entry);
    close_gap(table, i, i + 1);
}

void ampi_work_table_remove_empty(struct ampi_work_table *table, uintptr_t from, uintptr_t to)
{
    int i = ampi_work_table_find(table, from), kept = i;

    for (; i < table->n && table->entries[i]->from < to; i++) {
        struct ampi_work_entry *entry = table->entries[i];
        if (entry->valid.n == 0 && ampi_work_entry_is_idle(table, entry)) {
            release(table, entry);
            continue;
        }
        table->entries[kept] = entry;
        table->ends[kept++] = entry->to;
    }
    if (kept < i)
        close_gap(table, kept, i);
}

bool ampi_work_entry_is_idle(const struct ampi_work_table *table, const struct ampi_work_entry *entry)
{
    return entry->n_users == 0 && gpu_worker_are_done(table->worker, &entry->used);
}

struct ampi_work_entry *
ampi_work_table_oldest(const struct ampi_work_table *table, const struct ampi_ranges *pins,
                       bool (*is_kept)(const struct ampi_work_entry *, const struct ampi_work *),
                       const struct ampi_work *owner)
{
    struct ampi_work_entry *oldest = NULL;

    for (int i = 0; i < table->n; i++) {
        struct ampi_work_entry *entry = table->entries[i];
        if (!ampi_ranges_overlap(pins, entry->from, entry->to) && entry->block_bytes > 0 &&
            (!oldest || entry->last_use < oldest->last_use) && ampi_work_entry_is_idle(table, entry) &&
            !(is_kept && is_kept(entry, owner)))
            oldest = entry;
    }
    return oldest;
}

void ampi_work_table_touch(struct ampi_work_table *table, struct ampi_work_entry *entry)
{
    entry->last_use = ++table->clock;
}

bool ampi_work_table_validate(const struct ampi_work_table *table)
{
    for (int i = 0; i < table->n; i++) {
        const struct ampi_work_entry *entry = table->entries[i];
        if (entry->from >= entry->to || table->ends[i] != entry->to ||
            (i > 0 && table->ends[i - 1] > entry->from))
            return false;
        for (int j = 0; j < entry->dirty.n; j++)
            if (!ampi_ranges_contain(&entry->valid, entry->dirty.list[j].from, entry->dirty.list[j].to))
                return false;
        if (entry->valid.n > 0 &&
            (entry->valid.list[0].from < entry->from || entry->valid.list[entry->valid.n - 1].to > entry->to))
            return false;
    }
    return true;
}
