/* SPDX-License-Identifier: BSD-3-Clause
 *
 * round.c: which pending operations are taken now, in one pass over all of them.
 *
 * The bytes of every operation that the pass has seen, taken or not, are in `reads` and `writes`. An operation that conflicts with them
 * waits for a later round: so conflicting operations go in order, and all others are combined, however deep the chains of a rank are.
 * Requests on the CPU, and those of a kernel that stays, are there until they are done. Those of a launch are not: streams order them (launch_batch.c).
 */
#include "ampi/work/work.h"

static bool conflicts(const struct ampi_work_engine *engine, const struct ampi_work *work)
{
    for (int i = 0; i < work->n_buffers; i++) {
        const struct ampi_work_buffer *buffer = &work->buffers[i];
        if (ampi_ranges_overlap_rows(&engine->writes, &buffer->rows) ||
            ((buffer->access & AMPI_GPU_WORK_WRITE) &&
             ampi_ranges_overlap_rows(&engine->reads, &buffer->rows)))
            return true;
    }
    return false;
}

static void mark(struct ampi_work_engine *engine, const struct ampi_work *work)
{
    for (int i = 0; i < work->n_buffers; i++)
        ampi_ranges_add_rows(work->buffers[i].access & AMPI_GPU_WORK_WRITE ? &engine->writes : &engine->reads,
                             &work->buffers[i].rows);
}

static void mark_orders(struct ampi_work_engine *engine, const struct ampi_work_stay *stay)
{
    for (int i = 0; i < HEDDLE_WORK_PLACES && stay->n_busy > 0; i++)
        if (stay->at[i] && (i == 0 || stay->at[i] != stay->at[i - 1]))
            mark(engine, stay->at[i]);
}

/* ---- Operations on data ---- */

static int error_of_any(const struct ampi_work_engine *engine)
{
    for (int i = 0; i < engine->n_devices; i++)
        if (engine->devices[i] && engine->devices[i]->error)
            return engine->devices[i]->error;
    return 0;
}

/* True: it is done. */
static bool do_data(struct ampi_work_engine *engine, struct ampi_work *work)
{
    const struct ampi_rows *rows = &work->buffers[0].rows;

    if (work->what == AMPI_WORK_PIN || work->what == AMPI_WORK_UNPIN) {
        (work->what == AMPI_WORK_PIN ? ampi_ranges_add_rows : ampi_ranges_remove_rows)(&engine->pins, rows);
        return true;
    }
    if (work->what == AMPI_WORK_DROP || work->what == AMPI_WORK_FREE)
        ampi_work_data_forget(rows);
    if (!ampi_work_data_settle(rows))
        return false;
    if (work->what == AMPI_WORK_RECEIVE)
        ampi_work_data_drop(rows);
    work->gpu_error = error_of_any(engine);
    return true;
}

/* ---- Requests ---- */

enum outcome {
    WAITS,
    HELD, /* the same: until its kind may go */
    TAKEN,
    OVER
};

static enum outcome take_to_cpu(struct ampi_work *work)
{
    bool is_ready = ampi_work_data_is_read();

    if (work->chosen_ns == 0)
        ampi_work_cpu_chosen(work);
    for (int i = 0; i < work->n_buffers; i++)
        is_ready &= ampi_work_data_settle(&work->buffers[i].rows);
    if (!is_ready)
        return WAITS;
    for (int i = 0; i < work->n_buffers; i++)
        if (work->buffers[i].access & AMPI_GPU_WORK_WRITE)
            ampi_work_data_drop(&work->buffers[i].rows);
    ampi_work_cpu_start(work);
    return TAKEN;
}

static bool has_device_buffer(const struct ampi_work *work)
{
    for (int i = 0; i < work->n_buffers; i++)
        if (work->buffers[i].is_device)
            return true;
    return false;
}

/* Attempts to make room for a request on an idle GPU: its own data may be what fills the GPU, in pieces. */
#define REFUSALS_MAX 3

static enum outcome take_to_gpu(struct ampi_work_device *device, struct ampi_work *work)
{
    enum ampi_work_result result = ampi_work_batch_add(device, work);

    if (result == AMPI_WORK_READY)
        return TAKEN;
    if (result == AMPI_WORK_WAIT)
        return WAITS;
    if (++work->n_refusals < REFUSALS_MAX) {
        ampi_work_engine.has_changed = true; /* there may be room now, and nothing else would say so */
        return WAITS;
    }
    if (work->cpu && !has_device_buffer(work))
        return take_to_cpu(work);
    work->error = MPI_ERR_NO_MEM;
    return OVER;
}

static enum outcome take_run(struct ampi_work_engine *engine, struct ampi_work *work, bool is_idle)
{
    struct ampi_work_device *device = work->kind->device >= 0 ? engine->devices[work->kind->device] : NULL;

    if (!device || work->is_for_cpu || ampi_work_cpu_is_better(device, work, is_idle))
        return take_to_cpu(work);
    if (BASE_UNLIKELY(device->error != 0)) {
        work->gpu_error = device->error;
        return OVER;
    }
    if (ampi_work_stay_take(device, work))
        return TAKEN;
    if (!work->kind->may_go && !engine->is_forced)
        return HELD;
    return take_to_gpu(device, work);
}

static enum outcome take(struct ampi_work_engine *engine, struct ampi_work *work, bool is_idle)
{
    if (work->what == AMPI_WORK_RUN)
        return take_run(engine, work, is_idle);
    return do_data(engine, work) ? OVER : WAITS;
}

static void unlink_pending(struct ampi_work_engine *engine, struct ampi_work **link)
{
    struct ampi_work *work = *link;

    *link = work->next;
    if (engine->end == &work->next)
        engine->end = link;
    if (work->what == AMPI_WORK_RUN)
        ampi_work_when_remove(work);
    else
        engine->n_urgent--;
}

/* One pass. A request that is taken is on a list of its own afterwards, so it is unlinked first. */
static bool pass(struct ampi_work_engine *engine, bool is_idle)
{
    struct ampi_work **link = &engine->first;
    bool has_taken = false, has_held = false;

    while (*link) {
        struct ampi_work *work = *link, *next = work->next;
        bool is_over = work->what == AMPI_WORK_FREE && work->error;
        bool is_late = !is_over && conflicts(engine, work);
        enum outcome outcome = is_over ? OVER : is_late ? WAITS : take(engine, work, is_idle);
        has_held |= outcome == HELD;
        engine->must_go |= is_late && has_held && work->what != AMPI_WORK_RUN;
        if (outcome <= HELD) {
            link = &work->next;
        } else {
            struct ampi_work *after = work->next; /* take has linked it into another list */
            work->next = next;
            unlink_pending(engine, link);
            work->next = after;
            has_taken = true;
        }
        if (outcome == OVER)
            ampi_work_finish(work);
        else
            mark(engine, work);
    }
    return has_taken;
}

bool ampi_work_round(bool is_idle)
{
    struct ampi_work_engine *engine = &ampi_work_engine;
    bool has_taken;

    engine->has_changed = false;
    engine->is_forced = engine->must_go;
    engine->must_go = false;
    ampi_ranges_clear(&engine->reads);
    ampi_ranges_clear(&engine->writes);
    for (const struct ampi_work *i = engine->on_cpu; i; i = i->next)
        mark(engine, i);
    for (int i = 0; i < engine->n_devices; i++)
        if (engine->devices[i])
            mark_orders(engine, &engine->devices[i]->stay);
    has_taken = pass(engine, is_idle);
    for (int i = 0; i < engine->n_devices; i++)
        if (engine->devices[i] && !engine->devices[i]->error)
            ampi_work_batches_launch(engine->devices[i]);
    ampi_work_when_tried();
    return has_taken || engine->must_go;
}
