/* SPDX-License-Identifier: BSD-3-Clause
 *
 * engine.c: the queue of operations, and whose turn it is. See work.h.
 */
#include "ampi/work/work.h"

#include "ampi/datatype/buffer.h"
#include "ampi/object/error.h"
#include "base/log.h"
#include "base/settings.h"

struct ampi_work_engine ampi_work_engine = {.end = &ampi_work_engine.first};

/* ---- The PE ---- */

/* A PE is idle if no rank is ready, or if those that are have submitted nothing in so many polls: they may test their requests again and again. */
#define QUIET_POLLS 8

static int poll(struct ult_source *source)
{
    struct ampi_work_pe *pe = BASE_CONTAINER(source, struct ampi_work_pe, source);
    uint64_t before = source->pending;
    bool is_idle;

    if (before == 0)
        return 0;
    is_idle = !ult_pe_has_ready(pe->pe) || ++pe->n_quiet > QUIET_POLLS;
    if (is_idle)
        atomic_store_explicit(&pe->is_submitting, false, memory_order_relaxed);
    ampi_work_turn(is_idle);
    return source->pending < before ? (int)(before - source->pending) : 0;
}

static BASE_COLD struct ampi_work_pe *make_pe(void)
{
    struct ampi_work_pe *made = base_calloc(1, sizeof *made, "a PE's work requests");

    made->source = (struct ult_source){.poll = poll, .fd = -1};
    made->pe = ult_self()->pe;
    ult_pe_add_source(made->pe, &made->source);
    made->next = atomic_load_explicit(&ampi_work_engine.pes, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&ampi_work_engine.pes, &made->next, made,
                                                  memory_order_release, memory_order_relaxed))
        continue;
    atomic_fetch_add_explicit(&ampi_work_engine.n_pes, 1, memory_order_relaxed);
    return *ult_pe_slot(ULT_PE_SLOT_WORK) = made;
}

struct ampi_work_pe *ampi_work_pe_self(void)
{
    struct ampi_work_pe *pe = *ult_pe_slot(ULT_PE_SLOT_WORK);

    return BASE_LIKELY(pe != NULL) ? pe : make_pe();
}

/* ---- Delivering ---- */

static void wake_all(struct ampi_work_rank *rank)
{
    while (rank->waiters) {
        struct ult *ult = rank->waiters->ult;
        rank->waiters = rank->waiters->next;
        ult_ready(ult);
    }
}

void ampi_work_wait_all(struct ampi_work_rank *rank)
{
    while (rank->n_active > 0) {
        struct ampi_work_waiter waiter = {rank->waiters, ult_self()};
        rank->waiters = &waiter;
        ult_suspend();
    }
}

static void deliver_run(struct ampi_work *work)
{
    struct ampi_request *request = work->request;
    struct ampi_work_rank *rank = work->owner->work;
    struct ampi_work_pe *pe = work->pe;

    request->status.MPI_ERROR = work->error;
    if (BASE_UNLIKELY(work->gpu_error != 0)) {
        base_log(
            "rank %d: a work request of the kind \"%s\", or another one in the same launch, has failed: %s",
            ampi_rank_number(work->owner), work->kind->name, gpu_error_text(work->gpu_error));
        request->status.MPI_ERROR = ampi_device_error(work->owner, work->gpu_error);
    } else if (BASE_UNLIKELY(work->error)) { /* if the request was freed, nobody else says so */
        base_log(
            "rank %d: a work request of the kind \"%s\" has no room on its GPU, and the CPU cannot do it",
            ampi_rank_number(work->owner), work->kind->name);
    }
    request->u.extra = NULL;
    work->next = pe->spare;
    pe->spare = work;
    if (--rank->n_active == 0)
        wake_all(rank);
    ampi_request_complete(request);
}

static void deliver(struct ampi_work *work)
{
    if (--work->pe->source.pending == 0) /* it polls no more */
        atomic_store_explicit(&work->pe->is_submitting, false, memory_order_relaxed);
    if (work->what == AMPI_WORK_RUN) {
        deliver_run(work);
        return;
    }
    work->is_done = true;
    if (work->waiter)
        ult_ready(work->waiter);
}

static void deliver_here(struct ult_wakeup *wakeup)
{
    deliver(BASE_CONTAINER(wakeup, struct ampi_work, wakeup));
}

static void deliver_all(struct ampi_work *list)
{
    const struct ult_pe *here = ult_self()->pe;

    while (list) {
        struct ampi_work *work = list;
        list = work->next;
        if (work->pe->pe == here) {
            deliver(work);
        } else {
            work->wakeup.handle = deliver_here;
            ult_post_wakeup(work->pe->pe, &work->wakeup);
        }
    }
}

void ampi_work_finish(struct ampi_work *work)
{
    if (work->what == AMPI_WORK_RUN)
        ampi_work_counted(work);
    work->next = ampi_work_engine.finished;
    ampi_work_engine.finished = work;
    ampi_work_engine.has_changed = true;
}

/* ---- The turn ---- */

void ampi_work_push(struct ampi_work *work)
{
    struct ampi_work_engine *engine = &ampi_work_engine;

    work->pe->source.pending++;
    work->pe->n_quiet = 0;
    atomic_store_explicit(&work->pe->is_submitting, true, memory_order_relaxed);
    work->next = atomic_load_explicit(&engine->arrived, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&engine->arrived, &work->next, work, memory_order_release,
                                                  memory_order_relaxed))
        continue;
}

static void take_arrived(struct ampi_work_engine *engine)
{
    struct ampi_work *newest = atomic_exchange_explicit(&engine->arrived, NULL, memory_order_acquire);
    struct ampi_work *oldest = NULL, *last = newest;

    if (!newest)
        return;
    while (newest) {
        struct ampi_work *work = newest;
        newest = work->next;
        work->next = oldest;
        oldest = work;
        if (work->what == AMPI_WORK_RUN)
            ampi_work_when_add(work);
        else
            engine->n_urgent++;
    }
    *engine->end = oldest;
    engine->end = &last->next;
    engine->has_changed = true;
    for (; oldest; oldest = oldest->next)
        ampi_work_usage_look(oldest);
}

static void run(struct ampi_work_engine *engine, bool is_idle)
{
    take_arrived(engine);
    for (int i = 0; i < engine->n_devices; i++) {
        struct ampi_work_device *device = __atomic_load_n(&engine->devices[i], __ATOMIC_ACQUIRE);
        int error = device && !device->error ? gpu_worker_poll(device->worker) : 0;
        if (error)
            ampi_work_device_fail(device, error);
        if (device) {
            ampi_work_data_arrived(device);
            ampi_work_batches_poll(device);
            ampi_work_stay_poll(device);
        }
    }
    ampi_work_cpu_poll();
    if (ampi_work_when_choose(is_idle))
        while (engine->first && ampi_work_round(is_idle))
            continue;
}

void ampi_work_turn(bool is_idle)
{
    struct ampi_work_engine *engine = &ampi_work_engine;
    struct ampi_work *finished;

    do {
        if (atomic_exchange_explicit(&engine->is_running, true, memory_order_acquire))
            return;
        run(engine, is_idle);
        finished = engine->finished;
        engine->finished = NULL;
        atomic_store_explicit(&engine->is_running, false, memory_order_release);
        deliver_all(finished);
    } while (atomic_load_explicit(&engine->arrived, memory_order_relaxed));
}

void ampi_work_do_operation(struct ampi_work *work)
{
    work->pe = ampi_work_pe_self();
    ampi_work_push(work);
    if (!ult_pe_has_ready(
            work->pe->pe)) /* otherwise other ranks' operations may come, and be done together */
        ampi_work_turn(false);
    if (!work->is_done) {
        work->waiter = ult_self();
        ult_suspend();
    }
}

int ampi_work_do(enum ampi_work_what what, uintptr_t from, uintptr_t to)
{
    struct ampi_work_buffer buffer = {
        .rows = {.from = from, .row_bytes = to - from, .n = 1, .stride = to - from},
        .access =
            what == AMPI_WORK_SYNC || what >= AMPI_WORK_PIN ? AMPI_GPU_WORK_READ : AMPI_GPU_WORK_READWRITE};
    struct ampi_work work = {.what = what, .n_buffers = 1, .buffers = &buffer};

    ampi_work_do_operation(&work);
    return work.gpu_error;
}

/* ---- Devices ---- */

/* Memory of a device for the tables, and for the kernel that stays. */
#define OWN_BYTES ((size_t)AMPI_WORK_BATCHES * AMPI_WORK_TABLE_BYTES + GPU_WORKER_UNIT)

static int open_tables(struct ampi_work_device *device)
{
    int error = gpu_worker_begin(device->worker);
    uint64_t tables;

    if (error)
        return error;
    if (gpu_worker_take(device->worker, OWN_BYTES, &tables)) {
        for (int i = 0; i < AMPI_WORK_BATCHES; i++) {
            device->batches[i].table = tables + (uint64_t)i * AMPI_WORK_TABLE_BYTES;
            device->batches[i].image = base_malloc(AMPI_WORK_TABLE_BYTES, "the table of a launch");
        }
        if (!base_settings.work_is_apart && !base_settings.work_is_copied)
            error = gpu_stay_create(device->number, tables + OWN_BYTES - GPU_WORKER_UNIT, &device->stay.gpu);
    } else {
        error = GPU_WORK_NO_MEMORY;
    }
    gpu_worker_leave(device->worker);
    return error;
}

struct ampi_work_device *ampi_work_device_open(int number, int *error_out)
{
    struct ampi_work_engine *engine = &ampi_work_engine;
    size_t budget = base_settings.work_bytes;
    struct ampi_work_device *device = __atomic_load_n(&engine->devices[number], __ATOMIC_ACQUIRE);

    if (device)
        return device;
    device = base_calloc(1, sizeof *device, "a GPU's work");
    device->number = number;
    budget += budget ? OWN_BYTES : 0;
    *error_out = gpu_worker_create(number, budget, &device->worker);
    if (!*error_out)
        *error_out = open_tables(device);
    if (*error_out) {
        free(
            device); /* a worker without memory is not used again: the job ends with this error, or uses the CPU */
        return NULL;
    }
    device->table.worker = device->worker;
    if (engine->n_devices <= number)
        __atomic_store_n(&engine->n_devices, number + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&engine->devices[number], device, __ATOMIC_RELEASE);
    return device;
}

void ampi_work_device_fail(struct ampi_work_device *device, int error)
{
    device->error = error;
    device->n_drains = device->n_uploads = 0;
    ampi_ranges_clear(&device->draining);
    for (int i = 0; i < device->table.n; i++) {
        ampi_ranges_clear(&device->table.entries[i]->valid);
        ampi_ranges_clear(&device->table.entries[i]->dirty);
    }
    for (int i = 0; i < AMPI_WORK_BATCHES; i++)
        while (device->batches[i].first) {
            struct ampi_work *work = device->batches[i].first;
            device->batches[i].first = work->next;
            work->gpu_error = error;
            ampi_work_finish(work);
        }
    for (int i = 0; i < AMPI_WORK_BATCHES; i++)
        if (device->batches[i].kind) {
            device->batches[i].kind->open = NULL;
            device->batches[i].kind->n_launched = 0;
            device->batches[i].kind = NULL;
        }
    device->n_batches = 0;
    ampi_work_stay_fail(device);
    ampi_work_engine.has_changed = true;
}
