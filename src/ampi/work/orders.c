/* SPDX-License-Identifier: BSD-3-Clause
 *
 * orders.c: small requests whose data is on the GPU, by a kernel that stays there (gpu/work/stay.h): without a launch, and without copies.
 *
 * The kernel of a kind is called when small batches of it come one after another. If it has done too few requests, or has been slower than launches, twice
 * as many batches must come before the next call. One kind's kernel is there at a time. A request that it runs blocks operations on the same bytes, as one on a CPU does (round.c): no stream orders them.
 */
#include "ampi/work/work.h"

#include "base/settings.h"

#define TRIALS 16      /* orders of a launch, after which it gets no more if it is slower than launches */
#define WORTH_ORDERS 4 /* fewer do not pay for its launch */
#define RELUCTANCE_MAX 1024     /* small batches */
#define POLLS_PER_QUESTION 1024 /* to the driver, for errors */

/* ---- Calling the kernel ---- */

static void launch(struct ampi_work_device *device, struct ampi_work_kind *kind)
{
    struct ampi_work_stay *stay = &device->stay;
    int error = gpu_worker_begin(device->worker);

    if (!error) {
        error = gpu_stay_launch(stay->gpu, kind->staying, (unsigned)kind->n_threads);
        gpu_worker_leave(device->worker);
    }
    if (BASE_UNLIKELY(error))
        ampi_work_device_fail(device, error);
}

/* True if the kernel has been no faster than launches. */
static bool is_slow(const struct ampi_work_stay *stay)
{
    return stay->n_orders >= TRIALS && stay->kind->order_ns >= stay->kind->small_ns;
}

void ampi_work_stay_want(struct ampi_work_device *device, struct ampi_work_kind *kind, uint64_t duration_ns,
                         uint64_t now_ns)
{
    struct ampi_work_stay *stay = &device->stay;
    uint64_t since_ns = now_ns - stay->wanted_ns;

    ampi_work_average(&kind->small_ns, (double)duration_ns);
    stay->wanted_ns = now_ns;
    if (!kind->staying || since_ns >= (uint64_t)gpu_resident_us * 1000)
        return;
    stay->n_wanted++;
    if (stay->n_busy > 0 || gpu_stay_is_launched(stay->gpu) || gpu_stay_is_held(stay->gpu))
        return;
    if (stay->kind && stay->n_orders >= WORTH_ORDERS && !is_slow(stay))
        stay->reluctance = 1;
    else if (stay->kind && stay->reluctance < RELUCTANCE_MAX)
        stay->reluctance = stay->reluctance ? 2 * stay->reluctance : 1;
    stay->kind = NULL; /* that has counted */
    if (stay->n_wanted < stay->reluctance)
        return;
    stay->n_wanted = stay->n_orders = 0;
    stay->kind = kind;
    launch(device, kind);
}

/* ---- Orders ---- */

/* Finds up to n places that are free; their number. */
static int find_free(const struct ampi_work_stay *stay, int n, int *places)
{
    int n_free = 0;

    if (gpu_stay_is_held(stay->gpu) || is_slow(stay))
        return 0;
    for (int i = 0; i < HEDDLE_WORK_PLACES && n_free < n; i++)
        if (!stay->at[i] && gpu_stay_is_here(stay->gpu, i))
            places[n_free++] = i;
    return n_free;
}

bool ampi_work_stay_has_room(const struct ampi_work_device *device, const struct ampi_work_kind *kind)
{
    int place;

    return device->stay.kind == kind && find_free(&device->stay, 1, &place) > 0;
}

static bool fits(const struct ampi_work *work)
{
    return work->n_blocks <= HEDDLE_WORK_PLACES &&
           base_round_up(work->kind->args_bytes, 8) + (size_t)work->n_places * sizeof(uint64_t) <=
               GPU_STAY_BYTES;
}

bool ampi_work_stay_take(struct ampi_work_device *device, struct ampi_work *work)
{
    struct ampi_work_stay *stay = &device->stay;
    uint64_t addresses[AMPI_GPU_WORK_BUFFERS_MAX] = {0};
    int places[HEDDLE_WORK_PLACES];

    if (stay->kind != work->kind || !fits(work) ||
        find_free(stay, (int)work->n_blocks, places) < (int)work->n_blocks ||
        !ampi_work_data_use_if_there(device, work))
        return false;
    for (int i = 0; i < work->n_buffers; i++)
        addresses[work->buffers[i].place] = ampi_work_gpu_address(&work->buffers[i]);
    work->ordered_ns = ult_now_ns();
    work->n_left = work->n_blocks;
    for (unsigned i = 0; i < work->n_blocks; i++) {
        stay->at[places[i]] = work;
        gpu_stay_order(stay->gpu, places[i], i, work->n_blocks, work->args, work->kind->args_bytes, addresses,
                       work->n_places);
    }
    stay->n_busy += (int)work->n_blocks;
    return true;
}

/* ---- The end of orders ---- */

static void finish(struct ampi_work_stay *stay, struct ampi_work *work)
{
    for (int i = 0; i < work->n_buffers; i++) {
        work->buffers[i].entry->n_users--;
        work->buffers[i].entry = NULL;
    }
    ampi_work_average(&work->kind->order_ns, (double)(ult_now_ns() - work->ordered_ns));
    stay->n_orders++;
    ampi_work_engine.counts.n_ordered++;
    ampi_work_finish(work);
}

void ampi_work_stay_poll(struct ampi_work_device *device)
{
    struct ampi_work_stay *stay = &device->stay;
    bool has_missed = false;
    int error = 0;

    if (stay->n_busy == 0)
        return;
    for (int i = 0; i < HEDDLE_WORK_PLACES; i++) {
        struct ampi_work *work = stay->at[i];
        if (work && gpu_stay_is_done(stay->gpu, i)) {
            stay->at[i] = NULL;
            stay->n_busy--;
            stay->n_polls = 0;
            if (--work->n_left == 0)
                finish(stay, work);
        } else if (work) {
            has_missed |= gpu_stay_has_missed(stay->gpu, i);
        }
    }
    if (has_missed)
        launch(device, stay->kind);
    if (stay->n_busy > 0 && ++stay->n_polls % POLLS_PER_QUESTION == 0 && !gpu_worker_begin(device->worker)) {
        error = gpu_stay_ask(stay->gpu);
        gpu_worker_leave(device->worker);
    }
    if (BASE_UNLIKELY(error != 0))
        ampi_work_device_fail(device, error);
}

void ampi_work_stay_fail(struct ampi_work_device *device)
{
    struct ampi_work_stay *stay = &device->stay;

    for (int i = 0; i < HEDDLE_WORK_PLACES; i++) {
        struct ampi_work *work = stay->at[i];
        stay->at[i] = NULL;
        if (!work || --work->n_left > 0)
            continue;
        work->gpu_error = device->error;
        ampi_work_finish(work);
    }
    stay->n_busy = 0;
    stay->kind = NULL;
}
