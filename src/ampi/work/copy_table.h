/* SPDX-License-Identifier: BSD-3-Clause
 *
 * copy_table.h: the copies of host memory on one GPU.
 *
 * Invariants:
 *   1. Entries of a table are sorted by host address and do not overlap.
 *   2. `valid` are the bytes of which the GPU has the current value, or will have it when the steps queued so far are done.
 *      `dirty` are those of them that the host's memory has not: a subset of `valid`.
 *   3. An entry is removed only if it has no dirty byte, no user (n_users), and its steps are done.
 */
#ifndef AMPI_WORK_TABLE_H
#define AMPI_WORK_TABLE_H

#include "ampi/work/ranges.h"
#include "gpu/work/worker.h"

struct ampi_work_entry {
    uintptr_t from; /* of the host's memory */
    uintptr_t to;
    uint64_t address;   /* of the byte `from` on the GPU */
    uint64_t block;     /* memory of the worker that holds it */
    size_t block_bytes; /* 0: the program's own memory on the GPU, which is only ordered */
    struct ampi_ranges valid;
    struct ampi_ranges dirty;
    struct gpu_worker_steps written; /* the steps that write to it */
    struct gpu_worker_steps used;    /* the last steps that read from it or write to it */
    uint64_t last_use;               /* for LRU */
    int n_users;                     /* requests that are about to be launched */
};

struct ampi_work_table {
    struct gpu_worker *worker;
    struct ampi_work_entry **entries; /* sorted */
    uintptr_t *ends;                  /* of the entries: a search reads nothing else */
    int n;
    int capacity;
    size_t n_bytes;     /* of the copies */
    uint64_t clock;     /* of uses */
    uint64_t n_removed; /* entries: none has gone since this was the same */
};

/* The index of the first entry that ends above the address; the entries from there on that begin below another address overlap a range. */
int ampi_work_table_find(const struct ampi_work_table *table, uintptr_t at);

/* The entry that holds all of [from, to); NULL: none. */
struct ampi_work_entry *ampi_work_table_get(const struct ampi_work_table *table, uintptr_t from,
                                            uintptr_t to);

/* Adds an empty entry; is_device: for memory that is on the GPU. NULL: the GPU has no room. No entry overlaps it. */
struct ampi_work_entry *ampi_work_table_add(struct ampi_work_table *table, uintptr_t from, uintptr_t to,
                                            bool is_device);

/* Removes an entry (invariant 3). */
void ampi_work_table_remove(struct ampi_work_table *table, struct ampi_work_entry *entry);

/* Removes the entries that overlap [from, to), have no valid byte and may be removed. One move of the later ones. */
void ampi_work_table_remove_empty(struct ampi_work_table *table, uintptr_t from, uintptr_t to);

/* True if nothing prevents the removal of the entry but dirty bytes. */
bool ampi_work_entry_is_idle(const struct ampi_work_table *table, const struct ampi_work_entry *entry);

/* The idle entry without pinned bytes that has memory, whose last use is the oldest, and which is_kept (NULL: none) does not keep for its owner; NULL: there
 * is none. */
struct ampi_work;
struct ampi_work_entry *
ampi_work_table_oldest(const struct ampi_work_table *table, const struct ampi_ranges *pins,
                       bool (*is_kept)(const struct ampi_work_entry *, const struct ampi_work *),
                       const struct ampi_work *owner);

void ampi_work_table_touch(struct ampi_work_table *table, struct ampi_work_entry *entry);

/* Checks the invariants, for tests. */
bool ampi_work_table_validate(const struct ampi_work_table *table);

#endif
