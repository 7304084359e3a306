/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cpu.c: requests that run on the CPU, and the choice between CPU and GPU (+work).
 *
 * The CPU's function runs as an errand on a ULT of the rank that has submitted the request, with the rank's copy of the program and its thread-local
 * variables, when that ULT blocks: so while the PE would otherwise idle.
 *
 * With +work both the policy (policy.h) says which way requests go. Where each goes to where it ends first, the CPU takes it if its PE idles, and is
 * estimated to be done before the GPU would be: with what each has to do before, and the data that would have to move (choice.c). Where all go to GPUs, the
 * CPU does a few, in 1 part in TRIAL_SHARE of the time, so that the policy knows the CPU's speed.
 */
#include "ampi/work/work.h"

#include "ampi/object/gate.h"
#include "ampi/work/choice.h"

#define WEIGHT 0.25           /* of a new measurement in a running average */
#define UNKNOWN_BLOCK_NS 200. /* until the first measurement */
#define TRIALS 3              /* of a kind and size: the first may find its data in no cache */
#define TRIAL_AFTER_NS 50e6   /* a program that ends before is not worth one */
#define TRIAL_SHARE 100       /* experiments of the policy come on top */
#define BYTE_NS 0.1           /* of a move through pinned memory, until the first measurement */
#define LARGE_BYTES 4096      /* a move of fewer says nothing of the time per byte */
#define UNIT_BETTER 0.9       /* a unit that changes by less stays */

enum ampi_work_mode ampi_work_mode;

void ampi_work_average(double *average, double value)
{
    *average = *average > 0 ? *average + WEIGHT * (value - *average) : value;
}

static int class_of(const struct ampi_work *work)
{
    return 31 - __builtin_clz(work->n_blocks);
}

double ampi_work_block_ns(const struct ampi_work_kind *kind)
{
    return kind->block_ns > 0 ? kind->block_ns : UNKNOWN_BLOCK_NS;
}

/* Without the fixed part of a launch, which would make small launches look like much work, and so lead to more of them. */
void ampi_work_measured(struct ampi_work_device *device, struct ampi_work_batch *batch, uint64_t duration_ns)
{
    if (device->least_ns == 0 || duration_ns < device->least_ns)
        device->least_ns = duration_ns;
    ampi_work_average(&batch->kind->block_ns, 1 + (double)(duration_ns - device->least_ns) / batch->n_blocks);
}

/* ---- The choice ---- */

/* A value of the class, from the nearest one that was measured. 0: none was. */
static double nearest(const double *measured, int class)
{

    for (int distance = 0; distance < AMPI_WORK_SIZES; distance++) {
        if (class - distance >= 0 && measured[class - distance] > 0)
            return measured[class - distance] * (double)(UINT64_C(1) << distance);
        if (class + distance < AMPI_WORK_SIZES && measured[class + distance] > 0)
            return measured[class + distance] / (double)(UINT64_C(1) << distance);
    }
    return 0;
}

static double cpu_ns_of(const struct ampi_work *work)
{
    return nearest(work->kind->cpu_ns, class_of(work));
}

static double unit_ns_of(const struct ampi_work *work)
{
    return nearest(work->kind->unit_ns, class_of(work));
}

/* Adds up what would have to move. */
static void count_bytes(const struct ampi_work_table *table, const struct ampi_work_buffer *buffer,
                        struct ampi_work_situation *situation)
{
    const struct ampi_rows *rows = &buffer->rows;
    size_t valid_bytes = 0, dirty_bytes = 0;

    for (int i = ampi_work_table_find(table, rows->from);
         i < table->n && table->entries[i]->from < ampi_rows_end(rows); i++) {
        valid_bytes += ampi_ranges_count_rows(&table->entries[i]->valid, rows);
        dirty_bytes += ampi_ranges_count_rows(&table->entries[i]->dirty, rows);
    }
    if (buffer->access & AMPI_GPU_WORK_READ) {
        situation->to_gpu_bytes += rows->n * rows->row_bytes - valid_bytes;
        situation->from_gpu_bytes += dirty_bytes;
    }
    if (buffer->access & AMPI_GPU_WORK_WRITE)
        situation->stale_bytes += valid_bytes;
}

double ampi_work_launched_ns(const struct ampi_work_device *device)
{
    uint64_t now_ns = ult_now_ns(), since_ns = now_ns;
    double sum = 0;

    for (int i = 0; i < AMPI_WORK_BATCHES; i++) {
        const struct ampi_work_batch *batch = &device->batches[i];
        if (!batch->kind)
            continue;
        sum += batch->n_blocks * ampi_work_block_ns(batch->kind);
        since_ns = batch->begun_ns < since_ns ? batch->begun_ns : since_ns;
    }
    sum -= (double)(now_ns - (device->done_ns > since_ns ? device->done_ns : since_ns));
    return sum > 0 ? sum : 0;
}

/* The GPUs' time for what they have to do: as kernels, and as the ranks have seen it. */
static double gpu_queue_ns(const struct ampi_work_device *device, const struct ampi_work *work)
{
    const struct ampi_work_engine *engine = &ampi_work_engine;
    double kernels_ns = device->launched_ns + device->pending_ns,
           speed = engine->policy.speed[AMPI_WORK_WAY_GPU];
    double seen_ns = speed > 0 ? (engine->n_active - engine->n_on_cpu) * unit_ns_of(work) / speed : 0;

    return kernels_ns > seen_ns ? kernels_ns : seen_ns;
}

static bool ends_first(struct ampi_work_device *device, const struct ampi_work *work)
{
    const struct ampi_work_engine *engine = &ampi_work_engine;
    double own_ns = work->n_blocks * ampi_work_block_ns(work->kind);
    struct ampi_work_situation situation = {
        .gpu_queue_ns = gpu_queue_ns(device, work),
        .cpu_queue_ns = work->pe->errands_ns,
        .cpu_ns = cpu_ns_of(work),
        .is_gpu_busy = device->n_batches > 0,
        .is_tried = work->kind->n_on_cpu > 0,
        .in_byte_ns = engine->in_byte_ns > 0 ? engine->in_byte_ns : BYTE_NS,
        .out_byte_ns = engine->out_byte_ns > 0 ? engine->out_byte_ns : BYTE_NS,
    };

    for (int i = 0; i < work->n_buffers;
         i++) /* at best for the CPU: most requests are decided without a search */
        situation.to_gpu_bytes += work->buffers[i].rows.n * work->buffers[i].rows.row_bytes;
    if (!ampi_work_cpu_ends_first(&situation))
        return false;
    situation.to_gpu_bytes = 0;
    for (int i = 0; i < work->n_buffers; i++)
        count_bytes(&device->table, &work->buffers[i], &situation);
    if (!ampi_work_cpu_ends_first(&situation))
        return false;
    device->pending_ns = device->pending_ns > own_ns ? device->pending_ns - own_ns : 0;
    return true;
}

static bool is_trial_due(const struct ampi_work *work)
{
    const struct ampi_work_engine *engine = &ampi_work_engine;
    double passed_ns;

    if (work->kind->n_trials[class_of(work)] >= TRIALS || engine->n_on_cpu > 0)
        return false;
    passed_ns = (double)(ult_now_ns() - engine->began_ns);
    return passed_ns >= TRIAL_AFTER_NS && passed_ns >= TRIAL_SHARE * engine->trials_ns;
}

bool ampi_work_cpu_is_better(struct ampi_work_device *device, const struct ampi_work *work, bool is_idle)
{
    if (!work->cpu || ampi_work_mode == AMPI_WORK_GPU)
        return false;
    for (int i = 0; i < work->n_buffers; i++)
        if (work->buffers[i].is_device)
            return false;
    if (ampi_work_mode == AMPI_WORK_CPU)
        return true;
    if (ampi_work_engine.policy.way == AMPI_WORK_WAY_CPU)
        return true;
    if (!is_idle || work->pe->pe != ult_self()->pe)
        return false;
    return ampi_work_engine.policy.way == AMPI_WORK_WAY_FIRST ? ends_first(device, work) : is_trial_due(work);
}

/* ---- What is learned ---- */

void ampi_work_moved_in(size_t n_bytes, uint64_t duration_ns)
{
    if (n_bytes >= LARGE_BYTES)
        ampi_work_average(&ampi_work_engine.in_byte_ns, (double)duration_ns / (double)n_bytes);
}

void ampi_work_cpu_chosen(struct ampi_work *work)
{
    struct ampi_work_engine *engine = &ampi_work_engine;
    struct ampi_work_situation situation = {0};

    work->is_for_cpu = true;
    work->chosen_ns = ult_now_ns();
    work->estimate_ns = cpu_ns_of(work);
    work->kind->n_on_cpu++;
    engine->n_on_cpu++;
    if (ampi_work_mode != AMPI_WORK_BOTH)
        return;
    for (int i = 0; i < engine->n_devices; i++)
        for (int j = 0; j < work->n_buffers && engine->devices[i]; j++)
            count_bytes(&engine->devices[i]->table, &work->buffers[j], &situation);
    work->moved_bytes = situation.from_gpu_bytes;
    if (work->pe->pe == ult_self()->pe) { /* the next choice comes before the data is there */
        work->is_queued = true;
        work->pe->errands_ns += work->estimate_ns;
    }
}

/* A request has run on the CPU. */
static void learn(const struct ampi_work *work)
{
    struct ampi_work_kind *kind = work->kind;
    int class = class_of(work);
    double ns = 1 + (double)work->cpu_ns;

    ampi_work_average(&kind->cpu_ns[class], ns);
    if (kind->n_trials[class] >= TRIALS || ampi_work_mode != AMPI_WORK_BOTH)
        return;
    ampi_work_engine.trials_ns += (double)(ult_now_ns() - work->chosen_ns);
    if (kind->n_trials[class]++ == 0 || ns < UNIT_BETTER * kind->unit_ns[class]) {
        kind->unit_ns[class] = ns;
        ampi_work_policy_restart(&ampi_work_engine.policy);
    }
}

/* The time for all data of the GPUs to the host and back. */
static double move_ns(const struct ampi_work_engine *engine)
{
    double n_bytes = 0;

    for (int i = 0; i < engine->n_devices; i++)
        n_bytes += engine->devices[i] ? (double)engine->devices[i]->table.n_bytes : 0;
    return n_bytes * ((engine->in_byte_ns > 0 ? engine->in_byte_ns : BYTE_NS) +
                      (engine->out_byte_ns > 0 ? engine->out_byte_ns : BYTE_NS));
}

void ampi_work_counted(const struct ampi_work *work)
{
    struct ampi_work_engine *engine = &ampi_work_engine;

    if (ampi_work_mode == AMPI_WORK_BOTH) {
        struct ampi_work_done done = {.cpu_ns = unit_ns_of(work),
                                      .move_ns = move_ns(engine),
                                      .n_active = engine->n_active,
                                      .n_pes = atomic_load_explicit(&engine->n_pes, memory_order_relaxed),
                                      .now_ns = ult_now_ns()};
        ampi_work_policy_count(&engine->policy, &done);
    }
    engine->n_active--;
}

/* ---- Running ---- */

static void run(struct ult_errand *errand)
{
    struct ampi_work *work = BASE_CONTAINER(errand, struct ampi_work, errand);
    struct AMPI_GPU_Work_block at = {.n_blocks = work->n_blocks};
    void *buffers[AMPI_GPU_WORK_BUFFERS_MAX] = {NULL};
    uint64_t since_ns = ult_now_ns();

    for (int i = 0; i < work->n_buffers; i++)
        buffers[work->buffers[i].place] = work->buffers[i].address;
    at.buffers = buffers;
    work->cpu(work->args, &at);
    work->cpu_ns = ult_now_ns() - since_ns;
    work->pe->errands_ns -= work->estimate_ns;
    atomic_store_explicit(&work->cpu_is_done, true, memory_order_release);
}

/* On the PE of its owner, as run. */
static void start(struct ampi_work *work)
{
    work->pe->errands_ns += work->is_queued ? 0 : work->estimate_ns;
    work->errand.run = run;
    ampi_rank_send(work->owner, &work->errand);
}

static void start_here(struct ult_wakeup *wakeup)
{
    start(BASE_CONTAINER(wakeup, struct ampi_work, wakeup));
}

void ampi_work_cpu_start(struct ampi_work *work)
{
    atomic_store_explicit(&work->cpu_is_done, false, memory_order_relaxed);
    if (work->moved_bytes >= LARGE_BYTES)
        ampi_work_average(&ampi_work_engine.out_byte_ns,
                          (double)(ult_now_ns() - work->chosen_ns) / (double)work->moved_bytes);
    work->next = ampi_work_engine.on_cpu;
    ampi_work_engine.on_cpu = work;
    ampi_work_engine.counts.n_cpu++;
    if (work->pe->pe == ult_self()->pe) {
        start(work);
        return;
    }
    work->wakeup.handle = start_here;
    ult_post_wakeup(work->pe->pe, &work->wakeup);
}

void ampi_work_cpu_poll(void)
{
    struct ampi_work **link = &ampi_work_engine.on_cpu;

    while (*link) {
        struct ampi_work *work = *link;
        if (!atomic_load_explicit(&work->cpu_is_done, memory_order_acquire)) {
            link = &work->next;
            continue;
        }
        *link = work->next;
        work->kind->n_on_cpu--;
        ampi_work_engine.n_on_cpu--;
        learn(work);
        ampi_work_finish(work);
    }
}
