/* SPDX-License-Identifier: BSD-3-Clause
 *
 * data.c: moves requests' data between the host's memory and GPUs, and makes room for it. See copy_table.h for the invariants.
 *
 * Data goes to a GPU in one stream and comes back in another; both are ordered against launches by the steps of the entries. Within a round
 * uploads are gathered: entries that were created one after another are neighbours on the GPU, and one copy serves them. Data that comes back
 * is written to the host's memory when its step is done, so nobody waits for the GPU; `drains` are such bytes.
 */
#include "ampi/work/work.h"

#include <string.h>

#include "base/log.h"
#include "base/settings.h"

/* ---- From a GPU ---- */

/* True if the round has a step of GPU_WORKER_OUT, or may begin one. False: two are under way. So data that is asked for meanwhile comes in one step. */
static bool may_drain(const struct ampi_work_device *device)
{
    return device->is_draining || (gpu_worker_load_of(device->worker, GPU_WORKER_OUT) < 2 &&
                                   gpu_worker_has_room(device->worker, GPU_WORKER_OUT));
}

/* Starts the copy of one part of an entry's dirty bytes. False: not now. */
static bool drain_part(struct ampi_work_device *device, struct ampi_work_entry *entry, struct ampi_range part)
{
    size_t n_bytes = part.to - part.from;
    void *pinned;
    int error;

    if (n_bytes > GPU_WORKER_STAGE_MAX)
        n_bytes = GPU_WORKER_STAGE_MAX;
    if (device->n_drains == AMPI_WORK_DRAINS || !(pinned = gpu_worker_stage(device->worker, n_bytes)))
        return false;
    error = gpu_worker_wait(device->worker, GPU_WORKER_OUT, &entry->written);
    if (!error)
        error = gpu_worker_copy(device->worker, GPU_WORKER_OUT, (uintptr_t)pinned,
                                entry->address + (part.from - entry->from), n_bytes);
    if (error) {
        ampi_work_device_fail(device, error);
        return false;
    }
    device->drains[device->n_drains++] =
        (struct ampi_work_drain){.to = part.from,
                                 .from = pinned,
                                 .n_bytes = n_bytes,
                                 .step = gpu_worker_next(device->worker, GPU_WORKER_OUT)};
    ampi_ranges_add(&device->draining, part.from, part.from + n_bytes);
    /* Not before: those that wait are tried again when a step has brought bytes. */
    device->is_draining = true;
    entry->used.of[GPU_WORKER_OUT] = gpu_worker_next(device->worker, GPU_WORKER_OUT);
    ampi_ranges_remove(&entry->dirty, part.from, part.from + n_bytes);
    ampi_work_engine.counts.out_bytes += n_bytes;
    ampi_work_engine.counts.out_copies++;
    return true;
}

/* Starts to write the entry's dirty bytes in [from, to) back. */
static void drain(struct ampi_work_device *device, struct ampi_work_entry *entry, uintptr_t from,
                  uintptr_t to)
{
    struct ampi_range part;

    if (!ampi_ranges_overlap(&entry->dirty, from, to) || !may_drain(device) ||
        gpu_worker_begin(device->worker))
        return;
    while (ampi_ranges_first(&entry->dirty, from, to, &part) && drain_part(device, entry, part))
        continue;
    gpu_worker_leave(device->worker);
}

void ampi_work_data_arrived(struct ampi_work_device *device)
{
    int n_left = 0;

    for (int i = 0; i < device->n_drains; i++) {
        const struct ampi_work_drain *drain = &device->drains[i];
        if (gpu_worker_is_done(device->worker, GPU_WORKER_OUT, drain->step))
            memcpy((void *)drain->to, drain->from, drain->n_bytes);
        else
            device->drains[n_left++] = *drain;
    }
    if (n_left == device->n_drains)
        return;
    ampi_work_engine.has_changed = true;
    device->n_drains = n_left;
    ampi_ranges_clear(&device->draining);
    for (int i = 0; i < n_left; i++) /* bytes may be among them twice */
        ampi_ranges_add(&device->draining, device->drains[i].to,
                        device->drains[i].to + device->drains[i].n_bytes);
}

/* Makes the bytes of one device's entries that the rows have current on the host. True: they are. */
static bool settle_device(struct ampi_work_device *device, const struct ampi_rows *rows)
{
    bool is_settled = true;

    for (int i = ampi_work_table_find(&device->table, rows->from);
         i < device->table.n && device->table.entries[i]->from < ampi_rows_end(rows); i++) {
        struct ampi_work_entry *entry = device->table.entries[i];
        if (!ampi_ranges_overlap_rows(&entry->dirty, rows))
            continue;
        is_settled = false;
        for (size_t row = 0; row < rows->n && !device->error; row++)
            drain(device, entry, ampi_rows_get(rows, row).from, ampi_rows_get(rows, row).to);
    }
    return is_settled && !ampi_ranges_overlap_rows(&device->draining, rows);
}

/* except: this device does not matter; NULL: all do. */
static bool settle_all(const struct ampi_rows *rows, const struct ampi_work_device *except)
{
    struct ampi_work_engine *engine = &ampi_work_engine;
    bool is_settled = true;

    for (int i = 0; i < engine->n_devices; i++)
        if (engine->devices[i] && engine->devices[i] != except)
            is_settled &= settle_device(engine->devices[i], rows);
    return is_settled;
}

bool ampi_work_data_settle(const struct ampi_rows *rows)
{
    return settle_all(rows, NULL);
}

bool ampi_work_data_is_read(void)
{
    struct ampi_work_engine *engine = &ampi_work_engine;

    for (int i = 0; i < engine->n_devices; i++)
        if (engine->devices[i] && !engine->devices[i]->error &&
            !gpu_worker_is_idle(engine->devices[i]->worker, GPU_WORKER_IN))
            return false;
    return true;
}

/* ---- Dropping ---- */

/* Entries stay, even empty ones: the next request that reads the bytes finds its place on the GPU. They are the first to go if the GPU is full. */
static void drop_from(struct ampi_work_device *device, const struct ampi_rows *rows)
{
    for (int i = ampi_work_table_find(&device->table, rows->from);
         i < device->table.n && device->table.entries[i]->from < ampi_rows_end(rows); i++) {
        struct ampi_work_entry *entry = device->table.entries[i];
        ampi_ranges_remove_rows(&entry->valid, rows);
        ampi_ranges_remove_rows(&entry->dirty, rows);
        entry->last_use = entry->valid.n == 0 ? 0 : entry->last_use;
    }
}

void ampi_work_data_drop(const struct ampi_rows *rows)
{
    struct ampi_work_engine *engine = &ampi_work_engine;

    for (int i = 0; i < engine->n_devices; i++)
        if (engine->devices[i])
            drop_from(engine->devices[i], rows);
}

void ampi_work_data_forget(const struct ampi_rows *rows)
{
    struct ampi_work_engine *engine = &ampi_work_engine;

    ampi_work_data_drop(rows);
    for (int i = 0; i < engine->n_devices; i++)
        if (engine->devices[i])
            ampi_work_table_remove_empty(&engine->devices[i]->table, rows->from, ampi_rows_end(rows));
}

/* ---- Making room ---- */

static bool is_own(const struct ampi_work_entry *entry, const struct ampi_work *work)
{
    for (int i = 0; i < work->n_buffers; i++)
        if (entry->from < ampi_rows_end(&work->buffers[i].rows) && work->buffers[i].rows.from < entry->to)
            return true;
    return false;
}

/* True if something is under way on the device, or about to be launched: room may come by itself. */
static bool is_busy(const struct ampi_work_device *device)
{
    if (device->n_batches > 0 || device->n_drains > 0 || device->is_draining || device->stay.n_busy > 0)
        return true;
    for (int i = 0; i < GPU_WORKER_STREAMS; i++)
        if (!gpu_worker_is_idle(device->worker, i))
            return true;
    return false;
}

/* Removes the oldest entries, until one was removed whose memory can be used at once, or writes them back. keep: a request whose data stays,
 * or NULL. */
static enum ampi_work_result make_room(struct ampi_work_device *device, size_t n_bytes,
                                       const struct ampi_work *keep)
{
    size_t n_drained = 0;
    enum ampi_work_result result = AMPI_WORK_FULL;

    while (n_drained < n_bytes) {
        struct ampi_work_entry *entry =
            ampi_work_table_oldest(&device->table, &ampi_work_engine.pins, keep ? is_own : NULL, keep);
        if (!entry)
            break;
        if (entry->dirty.n == 0) {
            ampi_work_table_remove(&device->table, entry);
            ampi_work_engine.counts.n_evictions++;
            return AMPI_WORK_READY;
        }
        drain(device, entry, entry->from, entry->to);
        result = AMPI_WORK_WAIT;
        if (entry->dirty.n > 0)
            break; /* no room for more */
        n_drained += entry->block_bytes;
    }
    return result == AMPI_WORK_FULL && is_busy(device) ? AMPI_WORK_WAIT : result;
}

/* ---- Entries of a request ---- */

/* The buffer's range, and those of the request's other buffers that overlap it. */
static struct ampi_range range_of(const struct ampi_work *work, const struct ampi_work_buffer *buffer)
{
    struct ampi_range range = {buffer->rows.from, ampi_rows_end(&buffer->rows)};

    for (int i = 0; i < work->n_buffers && !work->is_apart; i++) {
        uintptr_t from = work->buffers[i].rows.from, to = ampi_rows_end(&work->buffers[i].rows);
        if (from < range.to && range.from < to && (from < range.from || to > range.to)) {
            range.from = from < range.from ? from : range.from;
            range.to = to > range.to ? to : range.to;
            i = -1; /* it may overlap more of them now */
        }
    }
    return range;
}

/* Removes the entries that overlap the range, which then includes them, unless that is too large for the GPU. */
static enum ampi_work_result join(struct ampi_work_device *device, struct ampi_range *range)
{
    struct ampi_work_table *table = &device->table;
    int first = ampi_work_table_find(table, range->from), end = first;
    struct ampi_range all = *range;
    bool is_ready = true;

    for (; end < table->n && table->entries[end]->from < range->to; end++) {
        struct ampi_work_entry *entry = table->entries[end];
        if (entry->valid.n > 0 || entry->block_bytes == 0) {
            all.from = entry->from < all.from ? entry->from : all.from;
            all.to = entry->to > all.to ? entry->to : all.to;
        }
        if (entry->n_users == 0)
            drain(device, entry, entry->from, entry->to);
        is_ready &= entry->dirty.n == 0 && ampi_work_entry_is_idle(table, entry);
    }
    if (!is_ready)
        return AMPI_WORK_WAIT;
    for (; end > first; end--)
        ampi_work_table_remove(table, table->entries[end - 1]);
    if (all.to - all.from > range->to - range->from && /* the driver takes its time to say what is free */
        all.to - all.from <= gpu_worker_capacity(device->worker) / 2)
        *range = all;
    return AMPI_WORK_READY;
}

/* Makes sure that one entry holds all of the buffer: buffer->entry, while no entry is removed. */
static enum ampi_work_result provide(struct ampi_work_device *device, const struct ampi_work *work,
                                     struct ampi_work_buffer *buffer)
{
    struct ampi_range range = range_of(work, buffer);
    struct ampi_work_entry *entry = ampi_work_table_get(&device->table, range.from, range.to);
    enum ampi_work_result result;

    buffer->entry = entry;
    if (entry)
        return AMPI_WORK_READY;
    result = join(device, &range);
    while (result == AMPI_WORK_READY && !entry) {
        entry = ampi_work_table_add(&device->table, range.from, range.to, buffer->is_device);
        if (!entry)
            result = make_room(device, range.to - range.from, work);
    }
    buffer->entry = entry;
    return result;
}

/* Looks for all entries again: one may have been removed for a later one of the request. */
static bool has_all(const struct ampi_work_device *device, const struct ampi_work *work)
{
    for (int i = 0; i < work->n_buffers; i++) {
        struct ampi_work_buffer *buffer = &work->buffers[i];
        buffer->entry = ampi_work_table_get(&device->table, buffer->rows.from, ampi_rows_end(&buffer->rows));
        if (!buffer->entry)
            return false;
    }
    return true;
}

/* Once the GPU is full though it is idle: all its data leaves, so that free memory is in one piece. FULL: it has left. */
static enum ampi_work_result purge(struct ampi_work_device *device)
{
    enum ampi_work_result result;

    do
        result = make_room(device, SIZE_MAX, NULL);
    while (result == AMPI_WORK_READY);
    if (result == AMPI_WORK_FULL)
        gpu_worker_trim(device->worker);
    return result;
}

/* ---- To a GPU ---- */

void ampi_work_upload_add(struct ampi_work_device *device, struct ampi_work_upload upload)
{
    if (device->n_uploads == device->uploads_room) {
        device->uploads_room = device->uploads_room ? 2 * device->uploads_room : 64;
        device->uploads = base_realloc(
            device->uploads, (size_t)device->uploads_room * sizeof *device->uploads, "uploads of work");
    }
    device->uploads[device->n_uploads++] = upload;
}

/* Adds what the GPU does not have of [from, to). */
static void upload(struct ampi_work_device *device, struct ampi_work_entry *entry, uintptr_t from,
                   uintptr_t to)
{
    struct ampi_range gap;

    while (ampi_ranges_first_gap(&entry->valid, from, to, &gap)) {
        ampi_work_upload_add(device,
                             (struct ampi_work_upload){.entry = entry,
                                                       .to = entry->address + (gap.from - entry->from),
                                                       .from = (const void *)gap.from,
                                                       .n_bytes = gap.to - gap.from});
        ampi_ranges_add(&entry->valid, gap.from, gap.to);
        from = gap.to;
    }
}

static void use(struct ampi_work_device *device, struct ampi_work_buffer *buffer)
{
    const struct ampi_rows *rows = &buffer->rows;
    struct ampi_work_entry *entry = buffer->entry;
    struct ampi_work_engine *engine = &ampi_work_engine;

    entry->n_users++;
    ampi_work_table_touch(&device->table, entry);
    if (buffer->is_device)
        return;
    for (size_t i = 0; i < rows->n; i++) {
        struct ampi_range row = ampi_rows_get(rows, i);
        if (buffer->access & AMPI_GPU_WORK_READ)
            upload(device, entry, row.from, row.to);
        if (buffer->access & AMPI_GPU_WORK_WRITE) {
            ampi_ranges_add(&entry->valid, row.from, row.to);
            ampi_ranges_add(&entry->dirty, row.from, row.to);
        }
    }
    for (int i = 0; i < engine->n_devices && (buffer->access & AMPI_GPU_WORK_WRITE); i++)
        if (engine->devices[i] && engine->devices[i] != device)
            drop_from(engine->devices[i], rows);
}

/* True if the host has the current value of what the GPU does not have of the buffer, and other GPUs' copies may be dropped. */
static bool is_current(struct ampi_work_device *device, const struct ampi_work_buffer *buffer)
{
    const struct ampi_rows *rows = &buffer->rows;

    if (buffer->is_device)
        return true;
    if (!settle_all(rows, device))
        return false;
    if (!(buffer->access & AMPI_GPU_WORK_READ) || device->n_drains == 0)
        return true;
    for (size_t i = 0; i < rows->n; i++)
        if (!ampi_ranges_contain(&buffer->entry->valid, ampi_rows_get(rows, i).from,
                                 ampi_rows_get(rows, i).to))
            return !ampi_ranges_overlap_rows(&device->draining, rows);
    return true;
}

/* +work no-reuse: all data that the request uses has come from the host. True: the host has it, and the GPU has no copy. */
static bool leave_all(struct ampi_work_device *device, const struct ampi_work *work)
{
    bool is_left = true;

    for (int i = 0; i < work->n_buffers; i++)
        if (!work->buffers[i].is_device)
            is_left &= settle_device(device, &work->buffers[i].rows);
    for (int i = 0; i < work->n_buffers && is_left; i++)
        drop_from(device, &work->buffers[i].rows);
    return is_left;
}

enum ampi_work_result ampi_work_data_take(struct ampi_work_device *device, struct ampi_work *work)
{
    enum ampi_work_result result = AMPI_WORK_READY;
    uint64_t n_removed = device->table.n_removed;

    if (gpu_worker_begin(device->worker))
        return AMPI_WORK_WAIT;
    if (base_settings.work_is_copied && !leave_all(device, work))
        result = AMPI_WORK_WAIT;
    for (int i = 0; i < work->n_buffers && result == AMPI_WORK_READY; i++)
        result = provide(device, work, &work->buffers[i]);
    if (result == AMPI_WORK_READY && n_removed != device->table.n_removed && !has_all(device, work))
        result = AMPI_WORK_FULL;
    for (int i = 0; i < work->n_buffers && result == AMPI_WORK_READY; i++)
        if (!is_current(device, &work->buffers[i]))
            result = AMPI_WORK_WAIT;
    if (device->error)
        result = AMPI_WORK_WAIT; /* it has failed meanwhile */
    if (result == AMPI_WORK_READY)
        for (int i = 0; i < work->n_buffers; i++)
            use(device, &work->buffers[i]);
    else if (result == AMPI_WORK_FULL)
        result = purge(device);
    gpu_worker_leave(device->worker);
    return result;
}

static bool is_there(struct ampi_work_device *device, const struct ampi_work_buffer *buffer)
{
    const struct ampi_work_entry *entry = buffer->entry;

    if (!entry || !gpu_worker_are_done(device->worker,
                                       buffer->access & AMPI_GPU_WORK_WRITE ? &entry->used : &entry->written))
        return false;
    for (size_t i = 0; i < buffer->rows.n && buffer->access & AMPI_GPU_WORK_READ && !buffer->is_device; i++)
        if (!ampi_ranges_contain(&entry->valid, ampi_rows_get(&buffer->rows, i).from,
                                 ampi_rows_get(&buffer->rows, i).to))
            return false;
    return is_current(device, buffer);
}

bool ampi_work_data_use_if_there(struct ampi_work_device *device, struct ampi_work *work)
{
    if (device->n_uploads > 0) /* of this round: their steps do not exist yet */
        return false;
    for (int i = 0; i < work->n_buffers; i++) {
        struct ampi_work_buffer *buffer = &work->buffers[i];
        buffer->entry = ampi_work_table_get(&device->table, buffer->rows.from, ampi_rows_end(&buffer->rows));
        if (!is_there(device, buffer))
            return false;
    }
    for (int i = 0; i < work->n_buffers; i++)
        use(device, &work->buffers[i]);
    return true;
}

/* ---- The end of a round ---- */

/* True if the second upload goes right behind the first one, and nothing but unused bytes lies between them. */
static bool are_neighbours(const struct ampi_work_upload *a, const struct ampi_work_upload *b)
{
    if (a->to + a->n_bytes == b->to)
        return true;
    return a->entry && b->entry && a->entry != b->entry &&
           a->to + a->n_bytes == a->entry->address + (a->entry->to - a->entry->from) &&
           b->to == b->entry->address &&
           a->entry->block + base_round_up(a->entry->block_bytes, GPU_WORKER_UNIT) == b->entry->block;
}

/* One copy for the uploads first .. end - 1, through pinned memory if there is some. */
static int copy_group(struct ampi_work_device *device, int first, int end)
{
    const struct ampi_work_upload *uploads = device->uploads;
    uint64_t at = uploads[first].to;
    size_t n_bytes = uploads[end - 1].to + uploads[end - 1].n_bytes - at;
    char *pinned = gpu_worker_stage(device->worker, n_bytes);
    int error = 0;

    ampi_work_engine.counts.in_copies++;
    if (pinned) {
        for (int i = first; i < end; i++)
            memcpy(pinned + (uploads[i].to - at), uploads[i].from, uploads[i].n_bytes);
        return gpu_worker_copy(device->worker, GPU_WORKER_IN, at, (uintptr_t)pinned, n_bytes);
    }
    for (int i = first; i < end && !error; i++)
        error = gpu_worker_copy_pageable(device->worker, uploads[i].to, uploads[i].from, uploads[i].n_bytes);
    return error;
}

static int copy_uploads(struct ampi_work_device *device)
{
    int error = 0, end;

    for (int i = 0; i < device->n_uploads && !error; i = end) {
        const struct ampi_work_upload *first = &device->uploads[i];
        for (end = i + 1; end < device->n_uploads; end++) {
            const struct ampi_work_upload *next = &device->uploads[end];
            if (!are_neighbours(next - 1, next) ||
                next->to + next->n_bytes - first->to > GPU_WORKER_STAGE_MAX)
                break;
        }
        error = copy_group(device, i, end);
    }
    return error;
}

/* The uploads come after all earlier uses of their entries. */
static int wait_for_uses(struct ampi_work_device *device)
{
    int error = 0;

    for (int i = 0; i < device->n_uploads && !error; i++) {
        const struct ampi_work_entry *entry = device->uploads[i].entry;
        if (entry && (i == 0 || device->uploads[i - 1].entry != entry))
            error = gpu_worker_wait(device->worker, GPU_WORKER_IN, &entry->used);
    }
    return error;
}

static int flush_uploads(struct ampi_work_device *device)
{
    uint64_t step = 0, since_ns = ult_now_ns();
    size_t n_bytes = 0;
    int error = wait_for_uses(device);

    if (!error)
        error = copy_uploads(device);
    if (!error)
        error = gpu_worker_end(device->worker, GPU_WORKER_IN, &step);
    for (int i = 0; i < device->n_uploads; i++) {
        struct ampi_work_entry *entry = device->uploads[i].entry;
        n_bytes += entry ? device->uploads[i].n_bytes : 0;
        if (entry)
            entry->used.of[GPU_WORKER_IN] = entry->written.of[GPU_WORKER_IN] = step;
    }
    ampi_work_engine.counts.in_bytes += n_bytes;
    ampi_work_moved_in(n_bytes, ult_now_ns() - since_ns);
    device->n_uploads = 0;
    return error;
}

int ampi_work_data_flush(struct ampi_work_device *device)
{
    uint64_t step;
    int error = 0;

    if (device->is_draining)
        error = gpu_worker_end(device->worker, GPU_WORKER_OUT, &step);
    device->is_draining = false;
    if (!error && device->n_uploads > 0)
        error = flush_uploads(device);
    return error;
}
