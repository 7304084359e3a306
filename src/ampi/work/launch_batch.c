/* SPDX-License-Identifier: BSD-3-Clause
 *
 * launch_batch.c: requests of one kind as one launch. Within a round each kind has at most one open batch per GPU, which takes what fits into its
 * table; more than one launch of a kind is under way if the requests come in several rounds.
 *
 * A launch goes into the stream with the fewest steps, behind the steps that have written what it reads, and that have used what it writes.
 */
#include "ampi/work/work.h"

#include <string.h>

#include "base/settings.h"
#include "heddle_work.h"

static size_t args_bytes_of(const struct ampi_work *work)
{
    return base_round_up(work->kind->args_bytes, 16) +
           base_round_up((size_t)work->n_places * sizeof(uint64_t), 16);
}

size_t ampi_work_table_bytes(const struct ampi_work *work)
{
    return sizeof(struct HEDDLE_Work_entry) + args_bytes_of(work);
}

static bool has_stream(const struct ampi_work_device *device)
{
    int n_rooms = 0;

    for (int i = 0; i < GPU_WORKER_KERNELS; i++)
        n_rooms += gpu_worker_has_room(device->worker, i);
    return n_rooms == GPU_WORKER_KERNELS && gpu_worker_has_room(device->worker, GPU_WORKER_IN);
}

static bool can_open(const struct ampi_work_device *device)
{
    return device->n_batches < AMPI_WORK_BATCHES && has_stream(device);
}

static struct ampi_work_batch *open_batch(struct ampi_work_device *device, struct ampi_work_kind *kind)
{
    for (int i = 0; i < AMPI_WORK_BATCHES; i++) {
        struct ampi_work_batch *batch = &device->batches[i];
        if (batch->kind)
            continue;
        batch->kind = kind;
        batch->first = NULL;
        batch->end = &batch->first;
        batch->n_requests = batch->n_blocks = 0;
        batch->table_bytes = 0;
        batch->step = 0;
        device->n_batches++;
        return kind->open = batch;
    }
    BASE_ASSERT(!"a batch is free");
    return NULL;
}

enum ampi_work_result ampi_work_batch_add(struct ampi_work_device *device, struct ampi_work *work)
{
    struct ampi_work_batch *batch = work->kind->open;
    enum ampi_work_result result;

    if (batch ? batch->table_bytes + ampi_work_table_bytes(work) > AMPI_WORK_TABLE_BYTES ||
                    work->n_blocks > INT32_MAX - batch->n_blocks
              : !can_open(device))
        return AMPI_WORK_WAIT;
    result = ampi_work_data_take(device, work);
    if (result != AMPI_WORK_READY)
        return result;
    if (!batch)
        batch = open_batch(device, work->kind);
    batch->table_bytes += ampi_work_table_bytes(work);
    batch->n_requests++;
    batch->n_blocks += work->n_blocks;
    work->next = NULL;
    *batch->end = work;
    batch->end = &work->next;
    return AMPI_WORK_READY;
}

/* Writes a request's entry, and its arguments and addresses to `at`; all places count from `table`. Returns the place behind them. */
static size_t fill_entry(unsigned char *table, struct HEDDLE_Work_entry *entry, size_t at,
                         const struct ampi_work *work, uint32_t first_block)
{
    size_t args_bytes = base_round_up(work->kind->args_bytes, 16);
    uint64_t *addresses = (uint64_t *)(void *)(table + at + args_bytes);

    *entry =
        (struct HEDDLE_Work_entry){first_block, work->n_blocks, (uint32_t)at, (uint32_t)(at + args_bytes)};
    if (work->kind->args_bytes > 0)
        memcpy(table + at, work->args, work->kind->args_bytes);
    memset(addresses, 0, (size_t)work->n_places * sizeof *addresses);
    for (int i = 0; i < work->n_buffers; i++) {
        const struct ampi_work_buffer *buffer = &work->buffers[i];
        addresses[buffer->place] = ampi_work_gpu_address(buffer);
    }
    return at + args_bytes_of(work);
}

/* Writes the table. The entries come first, then each request's arguments and addresses. */
static void fill_table(struct ampi_work_batch *batch)
{
    struct HEDDLE_Work_entry *entries = (struct HEDDLE_Work_entry *)(void *)batch->image;
    size_t at = batch->n_requests * sizeof *entries;
    uint32_t first_block = 0;

    for (const struct ampi_work *work = batch->first; work; work = work->next) {
        at = fill_entry(batch->image, entries++, at, work, first_block);
        first_block += work->n_blocks;
    }
}

/* Writes a table for each request (+work no-combining). */
static void fill_tables(struct ampi_work_batch *batch)
{
    unsigned char *table = batch->image;

    for (const struct ampi_work *work = batch->first; work; work = work->next)
        table += fill_entry(table, (struct HEDDLE_Work_entry *)(void *)table,
                            sizeof(struct HEDDLE_Work_entry), work, 0);
}

static int freest_stream(const struct ampi_work_device *device)
{
    int best = 0;

    for (int i = 1; i < GPU_WORKER_KERNELS; i++)
        if (gpu_worker_load_of(device->worker, i) < gpu_worker_load_of(device->worker, best))
            best = i;
    return best;
}

static void raise_to(struct gpu_worker_steps *steps, const struct gpu_worker_steps *others)
{
    for (int i = 0; i < GPU_WORKER_STREAMS; i++)
        if (others->of[i] > steps->of[i])
            steps->of[i] = others->of[i];
}

/* The steps after which the batch may run. */
static struct gpu_worker_steps steps_before(const struct ampi_work_device *device,
                                            const struct ampi_work_batch *batch)
{
    struct gpu_worker_steps steps = {0};

    for (const struct ampi_work *work = batch->first; work; work = work->next)
        for (int i = 0; i < work->n_buffers; i++)
            raise_to(&steps, work->buffers[i].access & AMPI_GPU_WORK_WRITE
                                 ? &work->buffers[i].entry->used
                                 : &work->buffers[i].entry->written);
    steps.of[GPU_WORKER_IN] = gpu_worker_next(device->worker, GPU_WORKER_IN) - 1; /* the table */
    return steps;
}

static void record_uses(const struct ampi_work_batch *batch)
{
    for (const struct ampi_work *work = batch->first; work; work = work->next)
        for (int i = 0; i < work->n_buffers; i++) {
            struct ampi_work_entry *entry = work->buffers[i].entry;
            entry->n_users--;
            entry->used.of[batch->stream] = batch->step;
            if (work->buffers[i].access & AMPI_GPU_WORK_WRITE)
                entry->written.of[batch->stream] = batch->step;
            work->buffers[i].entry = NULL;
        }
}

/* One launch for all requests. */
static int queue_batch(struct ampi_work_device *device, struct ampi_work_batch *batch,
                       const struct gpu_worker_steps *before)
{
    struct HEDDLE_Work_launch parameter = {batch->table, batch->n_requests, batch->n_blocks};
    int error = gpu_worker_wait(device->worker, batch->stream, before);

    ampi_work_engine.counts.n_launches++;
    return error ? error
                 : gpu_worker_launch(device->worker, batch->stream, batch->kind->kernel,
                                     (unsigned)batch->kind->n_threads, &parameter);
}

/* A launch for each request, in all streams. The batch's own stream goes on when all have ended. */
static int queue_apart(struct ampi_work_device *device, const struct ampi_work_batch *batch,
                       const struct gpu_worker_steps *before)
{
    struct gpu_worker_steps ends = {0};
    int error = 0, stream = 0;
    size_t at = 0;

    for (int i = 0; i < GPU_WORKER_KERNELS && !error; i++)
        error = gpu_worker_wait(device->worker, i, before);
    for (const struct ampi_work *work = batch->first; work && !error; work = work->next) {
        struct HEDDLE_Work_launch parameter = {batch->table + at, 1, work->n_blocks};
        error = gpu_worker_launch(device->worker, stream, batch->kind->kernel,
                                  (unsigned)batch->kind->n_threads, &parameter);
        stream = (stream + 1) % GPU_WORKER_KERNELS;
        at += ampi_work_table_bytes(work);
        ampi_work_engine.counts.n_launches++;
    }
    for (int i = 0; i < GPU_WORKER_KERNELS && !error; i++)
        if (i != batch->stream)
            error = gpu_worker_end(device->worker, i, &ends.of[i]);
    return error ? error : gpu_worker_wait(device->worker, batch->stream, &ends);
}

static int launch(struct ampi_work_device *device, struct ampi_work_batch *batch)
{
    struct gpu_worker_steps before = steps_before(device, batch);
    int error;

    batch->stream = freest_stream(device);
    batch->begun_ns = ult_now_ns();
    error = (base_settings.work_is_apart ? queue_apart(device, batch, &before)
                                         : queue_batch(device, batch, &before));
    if (!error)
        error = gpu_worker_end(device->worker, batch->stream, &batch->step);
    batch->kind->n_launched++;
    batch->kind->since_ns = batch->begun_ns;
    ampi_work_engine.counts.n_requests += batch->n_requests;
    record_uses(batch);
    return error;
}

static int launch_all(struct ampi_work_device *device)
{
    int error;

    for (int i = 0; i < AMPI_WORK_BATCHES; i++) {
        struct ampi_work_batch *batch = &device->batches[i];
        if (!batch->kind || batch->step)
            continue;
        (base_settings.work_is_apart ? fill_tables : fill_table)(batch);
        ampi_work_upload_add(device, (struct ampi_work_upload){.to = batch->table,
                                                               .from = batch->image,
                                                               .n_bytes = batch->table_bytes});
    }
    error = ampi_work_data_flush(device);
    for (int i = 0; i < AMPI_WORK_BATCHES && !error; i++) {
        struct ampi_work_batch *batch = &device->batches[i];
        if (!batch->kind || batch->step)
            continue;
        batch->kind->open = NULL;
        error = launch(device, batch);
    }
    return error;
}

void ampi_work_batches_launch(struct ampi_work_device *device)
{
    int error = gpu_worker_begin(device->worker);

    if (!error) {
        error = launch_all(device);
        gpu_worker_leave(device->worker);
    }
    if (BASE_UNLIKELY(error != 0))
        ampi_work_device_fail(device, error);
}

static void finish_batch(struct ampi_work_device *device, struct ampi_work_batch *batch, uint64_t now_ns)
{
    uint64_t since_ns = batch->begun_ns > device->done_ns ? batch->begun_ns : device->done_ns;

    ampi_work_measured(device, batch, now_ns - since_ns);
    if (device->stay.gpu && batch->n_blocks <= HEDDLE_WORK_PLACES)
        ampi_work_stay_want(device, batch->kind, now_ns - batch->begun_ns, now_ns);
    device->done_ns = now_ns;
    while (batch->first) {
        struct ampi_work *work = batch->first;
        batch->first = work->next;
        ampi_work_finish(work);
    }
    batch->kind->n_launched--;
    batch->kind = NULL;
    device->n_batches--;
}

void ampi_work_batches_poll(struct ampi_work_device *device)
{
    uint64_t now_ns = device->n_batches > 0 ? ult_now_ns() : 0;

    for (int i = 0; i < AMPI_WORK_BATCHES && device->n_batches > 0; i++) {
        struct ampi_work_batch *batch = &device->batches[i];
        if (batch->kind && batch->step && gpu_worker_is_done(device->worker, batch->stream, batch->step))
            finish_batch(device, batch, now_ns);
    }
}
