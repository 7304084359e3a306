/* SPDX-License-Identifier: BSD-3-Clause
 *
 * when.c: when the pending requests of a kind are launched. Those that come while the GPU is busy wait for others, so that they become one launch; those
 * that come while it is idle start soon.
 *
 * - A batch that is full goes.
 * - If fewer than TWO of the kind's launches are under way, the others go when all PEs that have submitted some are idle (engine.c), when they fill an
 *   idle GPU for SOME_NS, a busy one for ENOUGH_NS, or when a PE is idle and they are older than PATIENCE_NS.
 * - If TWO are, they go when they are older than PATIENCE_NS and the GPU has free places for blocks.
 * - If an operation on data waits for requests, all go (round.c).
 * - If fewer than TWO are under way, those older than OLD_NS go: other ranks may keep the PE from being idle for ever.
 *
 * The estimates adapt to the measured time per block.
 */
#include "ampi/work/work.h"

#define TWO 2        /* one that runs, and one that begins when it ends */
#define SOME_NS 20e3 /* a launch takes 10 us of the CPU */
#define ENOUGH_NS 200e3
#define PATIENCE_NS 50000
#define OLD_NS 1000000

void ampi_work_when_add(const struct ampi_work *work)
{
    struct ampi_work_engine *engine = &ampi_work_engine;
    struct ampi_work_kind *kind = work->kind;

    if (engine->n_active++ == 0 && engine->began_ns == 0)
        engine->began_ns = ult_now_ns();
    if (!kind->is_listed) {
        kind->is_listed = true;
        kind->next_pending = engine->kinds;
        engine->kinds = kind;
    }
    if (kind->n_pending++ == 0)
        kind->since_ns = ult_now_ns();
    kind->pending_blocks += work->n_blocks;
    kind->pending_bytes += ampi_work_table_bytes(work);
}

void ampi_work_when_remove(const struct ampi_work *work)
{
    struct ampi_work_kind *kind = work->kind;

    kind->n_pending--;
    kind->pending_blocks -= work->n_blocks;
    kind->pending_bytes -= ampi_work_table_bytes(work);
}

/* The GPU of a kind, if it works. */
static struct ampi_work_device *device_of(const struct ampi_work_kind *kind)
{
    struct ampi_work_device *device = kind->device >= 0 ? ampi_work_engine.devices[kind->device] : NULL;

    return device && !device->error ? device : NULL;
}

static bool has_places(const struct ampi_work_device *device)
{
    uint64_t n_threads = 0;

    for (int i = 0; i < AMPI_WORK_BATCHES; i++)
        if (device->batches[i].kind)
            n_threads += (uint64_t)device->batches[i].n_blocks * (unsigned)device->batches[i].kind->n_threads;
    return n_threads < gpu_worker_threads(device->worker);
}

/* True if a PE may submit more at once. */
static bool is_any_submitting(void)
{
    struct ampi_work_pe *pe = atomic_load_explicit(&ampi_work_engine.pes, memory_order_acquire);

    while (pe && !atomic_load_explicit(&pe->is_submitting, memory_order_relaxed))
        pe = pe->next;
    return pe != NULL;
}

static bool may_go(const struct ampi_work_kind *kind, bool is_idle, uint64_t now_ns)
{
    const struct ampi_work_device *device = device_of(kind);
    uint64_t age_ns = now_ns - kind->since_ns;
    bool is_old = age_ns >= PATIENCE_NS;

    if (!device)
        return is_idle || age_ns >= OLD_NS;
    if (kind->pending_bytes >= AMPI_WORK_TABLE_BYTES)
        return true;
    if (kind->n_launched >= TWO)
        return is_old && has_places(device);
    return age_ns >= OLD_NS || (is_idle && (is_old || !is_any_submitting())) ||
           device->pending_ns >= (device->n_batches > 0 ? ENOUGH_NS : SOME_NS);
}

/* Leaves kinds without requests out of the list, and sums up what is pending for each GPU. */
static void sum_up(struct ampi_work_engine *engine)
{
    struct ampi_work_kind **link = &engine->kinds;

    for (int i = 0; i < engine->n_devices; i++)
        if (engine->devices[i]) {
            engine->devices[i]->pending_ns = 0;
            if (engine->policy.way == AMPI_WORK_WAY_FIRST)
                engine->devices[i]->launched_ns = ampi_work_launched_ns(engine->devices[i]);
        }
    while (*link) {
        struct ampi_work_kind *kind = *link;
        struct ampi_work_device *device = device_of(kind);
        if (kind->n_pending == 0) {
            kind->is_listed = false;
            *link = kind->next_pending;
            continue;
        }
        if (device)
            device->pending_ns += (double)kind->pending_blocks * ampi_work_block_ns(kind);
        link = &kind->next_pending;
    }
}

bool ampi_work_when_choose(bool is_idle)
{
    struct ampi_work_engine *engine = &ampi_work_engine;
    uint64_t now_ns = engine->kinds ? ult_now_ns() : 0;
    bool is_due = engine->has_changed && engine->n_urgent > 0;

    sum_up(engine);
    for (struct ampi_work_kind *kind = engine->kinds; kind; kind = kind->next_pending) {
        kind->may_go = may_go(kind, is_idle, now_ns);
        is_due |= kind->may_go && (engine->has_changed || kind->was_held);
        is_due |= engine->has_changed && kind->n_pending > 0 && device_of(kind) &&
                  ampi_work_stay_has_room(device_of(kind), kind);
    }
    return is_due || (is_idle && engine->first && engine->policy.way == AMPI_WORK_WAY_FIRST);
}

void ampi_work_when_tried(void)
{
    for (struct ampi_work_kind *kind = ampi_work_engine.kinds; kind; kind = kind->next_pending)
        kind->was_held = !kind->may_go;
}
