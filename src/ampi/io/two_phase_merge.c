/* SPDX-License-Identifier: BSD-3-Clause
 *
 * two_phase_merge.c: see two_phase_merge.h.
 *
 * Threads take windows of the file in ascending order. For a window a thread finds the pieces of all sources by binary
 * search, and uses one of two ways:
 *
 *      large pieces   are merged by offset into one list, which disk_transfer.c transfers without a copy
 *      small pieces   go through a buffer of the window's size, without an order: sorting them takes longer than
 *                     copying them. A write marks the bytes that it has in a bitmap, and writes each run of them
 *
 * Nothing between the pieces is ever written. The kernel lets one thread at a time write to a file, so two threads
 * are enough for a write of large pieces: one prepares its window meanwhile. For the same reason dense writes of medium
 * pieces go through the buffer, too: the copies of several threads overlap, and the kernel holds its lock for one large write
 * from the cache instead of many small ones. (64 ranks, blocks of 4 KiB, two cores: 0.81 instead of 0.46 of one thread's
 * pwrite on ext4, 0.89 instead of 0.63 on tmpfs. From 64 KiB on there is no difference.)
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "ampi/io/two_phase_merge.h"

/* Pieces below this average size go through the buffer ... */
#define SMALL_BYTES 512

/* ... if they are at least this fraction of the bytes between the first and the last one. */
#define DENSITY 8

/* The same for a write without holes. */
#define SMALL_BYTES_DENSE_WRITE ((size_t)16 << 10)

/* What a thread keeps from window to window. */
struct worker_memory {
    struct ampi_disk_piece *items;   /* the window's pieces */
    struct ampi_disk_piece *scratch; /* for merging */
    size_t *runs;                    /* where the sources' items begin */
    size_t n_items_room;             /* elements of items and scratch */
    size_t n_runs_room;
    unsigned char *buffer; /* the window's bytes */
    uint64_t *marks;       /* a bit for each grain: it is data */
};

/* The pieces of a window. */
struct window {
    MPI_Offset lo, hi; /* its bytes in the file */
    size_t first;      /* sources first .. last - 1 may have pieces in it */
    size_t last;
    size_t n_items;
    size_t n_runs; /* sources that have some */
    size_t n_bytes;
    MPI_Offset from, to; /* from the first byte of a piece to the last one */
    uint64_t grain_bits; /* all offsets and sizes of pieces: the lowest bit divides each of them */
    MPI_Offset beyond;   /* the first byte above the window that is a piece's; AMPI_DISK_NO_END: none */
};

/* ---- Results ---- */

static void set_limit(struct ampi_merge *merge, MPI_Offset limit, int error)
{
    pthread_mutex_lock(&merge->lock);
    if (limit < merge->limit) {
        merge->limit = limit;
        merge->error = error;
    }
    pthread_mutex_unlock(&merge->lock);
    if (error)
        atomic_store_explicit(&merge->has_failed, true, memory_order_relaxed);
}

size_t ampi_merge_count(const struct ampi_merge *merge, const struct ampi_merge_source *source)
{
    size_t n_bytes = 0;

    if (source->to <= merge->limit)
        return source->n_bytes;
    for (size_t i = 0; i < source->n_pieces && source->pieces[i].at < merge->limit; i++)
        n_bytes += base_min_u64(source->pieces[i].n_bytes, (uint64_t)(merge->limit - source->pieces[i].at));
    return n_bytes;
}

/* ---- Finding the pieces of a window ---- */

static MPI_Offset end_of(const struct ampi_disk_piece *piece)
{
    return piece->at + (MPI_Offset)piece->n_bytes;
}

size_t ampi_merge_find(const struct ampi_merge_source *source, MPI_Offset at)
{
    size_t lo = 0, hi = source->n_pieces;

    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;
        if (end_of(&source->pieces[middle]) > at)
            hi = middle;
        else
            lo = middle + 1;
    }
    return lo;
}

/* Sets the window's sources. */
static void find_sources(const struct ampi_merge *merge, struct window *w)
{
    size_t lo = 0, hi = merge->n_sources;

    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;
        if (merge->reaches[middle] > w->lo)
            hi = middle;
        else
            lo = middle + 1;
    }
    w->first = lo;
    hi = merge->n_sources;
    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;
        if (merge->sources[middle].from >= w->hi)
            hi = middle;
        else
            lo = middle + 1;
    }
    w->last = lo;
    w->beyond = lo < merge->n_sources ? merge->sources[lo].from : AMPI_DISK_NO_END;
}

struct ampi_disk_piece ampi_merge_clip(const struct ampi_disk_piece *piece, MPI_Offset lo, MPI_Offset hi)
{
    MPI_Offset from = piece->at > lo ? piece->at : lo;
    MPI_Offset to = end_of(piece) < hi ? end_of(piece) : hi;

    return (struct ampi_disk_piece){from, (char *)piece->memory + (from - piece->at), (size_t)(to - from)};
}

/* Counts the window's pieces. */
static void measure(const struct ampi_merge *merge, struct window *w)
{
    w->from = AMPI_DISK_NO_END;
    w->to = 0;
    for (size_t s = w->first; s < w->last; s++) {
        const struct ampi_merge_source *source = &merge->sources[s];
        size_t i = ampi_merge_find(source, w->lo), first = i;
        for (; i < source->n_pieces && source->pieces[i].at < w->hi; i++) {
            struct ampi_disk_piece item = ampi_merge_clip(&source->pieces[i], w->lo, w->hi);
            w->n_bytes += item.n_bytes;
            w->grain_bits |= (uint64_t)item.at | item.n_bytes;
            w->from = item.at < w->from ? item.at : w->from;
            w->to = end_of(&item) > w->to ? end_of(&item) : w->to;
        }
        w->n_items += i - first;
        w->n_runs += i > first;
        if (i > first && end_of(&source->pieces[i - 1]) > w->hi)
            w->beyond = w->hi;
        else if (i < source->n_pieces && source->pieces[i].at < w->beyond)
            w->beyond = source->pieces[i].at;
    }
}

/* ---- Large pieces ---- */

static bool has_room(struct worker_memory *m, const struct window *w)
{
    if (w->n_items > m->n_items_room) {
        free(m->items);
        free(m->scratch);
        m->items = malloc(w->n_items * sizeof *m->items);
        m->scratch = malloc(w->n_items * sizeof *m->scratch);
        m->n_items_room = m->items && m->scratch ? w->n_items : 0;
    }
    if (w->n_runs >= m->n_runs_room) {
        free(m->runs);
        m->runs = malloc((w->n_runs + 1) * sizeof *m->runs);
        m->n_runs_room = m->runs ? w->n_runs + 1 : 0;
    }
    return w->n_items <= m->n_items_room && w->n_runs < m->n_runs_room;
}

/* Lists the window's pieces, those of a source in one run. Two runs that follow each other in the file become one. */
static void list_items(const struct ampi_merge *merge, struct window *w, struct worker_memory *m)
{
    size_t n = 0;

    w->n_runs = 0;
    for (size_t s = w->first; s < w->last; s++) {
        const struct ampi_merge_source *source = &merge->sources[s];
        size_t begin = n;
        for (size_t i = ampi_merge_find(source, w->lo); i < source->n_pieces && source->pieces[i].at < w->hi;
             i++)
            m->items[n++] = ampi_merge_clip(&source->pieces[i], w->lo, w->hi);
        if (n > begin && (begin == 0 || m->items[begin].at < m->items[begin - 1].at))
            m->runs[w->n_runs++] = begin;
    }
    m->runs[w->n_runs] = n;
}

static void merge_two(struct ampi_disk_piece *out, const struct ampi_disk_piece *a,
                      const struct ampi_disk_piece *a_end, const struct ampi_disk_piece *b,
                      const struct ampi_disk_piece *b_end)
{
    while (a < a_end && b < b_end)
        *out++ = b->at < a->at ? *b++ : *a++;
    if (a < a_end)
        memcpy(out, a, (size_t)(a_end - a) * sizeof *a);
    else
        memcpy(out, b, (size_t)(b_end - b) * sizeof *b);
}

/* Merges the runs in pairs until one is left. */
static void merge_runs(struct window *w, struct worker_memory *m)
{
    while (w->n_runs > 1) {
        struct ampi_disk_piece *other = m->items;
        size_t n = 0;
        for (size_t r = 0; r < w->n_runs; r += 2) {
            size_t a = m->runs[r], b = m->runs[r + 1], end = m->runs[r + 2 <= w->n_runs ? r + 2 : r + 1];
            merge_two(m->scratch + a, m->items + a, m->items + b, m->items + b, m->items + end);
            m->runs[n++] = a;
        }
        m->runs[n] = w->n_items;
        w->n_runs = n;
        m->items = m->scratch;
        m->scratch = other;
    }
}

static void transfer_sorted(struct ampi_merge *merge, struct window *w, struct worker_memory *m)
{
    struct ampi_disk_op op = {.fd = merge->fd, .is_write = merge->is_write};
    struct ampi_disk_transfer t;
    size_t i = 0, left;

    if (!has_room(m, w)) {
        set_limit(merge, w->from, ENOMEM);
        return;
    }
    list_items(merge, w, m);
    merge_runs(w, m);
    ampi_disk_transfer_init(&t, &op);
    t.pieces = m->items;
    t.n_pieces = w->n_items;
    ampi_disk_transfer(&t);
    if (t.end != AMPI_DISK_NO_END)
        set_limit(merge, t.end, 0);
    if (!t.error)
        return;
    for (left = t.done; i < w->n_items && left >= m->items[i].n_bytes; i++)
        left -= m->items[i].n_bytes;
    set_limit(merge, i < w->n_items ? m->items[i].at : w->to, t.error);
}

/* ---- Small pieces ---- */

static void mark(uint64_t *marks, size_t from, size_t n)
{
    while (n > 0) {
        size_t bit = from % 64, n_bits = n < 64 - bit ? n : 64 - bit;
        marks[from / 64] |= (n_bits == 64 ? UINT64_MAX : ((uint64_t)1 << n_bits) - 1) << bit;
        from += n_bits;
        n -= n_bits;
    }
}

/* The first bit at or above `from` that is `value`; end: none. */
static size_t find_mark(const uint64_t *marks, size_t from, size_t end, bool value)
{
    while (from < end) {
        uint64_t word = (value ? marks[from / 64] : ~marks[from / 64]) >> from % 64;
        if (word)
            return base_min_u64(end, from + (size_t)__builtin_ctzll(word));
        from += 64 - from % 64;
    }
    return end;
}

/* Copies between the buffer, which begins with w->from, and the pieces. */
static void copy_small(const struct ampi_merge *merge, const struct window *w, struct worker_memory *m)
{
    int shift = __builtin_ctzll(w->grain_bits);

    for (size_t s = w->first; s < w->last; s++) {
        const struct ampi_merge_source *source = &merge->sources[s];
        for (size_t i = ampi_merge_find(source, w->lo); i < source->n_pieces && source->pieces[i].at < w->hi;
             i++) {
            struct ampi_disk_piece item = ampi_merge_clip(&source->pieces[i], w->lo, w->hi);
            size_t offset = (size_t)(item.at - w->from);
            if (merge->is_write) {
                memcpy(m->buffer + offset, item.memory, item.n_bytes);
                mark(m->marks, offset >> shift, item.n_bytes >> shift);
            } else if (item.at < w->to) {
                memcpy(item.memory, m->buffer + offset,
                       base_min_u64(item.n_bytes, (uint64_t)(w->to - item.at)));
            }
        }
    }
}

static struct ampi_disk_transfer transfer_block(struct ampi_merge *merge, MPI_Offset at, void *memory,
                                                size_t n_bytes)
{
    struct ampi_disk_piece piece = {at, memory, n_bytes};
    struct ampi_disk_transfer t = {
        .fd = merge->fd, .is_write = merge->is_write, .pieces = &piece, .n_pieces = 1};

    ampi_disk_transfer(&t);
    if (t.done < n_bytes)
        set_limit(merge, at + (MPI_Offset)t.done, t.error);
    return t;
}

static void transfer_small(struct ampi_merge *merge, struct window *w, struct worker_memory *m)
{
    int shift = __builtin_ctzll(w->grain_bits);
    size_t span = (size_t)(w->to - w->from), end = span >> shift, from = 0, to;

    if (!merge->is_write) {
        w->to = w->from + (MPI_Offset)transfer_block(merge, w->from, m->buffer, span).done;
        copy_small(merge, w, m);
        return;
    }
    memset(m->marks, 0, base_round_up(end, 64) / 8);
    copy_small(merge, w, m);
    while ((from = find_mark(m->marks, from, end, true)) < end) {
        size_t begin = from << shift;
        to = find_mark(m->marks, from, end, false);
        if (transfer_block(merge, w->from + (MPI_Offset)begin, m->buffer + begin, (to << shift) - begin)
                .error)
            return;
        from = to;
    }
}

static bool has_buffer(const struct ampi_merge *merge, struct worker_memory *m)
{
    if (!m->buffer)
        m->buffer = malloc(merge->window_bytes);
    if (!m->marks)
        m->marks = malloc(base_round_up(merge->window_bytes, 64) / 8);
    return m->buffer && m->marks;
}

/* ---- Threads ---- */

/* The pieces above the window begin there: nobody has to look at the empty windows before. */
static void skip_windows(struct ampi_merge *merge, MPI_Offset beyond)
{
    int64_t next = beyond == AMPI_DISK_NO_END ? merge->n_windows : beyond / (MPI_Offset)merge->window_bytes;
    int64_t now = atomic_load_explicit(&merge->next_window, memory_order_relaxed);

    while (now < next && !atomic_compare_exchange_weak(&merge->next_window, &now, next))
        ;
}

/* True if the window's pieces go through the buffer. */
static bool are_small(const struct ampi_merge *merge, const struct window *w)
{
    size_t each_bytes = w->n_bytes / w->n_items, span = (size_t)(w->to - w->from);

    if (each_bytes < SMALL_BYTES)
        return w->n_bytes >= span / DENSITY;
    return merge->is_write && each_bytes < SMALL_BYTES_DENSE_WRITE && w->n_bytes >= span;
}

static void run_worker(struct ult_offload *work)
{
    struct ampi_merge *merge = BASE_CONTAINER(work, struct ampi_merge_worker, work)->merge;
    struct worker_memory memory = {0};
    int64_t number;

    while (!atomic_load_explicit(&merge->has_failed, memory_order_relaxed) &&
           (number = atomic_fetch_add(&merge->next_window, 1)) < merge->n_windows) {
        struct window w = {.lo = number * (MPI_Offset)merge->window_bytes};
        w.hi = w.lo + (MPI_Offset)merge->window_bytes;
        find_sources(merge, &w);
        measure(merge, &w);
        skip_windows(merge, w.beyond);
        if (w.n_items == 0)
            continue;
        if (are_small(merge, &w) && has_buffer(merge, &memory))
            transfer_small(merge, &w, &memory);
        else
            transfer_sorted(merge, &w, &memory);
    }
    free(memory.items);
    free(memory.scratch);
    free(memory.runs);
    free(memory.buffer);
    free(memory.marks);
}

static void end_worker(struct ult_offload *work)
{
    struct ampi_merge *merge = BASE_CONTAINER(work, struct ampi_merge_worker, work)->merge;

    if (--merge->n_busy > 0)
        return;
    pthread_mutex_destroy(&merge->lock);
    free(merge->reaches);
    merge->done(merge);
}

static int compare_sources(const void *a, const void *b)
{
    const struct ampi_merge_source *one = a, *other = b;

    return (one->from > other->from) - (one->from < other->from);
}

/* Orders the sources, and sums them up. False: out of memory. */
static bool prepare(struct ampi_merge *merge, size_t *n_bytes_out, size_t *n_pieces_out)
{
    bool is_sorted = true;

    merge->reaches = malloc(merge->n_sources * sizeof *merge->reaches);
    if (!merge->reaches)
        return false;
    for (size_t i = 1; i < merge->n_sources; i++)
        is_sorted &= merge->sources[i - 1].from <= merge->sources[i].from;
    if (!is_sorted)
        qsort(merge->sources, merge->n_sources, sizeof *merge->sources, compare_sources);
    for (size_t i = 0; i < merge->n_sources; i++) {
        const struct ampi_merge_source *source = &merge->sources[i];
        merge->reaches[i] = i > 0 && merge->reaches[i - 1] > source->to ? merge->reaches[i - 1] : source->to;
        *n_bytes_out += source->n_bytes;
        *n_pieces_out += source->n_pieces;
    }
    return true;
}

/* The number of threads that are worth it. */
static int choose_threads(const struct ampi_merge *merge, size_t n_bytes, size_t n_pieces)
{
    size_t n = (n_bytes + merge->window_bytes - 1) / merge->window_bytes, most = AMPI_MERGE_THREADS_MAX;

    if (merge->is_write && n_bytes / n_pieces >= SMALL_BYTES_DENSE_WRITE)
        most = 2;
    if (most > 2 && most > (size_t)ult_core_count())
        most = base_max_u64(2, (uint64_t)ult_core_count());
    return (int)(n < most ? n : most);
}

void ampi_merge_start(struct ampi_merge *merge)
{
    size_t n_bytes = 0, n_pieces = 0;

    merge->limit = AMPI_DISK_NO_END;
    merge->error = 0;
    if (merge->n_sources == 0 || !prepare(merge, &n_bytes, &n_pieces)) {
        if (merge->n_sources > 0) {
            merge->limit = 0;
            merge->error = ENOMEM;
        }
        merge->done(merge);
        return;
    }
    pthread_mutex_init(&merge->lock, NULL);
    merge->next_window = merge->sources[0].from / (MPI_Offset)merge->window_bytes;
    merge->n_windows = merge->reaches[merge->n_sources - 1] / (MPI_Offset)merge->window_bytes + 1;
    merge->n_busy = choose_threads(merge, n_bytes, n_pieces);
    for (int i = 0, n = merge->n_busy; i < n; i++) {
        merge->workers[i] =
            (struct ampi_merge_worker){.work = {.run = run_worker, .done = end_worker}, .merge = merge};
        ult_offload_start(&merge->workers[i].work);
    }
}
