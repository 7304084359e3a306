/* SPDX-License-Identifier: BSD-3-Clause
 *
 * work_usage.c: wrong use of memory by work requests: memory that is freed while a request that is not done uses it (always found, if MPI allocated it),
 * and, with +check usage, bytes that requests of several ranks write at the same time. These are right in any order but one: requests run in the order
 * of their submission, which may differ from run to run.
 *
 * Each operation is compared with all earlier ones that are not done, so that the check costs nothing without the option.
 */
#include "ampi/work/work.h"

#include "ampi/object/error.h"
#include "base/log.h"
#include "base/settings.h"

static bool is_written(const struct ampi_work_buffer *buffer)
{
    return buffer->access & AMPI_GPU_WORK_WRITE;
}

/* The buffer of a request that overlaps one of the operation; both are written, unless is_any. NULL: there is none. */
static const struct ampi_work_buffer *overlap(const struct ampi_work *work, const struct ampi_work *earlier,
                                              bool is_any)
{
    for (int i = 0; i < work->n_buffers; i++)
        for (int j = 0; j < earlier->n_buffers; j++)
            if ((is_any || (is_written(&work->buffers[i]) && is_written(&earlier->buffers[j]))) &&
                work->buffers[i].rows.from < ampi_rows_end(&earlier->buffers[j].rows) &&
                earlier->buffers[j].rows.from < ampi_rows_end(&work->buffers[i].rows) &&
                ampi_rows_overlap(&work->buffers[i].rows, &earlier->buffers[j].rows))
                return &work->buffers[i];
    return NULL;
}

/* True: the look is over. */
static bool compare(struct ampi_work *work, const struct ampi_work *earlier)
{
    bool is_free = work->what == AMPI_WORK_FREE;
    const struct ampi_work_buffer *buffer;

    if (earlier->what != AMPI_WORK_RUN || (!is_free && earlier->owner == work->owner) ||
        !(buffer = overlap(work, earlier, is_free)))
        return false;
    if (is_free) {
        work->error = MPI_ERR_BASE;
        work->kind = earlier->kind;
        work->user = ampi_rank_number(earlier->owner);
        return true;
    }
    work->kind->is_reported = true;
    base_log(
        "rank %d: a work request of the kind \"%s\" writes memory at %p that one of rank %d, of the kind "
        "\"%s\", writes, too: they run in the order of their submission",
        ampi_rank_number(work->owner), work->kind->name, (void *)buffer->rows.from,
        ampi_rank_number(earlier->owner), earlier->kind->name);
    return true;
}

static bool compare_list(struct ampi_work *work, const struct ampi_work *list)
{
    while (list && list != work && !compare(work, list))
        list = list->next;
    return list && list != work;
}

static bool compare_orders(struct ampi_work *work, const struct ampi_work_stay *stay)
{
    bool is_over = false;

    for (int i = 0; i < HEDDLE_WORK_PLACES && stay->n_busy > 0 && !is_over; i++)
        is_over = stay->at[i] && compare(work, stay->at[i]);
    return is_over;
}

void ampi_work_usage_look(struct ampi_work *work)
{
    struct ampi_work_engine *engine = &ampi_work_engine;
    bool is_over = work->what == AMPI_WORK_FREE
                       ? false
                       : work->what != AMPI_WORK_RUN || !base_settings.check_usage || work->kind->is_reported;

    for (int i = 0; i < engine->n_devices && !is_over; i++)
        is_over = engine->devices[i] && compare_orders(work, &engine->devices[i]->stay);
    for (int i = 0; i < engine->n_devices && !is_over; i++)
        for (int j = 0; engine->devices[i] && j < AMPI_WORK_BATCHES && !is_over; j++)
            if (engine->devices[i]->batches[j].kind)
                is_over = compare_list(work, engine->devices[i]->batches[j].first);
    if (!is_over && !compare_list(work, engine->on_cpu))
        compare_list(work, engine->first);
}

int ampi_work_usage_free(const void *memory, size_t n_bytes)
{
    uintptr_t from = (uintptr_t)memory;
    struct ampi_work_buffer buffer = {.rows = {.from = from, .row_bytes = n_bytes, .n = 1, .stride = n_bytes},
                                      .access = AMPI_GPU_WORK_READWRITE};
    struct ampi_work work = {.what = AMPI_WORK_FREE, .n_buffers = 1, .buffers = &buffer};

    if (n_bytes == 0 || !ult_self() || !ult_has_pe(ult_self()) || !ampi_work_may_use(from, from + n_bytes))
        return MPI_SUCCESS;
    ampi_work_do_operation(&work);
    return work.error
               ? ampi_raise_self(work.error,
                                 "a work request of the kind \"%s\" of rank %d uses this memory, and is "
                                 "not done",
                                 work.kind->name, work.user)
               : MPI_SUCCESS;
}
