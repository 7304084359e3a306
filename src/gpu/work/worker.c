/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker.c: see worker.h.
 *
 * Each step ends with an event. A stream has at most STEPS_MAX steps under way, so that an event is not used again before its step is done.
 * Pinned memory is a ring: positions grow for ever; a mark says up to where a step uses it.
 *
 * A copy takes the CPU 3 us however small it is, and so does a kernel for many. So small copies of a step are gathered: one launch of heddle_copies,
 * which reads or writes the pinned memory itself.
 */
#include "gpu/work/worker.h"

#include "base/log.h"
#include "gpu/copy/resident.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/gpu_upper.h"
#include "gpu/driver/module.h"
#include "gpu/driver/pe_state.h"
#include "gpu/kernels/kernels.h"
#include "gpu/rank/guard_calls.h"
#include "gpu/work/device_room.h"

#define STEPS_MAX 8
#define STAGE_BYTES ((size_t)8 << 20)
#define PIECE_BYTES ((size_t)64 << 20) /* memory is taken from the driver in such pieces */
#define FREE_SHARE 10                  /* one part in so many of the GPU's memory stays free */
#define MARKS_MAX (STEPS_MAX * GPU_WORKER_STREAMS)
#define GATHERED_MAX ((size_t)64 << 10) /* bytes of a copy */
#define COPIES_THREADS 512
#define COPIES_BLOCKS_MAX 64 /* they saturate PCIe */

struct stream {
    CUstream stream;
    CUevent events[STEPS_MAX]; /* of step n: n % STEPS_MAX */
    uint64_t n_ended;          /* steps */
    uint64_t n_done;
    struct gpu_worker_steps waited; /* steps that it waits for already */
};

/* Copies of a step that are not queued yet. */
struct gathered {
    size_t longest;
    struct gpu_kernel_copies args;
};

/* The ring's memory up to `to` is in use until this step is done. */
struct mark {
    uint64_t to;
    int stream;
    uint64_t step;
};

struct gpu_worker {
    int device;
    unsigned n_threads; /* that it runs at a time */
    CUcontext context;
    CUcontext before; /* of the outermost gpu_worker_begin */
    int depth;        /* of calls of it */
    uint64_t full_ns; /* when the driver had no memory left */
    int error;        /* the GPU's; 0: none */
    struct stream streams[GPU_WORKER_STREAMS];
    CUfunction copies;     /* heddle_copies; NULL: there is none */
    atomic_bool is_loaded; /* it */
    struct gathered in;
    struct gathered out;
    struct gpu_room room;
    size_t budget_bytes;
    size_t taken_bytes; /* from the driver */
    char *stage;        /* STAGE_BYTES */
    uint64_t stage_head;
    uint64_t stage_tail;
    struct mark marks[MARKS_MAX]; /* in order; a ring */
    uint64_t n_marks;
    uint64_t n_freed_marks;
};

/* ---- Creating ---- */

int gpu_worker_device(void)
{
    CUdevice device;
    CUcontext context = gpu_context_current();

    if (!context || gpu_driver.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return -1;
    return gpu_context_of(device) == context ? device : -1;
}

static int make_stream(struct stream *stream, int priority)
{
    int error = gpu_call(cuStreamCreateWithPriority, (&stream->stream, CU_STREAM_NON_BLOCKING, priority));

    for (int i = 0; i < STEPS_MAX && !error; i++)
        error = gpu_call(cuEventCreate, (&stream->events[i], CU_EVENT_DISABLE_TIMING));
    return error;
}

/* Data overtakes kernels. The context is current. */
static int make_streams(struct gpu_worker *worker)
{
    int least = 0, greatest = 0;
    int error = gpu_call(cuCtxGetStreamPriorityRange, (&least, &greatest));

    for (int i = 0; i < GPU_WORKER_STREAMS && !error; i++)
        error = make_stream(&worker->streams[i], i < GPU_WORKER_KERNELS ? least : greatest);
    return error;
}

static int make_stage(struct gpu_worker *worker)
{
    void *stage = NULL;
    int error =
        gpu_call(cuMemHostAlloc, (&stage, STAGE_BYTES, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));

    worker->stage = stage;
    return error;
}

static void destroy(struct gpu_worker *worker)
{
    for (int i = 0; i < GPU_WORKER_STREAMS; i++) {
        for (int j = 0; j < STEPS_MAX; j++)
            if (worker->streams[i].events[j])
                gpu_driver.cuEventDestroy(worker->streams[i].events[j]);
        if (worker->streams[i].stream)
            gpu_driver.cuStreamDestroy(worker->streams[i].stream);
    }
    free(worker);
}

static int count_threads(struct gpu_worker *worker)
{
    int n_processors = 0, n_threads = 0;
    int error = gpu_call(cuDeviceGetAttribute,
                         (&n_processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, worker->device));

    if (!error)
        error = gpu_call(cuDeviceGetAttribute,
                         (&n_threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, worker->device));
    worker->n_threads = (unsigned)n_processors * (unsigned)n_threads;
    return error;
}

unsigned gpu_worker_threads(const struct gpu_worker *worker)
{
    return worker->n_threads;
}

int gpu_worker_create(int device, size_t budget_bytes, struct gpu_worker **worker_out)
{
    struct gpu_worker *worker = base_calloc(1, sizeof *worker, "a GPU's work");
    int error;

    worker->device = device;
    worker->context = gpu_context_of(device);
    worker->budget_bytes = budget_bytes ? budget_bytes / GPU_WORKER_UNIT * GPU_WORKER_UNIT : SIZE_MAX;
    error = worker->context ? gpu_worker_begin(worker) : gpu_driver_last();
    if (error) {
        free(worker);
        return error;
    }
    error = make_streams(worker);
    if (!error)
        error = count_threads(worker);
    if (!error)
        error = make_stage(worker);
    if (!error && gpu_module.image && gpu_module_has_machine_code(device))
        error = gpu_module_function(device, GPU_KERNEL_COPIES, &worker->copies);
    gpu_worker_leave(worker);
    if (error)
        destroy(worker);
    else
        *worker_out = worker;
    return error;
}

void gpu_worker_load(struct gpu_worker *worker, void *kernel)
{
    gpu_guard_load(kernel);
    if (worker->copies && !atomic_exchange(&worker->is_loaded, true))
        gpu_guard_load(worker->copies);
}

int gpu_worker_begin(struct gpu_worker *worker)
{
    int error = worker->depth == 0 ? gpu_context_enter(worker->context, &worker->before) : 0;

    worker->depth += !error;
    return error;
}

void gpu_worker_leave(struct gpu_worker *worker)
{
    if (--worker->depth == 0)
        gpu_context_leave(worker->context, worker->before);
}

/* ---- Memory ---- */

#define ASK_AGAIN_NS 10000000u /* the driver takes its time to say how much memory is free */

/* The bytes that may still be taken from the driver. */
static size_t headroom(const struct gpu_worker *worker)
{
    CUresult(CUDAAPI * get_info)(size_t *, size_t *) =
        (__typeof__(get_info))gpu_driver_find("cuMemGetInfo_v2");
    size_t left = worker->budget_bytes - worker->taken_bytes, n_free = 0, n_all = 0;

    if (!get_info || get_info(&n_free, &n_all) != CUDA_SUCCESS)
        return left;
    n_free = n_free > n_all / FREE_SHARE ? n_free - n_all / FREE_SHARE : 0;
    return left < n_free ? left : n_free;
}

/* Adds a piece for a block of this size. */
static BASE_COLD bool grow(struct gpu_worker *worker, size_t n_bytes)
{
    size_t left;
    bool is_first = worker->taken_bytes == 0; /* for good: the tables of launches */
    size_t wanted = n_bytes > PIECE_BYTES || is_first ? n_bytes : PIECE_BYTES;
    CUdeviceptr memory = 0;

    if (worker->budget_bytes - worker->taken_bytes < n_bytes || ult_now_ns() - worker->full_ns < ASK_AGAIN_NS)
        return false;
    left = headroom(worker) / GPU_WORKER_UNIT * GPU_WORKER_UNIT;
    if (left < n_bytes) {
        worker->full_ns = ult_now_ns();
        return false;
    }
    wanted = wanted < left ? wanted : left;
    if (gpu_driver.cuMemAlloc(&memory, wanted) != CUDA_SUCCESS) {
        wanted = n_bytes;
        if (gpu_driver.cuMemAlloc(&memory, wanted) != CUDA_SUCCESS)
            return false;
    }
    worker->taken_bytes += wanted;
    gpu_room_add(&worker->room, memory, wanted);
    return true;
}

bool gpu_worker_take(struct gpu_worker *worker, size_t n_bytes, uint64_t *address_out)
{
    size_t size = base_round_up(n_bytes, GPU_WORKER_UNIT);

    return gpu_room_take(&worker->room, size, address_out) ||
           (grow(worker, size) && gpu_room_take(&worker->room, size, address_out));
}

void gpu_worker_give(struct gpu_worker *worker, uint64_t address, size_t n_bytes)
{
    gpu_room_give(&worker->room, address, base_round_up(n_bytes, GPU_WORKER_UNIT));
}

void gpu_worker_trim(struct gpu_worker *worker)
{
    struct gpu_room_piece piece;
    int hold = gpu_resident_hold(worker->device);

    while (gpu_room_remove(&worker->room, &piece)) {
        gpu_driver.cuMemFree(piece.at);
        worker->taken_bytes -= piece.n_bytes;
        worker->full_ns = 0;
    }
    gpu_resident_release(hold);
}

size_t gpu_worker_capacity(const struct gpu_worker *worker)
{
    return worker->taken_bytes + headroom(worker);
}

void *gpu_worker_stage(struct gpu_worker *worker, size_t n_bytes)
{
    uint64_t at = worker->stage_head, place = at % STAGE_BYTES;

    n_bytes = base_round_up(n_bytes, 16);
    if (n_bytes > GPU_WORKER_STAGE_MAX)
        return NULL;
    if (place + n_bytes > STAGE_BYTES)
        at += STAGE_BYTES - place;
    if (at + n_bytes - worker->stage_tail > STAGE_BYTES)
        return NULL;
    worker->stage_head = at + n_bytes;
    return worker->stage + at % STAGE_BYTES;
}

/* ---- Streams ---- */

int gpu_worker_wait(struct gpu_worker *worker, int stream, const struct gpu_worker_steps *after)
{
    struct stream *used = &worker->streams[stream];
    int error = 0;

    for (int i = 0; i < GPU_WORKER_STREAMS && !error; i++) {
        if (i == stream || after->of[i] <= used->waited.of[i] || gpu_worker_is_done(worker, i, after->of[i]))
            continue;
        error = gpu_call(cuStreamWaitEvent,
                         (used->stream, worker->streams[i].events[after->of[i] % STEPS_MAX], 0));
        used->waited.of[i] = after->of[i];
    }
    return error;
}

static int copy(struct gpu_worker *worker, int stream, uint64_t to, uint64_t from, size_t n_bytes)
{
    CUstream used = worker->streams[stream].stream;

    return stream == GPU_WORKER_IN
               ? gpu_call(cuMemcpyHtoDAsync, (to, (const void *)(uintptr_t)from, n_bytes, used))
               : gpu_call(cuMemcpyDtoHAsync, ((void *)(uintptr_t)to, from, n_bytes, used));
}

/* Queues the gathered copies of a stream. */
static int queue_gathered(struct gpu_worker *worker, int stream)
{
    struct gathered *gathered = stream == GPU_WORKER_IN ? &worker->in : &worker->out;
    struct gpu_kernel_copies *args = &gathered->args;
    size_t n_blocks, args_bytes = sizeof *args;
    void *options[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, args, CU_LAUNCH_PARAM_BUFFER_SIZE, &args_bytes,
                       CU_LAUNCH_PARAM_END};
    int error;

    if (args->n == 0)
        return 0;
    args->n_pieces = (gathered->longest + GPU_COPIES_PIECE - 1) / GPU_COPIES_PIECE;
    n_blocks = (args->n * args->n_pieces * GPU_COPIES_WARP + COPIES_THREADS - 1) / COPIES_THREADS;
    n_blocks = n_blocks < COPIES_BLOCKS_MAX ? n_blocks : COPIES_BLOCKS_MAX;
    error = args->n == 1
                ? copy(worker, stream, args->copies[0].to, args->copies[0].from, args->copies[0].n_bytes)
                : gpu_call(cuLaunchKernel, (worker->copies, (unsigned)n_blocks, 1, 1, COPIES_THREADS, 1, 1, 0,
                                            worker->streams[stream].stream, NULL, options));
    args->n = gathered->longest = 0;
    return error;
}

int gpu_worker_copy(struct gpu_worker *worker, int stream, uint64_t to, uint64_t from, size_t n_bytes)
{
    struct gathered *gathered = stream == GPU_WORKER_IN ? &worker->in : &worker->out;

    if (!worker->copies || n_bytes > GATHERED_MAX)
        return copy(worker, stream, to, from, n_bytes);
    gathered->longest = n_bytes > gathered->longest ? n_bytes : gathered->longest;
    gathered->args.copies[gathered->args.n++] = (struct gpu_kernel_copy){to, from, n_bytes};
    return gathered->args.n == GPU_KERNEL_COPIES_MAX ? queue_gathered(worker, stream) : 0;
}

int gpu_worker_copy_pageable(struct gpu_worker *worker, uint64_t to, const void *from, size_t n_bytes)
{
    return copy(worker, GPU_WORKER_IN, to, (uintptr_t)from, n_bytes);
}

int gpu_worker_launch(struct gpu_worker *worker, int stream, void *kernel, unsigned n_threads,
                      const struct HEDDLE_Work_launch *launch)
{
    struct HEDDLE_Work_launch parameter = *launch;
    void *parameters[] = {&parameter};

    return gpu_call(cuLaunchKernel, (kernel, launch->n_blocks, 1, 1, n_threads, 1, 1, 0,
                                     worker->streams[stream].stream, parameters, NULL));
}

int gpu_worker_end(struct gpu_worker *worker, int stream, uint64_t *step_out)
{
    struct stream *used = &worker->streams[stream];
    uint64_t step = used->n_ended + 1;
    int error = stream >= GPU_WORKER_KERNELS ? queue_gathered(worker, stream) : 0;

    if (!error)
        error = gpu_call(cuEventRecord, (used->events[step % STEPS_MAX], used->stream));
    if (error)
        return worker->error = error;
    used->n_ended = step;
    *step_out = step;
    worker->marks[worker->n_marks++ % MARKS_MAX] = (struct mark){worker->stage_head, stream, step};
    return 0;
}

uint64_t gpu_worker_next(const struct gpu_worker *worker, int stream)
{
    return worker->streams[stream].n_ended + 1;
}

unsigned gpu_worker_load_of(const struct gpu_worker *worker, int stream)
{
    return (unsigned)(worker->streams[stream].n_ended - worker->streams[stream].n_done);
}

bool gpu_worker_has_room(const struct gpu_worker *worker, int stream)
{
    const struct stream *used = &worker->streams[stream];

    return used->n_ended - used->n_done < STEPS_MAX - 1 &&
           worker->n_marks - worker->n_freed_marks < MARKS_MAX - 1;
}

/* The steps of a stream that are done. */
static int poll_stream(struct stream *used)
{
    while (used->n_done < used->n_ended) {
        CUresult result = gpu_driver.cuEventQuery(used->events[(used->n_done + 1) % STEPS_MAX]);
        if (result == CUDA_ERROR_NOT_READY)
            return 0;
        if (result != CUDA_SUCCESS)
            return gpu_driver_record((int)result, "cuEventQuery");
        used->n_done++;
    }
    return 0;
}

int gpu_worker_poll(struct gpu_worker *worker)
{
    for (int i = 0; i < GPU_WORKER_STREAMS && !worker->error; i++)
        worker->error = poll_stream(&worker->streams[i]);
    while (worker->n_freed_marks < worker->n_marks) {
        const struct mark *mark = &worker->marks[worker->n_freed_marks % MARKS_MAX];
        if (!gpu_worker_is_done(worker, mark->stream, mark->step))
            break;
        worker->stage_tail = mark->to;
        worker->n_freed_marks++;
    }
    return worker->error;
}

bool gpu_worker_is_done(const struct gpu_worker *worker, int stream, uint64_t step)
{
    return worker->streams[stream].n_done >= step;
}

bool gpu_worker_is_idle(const struct gpu_worker *worker, int stream)
{
    return worker->streams[stream].n_done == worker->streams[stream].n_ended;
}

bool gpu_worker_are_done(const struct gpu_worker *worker, const struct gpu_worker_steps *steps)
{
    for (int i = 0; i < GPU_WORKER_STREAMS; i++)
        if (!gpu_worker_is_done(worker, i, steps->of[i]))
            return false;
    return true;
}
