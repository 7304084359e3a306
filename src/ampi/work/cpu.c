/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cpu.c: requests that run on the CPU, and the choice between CPU and GPU (+work).
 *
 * The CPU's function runs as an errand on a ULT of the rank that has submitted the request, with the rank's copy of the program and its thread-local
 * variables, when that ULT blocks: so while the PE would otherwise idle.
 *
 * With +work both a request goes to the CPU if its PE idles, none of its data is on a GPU, and the CPU is estimated to be done before the GPU
 * would be, with what it has to do before. Data decides first, because moving it costs more than most tasks.
 */
#include "ampi/work/work.h"

#include "ampi/object/gate.h"

#define WEIGHT 0.25           /* of a new measurement in a running average */
#define UNKNOWN_BLOCK_NS 200. /* until the first measurement */
#define LAUNCH_NS 10e3

enum ampi_work_mode ampi_work_mode;

static void average(double *average, double value)
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
    average(&batch->kind->block_ns, 1 + (double)(duration_ns - device->least_ns) / batch->n_blocks);
}

/* ---- The choice ---- */

static bool has_data_on_gpu(const struct ampi_work_device *device, const struct ampi_work *work)
{
    for (int i = 0; i < work->n_buffers; i++) {
        const struct ampi_work_buffer *buffer = &work->buffers[i];
        int at = ampi_work_table_find(&device->table, buffer->rows.from);
        if (buffer->is_device ||
            (at < device->table.n && device->table.entries[at]->from < ampi_rows_end(&buffer->rows)))
            return true;
    }
    return false;
}

/* When the GPU would be done with all that is pending and under way. */
static double gpu_end_ns(const struct ampi_work_device *device)
{
    double sum = LAUNCH_NS + device->pending_ns;

    for (int i = 0; i < AMPI_WORK_BATCHES; i++) {
        const struct ampi_work_batch *batch = &device->batches[i];
        if (batch->kind && batch->step)
            sum += batch->n_blocks * batch->kind->block_ns;
    }
    return sum;
}

bool ampi_work_cpu_is_better(const struct ampi_work_device *device, const struct ampi_work *work,
                             bool is_idle)
{
    double cpu_ns;

    if (!work->cpu || ampi_work_mode == AMPI_WORK_GPU)
        return false;
    for (int i = 0; i < work->n_buffers; i++)
        if (work->buffers[i].is_device)
            return false;
    if (ampi_work_mode == AMPI_WORK_CPU)
        return true;
    if (!is_idle || work->pe->pe != ult_self()->pe || work->pe->n_errands > 0 ||
        has_data_on_gpu(device, work))
        return false;
    cpu_ns = work->kind->cpu_ns[class_of(work)];
    return cpu_ns > 0 ? cpu_ns < gpu_end_ns(device)
                      : device->n_batches > 0; /* the first one is an experiment */
}

/* ---- Running ---- */

static void run(struct ult_errand *errand)
{
    struct ampi_work *work = BASE_CONTAINER(errand, struct ampi_work, errand);
    struct AMPI_GPU_Work_block at = {.n_blocks = work->n_blocks};
    void *buffers[AMPI_GPU_WORK_BUFFERS_MAX];
    uint64_t since_ns = ult_now_ns();

    for (int i = 0; i < work->n_buffers; i++)
        buffers[i] = work->buffers[i].address;
    at.buffers = buffers;
    work->cpu(work->args, &at);
    work->cpu_ns = ult_now_ns() - since_ns;
    work->pe->n_errands--;
    atomic_store_explicit(&work->cpu_is_done, true, memory_order_release);
}

static void start(struct ampi_work *work)
{
    work->pe->n_errands++;
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
        average(&work->kind->cpu_ns[class_of(work)], (double)work->cpu_ns);
        ampi_work_finish(work);
    }
}
