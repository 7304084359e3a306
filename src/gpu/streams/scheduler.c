/* SPDX-License-Identifier: BSD-3-Clause
 *
 * scheduler.c: launches a kernel of the program when there are messages for it; see scheduler.h, and heddle_handlers.h for the protocol.
 *
 *      1 AWAY     --the doorbell rings: launch-->                             2 THERE
 *      2 THERE    --the kernel reports that this launch has left (page.left)-->  1 AWAY
 *      any        --its context fails, or stop-->                             3 ENDED
 *
 * The PE finds both events by its watch (watch.c). A launch may wait in its stream until the last blocks of
 * the previous one have returned.
 */
#include "gpu/streams/scheduler.h"

#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/pe_state.h"
#include "gpu/rank/guard_calls.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/waits.h"

/* The maximum number of messages of the host that are not in their queues yet. A stream of the driver has
 * room for 1,021 launches; a further one blocks the PE. */
#define POSTS_MAX 256

enum stream { RESIDENT, POSTS };

/* A ULT that waits for one of these conditions; on its stack. */
struct gpu_scheduler_waiter {
    struct gpu_scheduler_waiter *next;
    struct ult *u;
    uint64_t n_posted; /* messages that must have been posted */
    bool is_for_rest;  /* the kernel must be away */
    bool is_for_end;   /* the PE must have stopped polling */
};

/* Blocks of all schedulers, by device. */
static atomic_int n_blocks_of[GPU_DEVICES_MAX];

/* ---- Launching ---- */

static int launch_kernel(const struct gpu_scheduler *scheduler, void *kernel, enum stream stream,
                         unsigned n_blocks, unsigned n_threads, void *parameter)
{
    void *parameters[] = {parameter};
    CUcontext before;
    int error = gpu_context_enter(scheduler->watch.context, &before);

    if (error)
        return error;
    error = gpu_call(cuLaunchKernel, (kernel, n_blocks, 1, 1, n_threads, 1, 1, 0, scheduler->streams[stream],
                                      parameters, NULL));
    gpu_context_leave(scheduler->watch.context, before);
    return error;
}

static int launch(const struct gpu_scheduler *scheduler, uint64_t number)
{
    struct HEDDLE_Handlers_launch parameter = {(uint64_t)(uintptr_t)scheduler->memory, number};

    return launch_kernel(scheduler, scheduler->kernel, RESIDENT, scheduler->n_blocks, scheduler->n_threads,
                         &parameter);
}

static int launch_post(const struct gpu_scheduler *scheduler, struct HEDDLE_Handlers_post *post)
{
    post->device = (uint64_t)(uintptr_t)scheduler->memory;
    return launch_kernel(scheduler, scheduler->post_kernel, POSTS, 1, 32, post);
}

/* ---- The PE's look ---- */

static bool is_away(const struct gpu_scheduler *scheduler)
{
    return __atomic_load_n(&scheduler->page->left, __ATOMIC_ACQUIRE) == scheduler->n_launches;
}

static bool has_come(const struct gpu_scheduler *scheduler, const struct gpu_scheduler_waiter *waiter)
{
    if (!scheduler->is_watched)
        return true;
    if (waiter->is_for_end)
        return false;
    if (__atomic_load_n(&scheduler->page->posted, __ATOMIC_ACQUIRE) < waiter->n_posted)
        return false;
    return !waiter->is_for_rest ||
           (is_away(scheduler) && !__atomic_load_n(&scheduler->page->doorbell, __ATOMIC_ACQUIRE));
}

static void wake(struct gpu_scheduler *scheduler)
{
    struct gpu_scheduler_waiter **link = &scheduler->waiters;

    while (*link) {
        struct gpu_scheduler_waiter *waiter = *link;
        if (has_come(scheduler, waiter)) {
            *link = waiter->next;
            ult_ready(waiter->u); /* the waiter runs after this */
        } else {
            link = &waiter->next;
        }
    }
}

static void wait_for(struct gpu_scheduler *scheduler, struct gpu_scheduler_waiter *waiter)
{
    if (has_come(scheduler, waiter))
        return;
    waiter->u = ult_self();
    waiter->next = scheduler->waiters;
    scheduler->waiters = waiter;
    ult_suspend();
}

static bool look(struct gpu_watch *watch, int error)
{
    struct gpu_scheduler *scheduler = BASE_CONTAINER(watch, struct gpu_scheduler, watch);
    struct HEDDLE_Handlers_page *page = scheduler->page;
    bool is_here = !is_away(scheduler);

    if (BASE_UNLIKELY(error))
        scheduler->error = error;
    if (!is_here && !scheduler->is_ending && !scheduler->error &&
        __atomic_load_n(&page->doorbell, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&page->doorbell, 0, __ATOMIC_SEQ_CST);
        scheduler->error = launch(scheduler, ++scheduler->n_launches);
    }
    scheduler->is_watched = !scheduler->error && (!scheduler->is_ending || is_here);
    wake(scheduler);
    return scheduler->is_watched;
}

/* ---- Creating ---- */

int gpu_scheduler_blocks(int *n_multiprocessors_out, int *device_out)
{
    CUdevice device;
    int error = gpu_call(cuCtxGetDevice, (&device));

    if (!error)
        error = gpu_call(cuDeviceGetAttribute,
                         (n_multiprocessors_out, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    if (!error)
        *device_out = device;
    return error;
}

/* Reserves the blocks. */
static int reserve(int device, int n_blocks)
{
    int n_multiprocessors, error = gpu_scheduler_blocks(&n_multiprocessors, &device);

    if (error)
        return error;
    if (atomic_fetch_add(&n_blocks_of[device], n_blocks) + n_blocks <=
        n_multiprocessors * HEDDLE_HANDLERS_BLOCKS_MAX)
        return 0;
    atomic_fetch_sub(&n_blocks_of[device], n_blocks);
    return GPU_SCHEDULER_FULL;
}

static int make_streams(struct gpu_scheduler *scheduler)
{
    int least = 0, greatest = 0;
    int error = gpu_call(cuCtxGetStreamPriorityRange, (&least, &greatest));

    for (int i = 0; i < 2 && !error; i++) {
        CUstream made = NULL;
        error = gpu_call(cuStreamCreateWithPriority, (&made, CU_STREAM_NON_BLOCKING, greatest));
        scheduler->streams[i] = made;
    }
    return error;
}

static void free_all(struct gpu_scheduler *scheduler)
{
    CUcontext before;

    if (!gpu_context_enter(scheduler->watch.context, &before)) {
        for (int i = 0; i < 2; i++)
            if (scheduler->streams[i])
                gpu_driver.cuStreamDestroy(scheduler->streams[i]);
        gpu_context_leave(scheduler->watch.context, before);
    }
    if ((scheduler->memory && gpu_memory_free(GPU_MEMORY_DEVICE, scheduler->memory)) ||
        (scheduler->page && gpu_memory_free(GPU_MEMORY_PINNED, scheduler->page)))
        base_log_verbose(1, "memory of handlers is not freed: %s", gpu_error_text(gpu_driver_last()));
    gpu_watch_destroy(&scheduler->watch);
}

int gpu_scheduler_create(struct gpu_scheduler *scheduler, size_t memory_bytes)
{
    void *page = NULL;
    int error = gpu_watch_create(&scheduler->watch);

    if (error)
        return error;
    scheduler->watch.look = look;
    if (scheduler->watch.device < 0)
        error = gpu_driver_record(GPU_SYNC_OTHER_CONTEXT, "cuCtxGetCurrent");
    if (!error)
        error = reserve(scheduler->watch.device, (int)scheduler->n_blocks);
    if (error) {
        gpu_watch_destroy(&scheduler->watch);
        return error;
    }
    error = gpu_memory_alloc(GPU_MEMORY_DEVICE, memory_bytes, &scheduler->memory);
    if (!error)
        error = gpu_memory_alloc(GPU_MEMORY_PINNED, sizeof *scheduler->page, &page);
    if (!error) {
        scheduler->page = memset(page, 0, sizeof *scheduler->page);
        error = make_streams(scheduler);
    }
    if (error)
        gpu_scheduler_destroy(scheduler);
    return error;
}

void gpu_scheduler_destroy(struct gpu_scheduler *scheduler)
{
    atomic_fetch_sub(&n_blocks_of[scheduler->watch.device], (int)scheduler->n_blocks);
    free_all(scheduler);
}

/* ---- Streams ---- */

struct stream_waiter {
    struct gpu_question question;
    struct ult *u;
};

static void stream_done(struct gpu_question *question)
{
    ult_ready(BASE_CONTAINER(question, struct stream_waiter, question)->u);
}

/* Waits until the stream is empty. */
static int wait_for_stream(const struct gpu_scheduler *scheduler, enum stream stream)
{
    struct stream_waiter waiter = {.question = {.answered = stream_done,
                                                .stream = scheduler->streams[stream],
                                                .context = scheduler->watch.context},
                                   .u = ult_self()};

    gpu_wait_ask(&waiter.question);
    ult_suspend();
    return gpu_driver_check((CUresult)waiter.question.result, "cuStreamQuery");
}

/* ---- The rest ---- */

/* Loading a kernel waits for the GPU; so does its first launch if the GPU needs memory for its stack. */
static int load_kernels(struct gpu_scheduler *scheduler)
{
    struct HEDDLE_Handlers_post post = {.number = 0};
    int error;

    gpu_guard_load(scheduler->kernel);
    gpu_guard_load(scheduler->post_kernel);
    error = launch(scheduler, 0);
    if (!error)
        error = launch_post(scheduler, &post);
    for (int i = 0; i < 2 && !error; i++)
        error = wait_for_stream(scheduler, (enum stream)i);
    return error;
}

int gpu_scheduler_start(struct gpu_scheduler *scheduler)
{
    int error = load_kernels(scheduler);

    if (error)
        return error;
    scheduler->is_ending = false; /* after an earlier start that failed at another rank */
    __atomic_store_n(&scheduler->page->evict, 0, __ATOMIC_SEQ_CST);
    scheduler->is_watched = true;
    gpu_watch_begin(&scheduler->watch);
    return 0;
}

int gpu_scheduler_post(struct gpu_scheduler *scheduler, struct HEDDLE_Handlers_post *post)
{
    if (scheduler->n_posts >= POSTS_MAX) {
        struct gpu_scheduler_waiter waiter = {.n_posted = scheduler->n_posts - POSTS_MAX + 1};
        wait_for(scheduler, &waiter);
    }
    if (scheduler->error)
        return scheduler->error;
    post->number = ++scheduler->n_posts;
    return scheduler->error = launch_post(scheduler, post);
}

int gpu_scheduler_drain(struct gpu_scheduler *scheduler)
{
    struct gpu_scheduler_waiter waiter = {.n_posted = scheduler->n_posts};

    wait_for(scheduler, &waiter);
    return scheduler->error;
}

int gpu_scheduler_rest(struct gpu_scheduler *scheduler)
{
    struct gpu_scheduler_waiter waiter = {.is_for_rest = true};

    wait_for(scheduler, &waiter);
    return scheduler->error;
}

void gpu_scheduler_stop(struct gpu_scheduler *scheduler)
{
    struct gpu_scheduler_waiter waiter = {.is_for_end = true};

    scheduler->is_ending = true;
    __atomic_store_n(&scheduler->page->evict, 1, __ATOMIC_SEQ_CST);
    wait_for(scheduler, &waiter);
    for (int i = 0; i < 2 && !scheduler->error; i++)
        scheduler->error = wait_for_stream(scheduler, (enum stream)i);
}
