/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_sync.c: a stream of the program and the PE's operations in its order; see gpu.h.
 *
 * Two words of pinned memory per stream. The stream writes the number of each point that it comes to into
 * `reached`, which the PE polls. At each hold it waits until `released` is at least the hold's number, which
 * the PE writes. Both numbers only grow (and wrap around). Before the stream writes, its earlier work is
 * visible to the PE and to other GPUs (the fence of cuStreamBatchMemOp); what the PE has seen complete before
 * it writes is visible to the work behind the hold.
 *
 * A stream passes its holds in order. So the PE publishes a release only when all earlier holds are
 * released: the stream may be waiting at one of them.
 *
 * Streams share the connections to a GPU, and one that waits holds up those behind it in its connection, also
 * those that the message needs. Waiting for an event instead would do the same. So if there are more streams of
 * MPI than connections for them, their holds are kept: the stream gets no operation, the points behind it are
 * late until it is released, and the program's own calls wait for that (rank/kept.h). Ranks whose calls in CUDA
 * are not intercepted cannot do this.
 */
#include "base/log.h"
#include "gpu/copy/gpu_pack.h"
#include "gpu/driver/module.h"
#include "gpu/driver/pe_state.h"
#include "gpu/rank/drain.h"
#include "gpu/rank/free_gate.h"
#include "gpu/rank/guard_calls.h"
#include "gpu/rank/kept.h"
#include "gpu/rank/repeats.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/stream_stock.h"
#include "gpu/rank/waits.h"
#include "gpu/streams/stream_sync.h"

_Static_assert(GPU_SYNC_OTHER_CONTEXT == CUDA_ERROR_INVALID_CONTEXT &&
                   GPU_SYNC_UNSUPPORTED == CUDA_ERROR_NOT_SUPPORTED &&
                   GPU_SYNC_CAPTURED == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
               "the values of gpu.h are CUDA's");

/* Operations of points and holds that may be in the stream at a time: a call waits for room above SYNC_MAX. From LATE_FROM on
 * a point without a hold gets no operation of its own, so that nonblocking operations never wait: the next operation of the
 * library in the stream is that of all late points, or the PE adds one when there is room. A stream of the driver has room
 * for 1,021 operations, and the program's own need some of it (flow.h). */
#define SYNC_MAX 512
#define LATE_FROM 256

/* Polls without news after which the driver is asked whether the context is broken. */
#define LOOKS_PER_QUERY 1024

/* ---- Creating ---- */

/* The context is current. */
static int make_objects(struct gpu_sync *sync)
{
    void *memory = NULL;
    int error = gpu_call(cuMemHostAlloc, (&memory, BASE_CACHE_LINE, CU_MEMHOSTALLOC_DEVICEMAP));

    if (error)
        return error;
    sync->words = memory;
    sync->words->reached = sync->words->released = 0;
    error = gpu_call(cuMemHostGetDevicePointer, (&sync->words_at, memory, 0));
    if (!error)
        error = gpu_call(cuEventCreate, (&sync->probe, CU_EVENT_DISABLE_TIMING));
    if (error)
        gpu_driver.cuMemFreeHost(memory);
    return error;
}

/* A special handle means a stream of the current context. */
static int find_context(CUstream stream, CUcontext *context_out)
{
    CUcontext current = gpu_context_current(), own = current;
    CUresult result = CUDA_SUCCESS;

    if (stream > CU_STREAM_PER_THREAD && gpu_stream_real.r_cuStreamGetCtx)
        result = gpu_stream_real.r_cuStreamGetCtx(stream, &own);
    if (result != CUDA_SUCCESS)
        return gpu_driver_record((int)result, "cuStreamGetCtx");
    if (!current || own != current)
        return gpu_driver_record(GPU_SYNC_OTHER_CONTEXT, "cuStreamGetCtx");
    *context_out = own;
    return 0;
}

/* Takes a destroyed gpu_sync, because freeing its pinned memory would wait for the GPU. Its numbers
 * continue, because the old stream may still read its words. */
static struct gpu_sync *take_spare(CUcontext context)
{
    struct gpu_sync **link = &gpu_pe_self()->spare_syncs, *found;

    while (*link && (*link)->context != context)
        link = &(*link)->next;
    found = *link;
    if (found)
        *link = found->next;
    return found;
}

/* A kernel's first launch waits for the GPU, and so for streams that wait for this PE; the creation of a stream
 * does so at times. */
void gpu_sync_prepare(int device)
{
    static _Atomic bool is_prepared[GPU_DEVICES_MAX];
    CUcontext context = gpu_context_of(device), before;
    CUfunction kernel;

    if (!context || atomic_exchange(&is_prepared[device], true) || gpu_context_enter(context, &before))
        return;
    gpu_stock_prepare(device, context);
    for (int i = 0;
         gpu_has_kernels() && i < gpu_module.n_kernels && gpu_module_function(device, i, &kernel) == 0; i++)
        gpu_guard_load(kernel);
    gpu_context_leave(context, before);
}

int gpu_sync_create(void *stream, struct gpu_sync **sync_out)
{
    struct gpu_sync *made;
    CUcontext context = NULL;
    CUdevice device;
    int error = find_context(stream, &context);

    if (!error)
        error = gpu_call(cuCtxGetDevice, (&device));
    if (error)
        return error;
    gpu_sync_prepare(device);
    made = take_spare(context);
    if (!made) {
        made = base_calloc(1, sizeof *made, "a stream of MPI");
        made->context = context;
        error = make_objects(made);
        if (error) {
            free(made);
            return error;
        }
    }
    made->stream = stream;
    made->device = device;
    gpu_sync_choose_flush(made);
    if (gpu_graph_make_room(made))
        base_log_verbose(2, "no memory for operations in CUDA graphs: %s", gpu_error_text(gpu_driver_last()));
    gpu_slots_make(made);
    gpu_waits_make_progress();
    gpu_connections_count(device, 1);
    *sync_out = made;
    return 0;
}

static void destroy(struct gpu_sync *sync)
{
    struct gpu_pe *pe = gpu_pe_self();
    CUcontext before;

    if (gpu_context_is_kept(sync->context)) {
        sync->is_dead = false;
        gpu_graph_keep_blocks(sync);
        sync->next = pe->spare_syncs;
        pe->spare_syncs = sync;
        return;
    }
    if (!gpu_context_enter(sync->context, &before)) {
        gpu_driver.cuEventDestroy(sync->probe);
        gpu_graph_free_blocks(sync);
        gpu_slots_free(sync);
        gpu_driver.cuMemFreeHost(sync->words);
        gpu_context_leave(sync->context, before);
    }
    free(sync);
}

void gpu_sync_destroy(struct gpu_sync *sync)
{
    BASE_ASSERT(sync->n_waiting == 0 && !sync->points);
    gpu_connections_count(sync->device, -1);
    if (sync->is_polled)
        sync->is_dead = true;
    else
        destroy(sync);
}

/* ---- Adding ---- */

CUstreamBatchMemOpParams gpu_sync_write(CUdeviceptr word, uint32_t value)
{
    CUstreamBatchMemOpParams op = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32};

    op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = word;
    op.writeValue.value = value;
    op.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    return op;
}

CUstreamBatchMemOpParams gpu_sync_wait(CUdeviceptr word, uint32_t value, unsigned compare)
{
    CUstreamBatchMemOpParams op = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32};

    op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    op.waitValue.address = word;
    op.waitValue.value = value;
    op.waitValue.flags = compare;
    return op;
}

static void count(const struct gpu_sync *sync, int by)
{
    if (by < 0)
        atomic_fetch_add_explicit(&gpu_streams_n_over, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&gpu_streams_n_waiting, by, memory_order_relaxed);
    atomic_fetch_add_explicit(&gpu_streams_n_waiting_on[sync->device], by, memory_order_relaxed);
}

/* A point or a hold has got an operation in the stream. */
static void count_one(struct gpu_sync *sync)
{
    sync->n_waiting++;
    count(sync, 1);
}

/* The last late point before a hold gets an operation in the stream, which is that of all of them. hold NULL: the last of
 * all. */
static int add_late_before(struct gpu_sync *sync, const struct gpu_hold *hold)
{
    struct gpu_point *last = NULL;
    CUstreamBatchMemOpParams op;
    int error;

    for (struct gpu_point *i = sync->points; i; i = i->next)
        if (!i->is_late)
            last = NULL;
        else if (!hold || (int32_t)(i->n_before - hold->number) < 0)
            last = i;
    if (!last || gpu_stream_is_captured(sync->driver, NULL))
        return 0; /* after the release, or the capture */
    op = gpu_sync_write(sync->words_at + offsetof(struct gpu_sync_words, reached), last->number);
    error = gpu_call(cuStreamBatchMemOp, (sync->driver, 1, &op, 0));
    if (error)
        return error;
    last->is_late = false;
    sync->has_late = last != sync->points_last;
    count_one(sync);
    return 0;
}

static struct gpu_hold *first_kept(const struct gpu_sync *sync)
{
    struct gpu_hold *hold = sync->n_kept > 0 ? sync->holds : NULL;

    while (hold && !hold->kept)
        hold = hold->next;
    return hold;
}

static int add_late(struct gpu_sync *sync)
{
    return add_late_before(sync, first_kept(sync));
}

/* The same from the progress of the PE, which may not wait while the context is closed. */
static BASE_COLD void add_late_from_poll(struct gpu_sync *sync)
{
    const struct gpu_hold *kept = first_kept(sync);
    CUcontext before;

    if (kept && (int32_t)(sync->points->n_before - kept->number) >= 0)
        return;
    if (gpu_drain_announce(gpu_pe_self()) && !gpu_context_enter(sync->context, &before)) {
        (void)add_late(sync);
        gpu_context_leave(sync->context, before);
    }
    gpu_submit_end();
}

/* Finds the stream that the program means, and makes it wait in the order that CUDA gives its work. */
int gpu_sync_begin(struct gpu_sync *sync, struct gpu_call *call, CUcontext *before_out)
{
    bool is_kept_out = false;
    int error;

    while (
        BASE_UNLIKELY(gpu_kept_is_behind(sync->stream, false) || !gpu_gate_enter(sync->device, &is_kept_out)))
        ult_yield();
    gpu_submit_begin_in_mpi(sync->context);
    error = gpu_context_enter(sync->context, before_out);
    if (error) {
        gpu_submit_end();
        gpu_gate_leave(sync->device);
        return error;
    }
    gpu_repeats_break();
    error = gpu_driver_check(gpu_call_begin(call, sync->stream, false, GPU_CALL_SUBMIT, NULL),
                             "cuStreamBatchMemOp");
    sync->driver = call->stream;
    if (BASE_UNLIKELY(sync->has_late) && !error)
        error = add_late(sync);
    if (error)
        gpu_sync_end(sync, call, *before_out);
    return error;
}

void gpu_sync_end(struct gpu_sync *sync, const struct gpu_call *call, CUcontext before)
{
    gpu_call_end(call);
    gpu_context_leave(sync->context, before);
    gpu_submit_end();
    gpu_gate_leave(sync->device);
}

int gpu_sync_launch(int device, CUstream stream, int kernel, unsigned n_blocks, unsigned n_threads,
                    void *args, size_t args_bytes)
{
    void *options[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, args, CU_LAUNCH_PARAM_BUFFER_SIZE, &args_bytes,
                       CU_LAUNCH_PARAM_END};
    CUfunction function;
    int error = gpu_module_function(device, kernel, &function);

    return error ? error
                 : gpu_call(cuLaunchKernel,
                            (function, n_blocks, 1, 1, n_threads, 1, 1, 0, stream, NULL, options));
}

/* is_late: without an operation in the stream. */
static void append_point(struct gpu_sync *sync, struct gpu_point *point, bool is_late)
{
    struct gpu_pe *pe = gpu_pe_self();

    point->is_late = is_late;
    point->number = ++sync->n_points;
    point->n_before = sync->n_holds;
    point->is_resting = false;
    point->next = NULL;
    if (sync->points)
        sync->points_last->next = point;
    else
        sync->points = point;
    sync->points_last = point;
    sync->has_late = is_late;
    if (!is_late)
        count_one(sync);
    pe->source.pending++;
    if (!sync->is_listed) {
        sync->is_listed = true;
        sync->next = pe->syncs;
        pe->syncs = sync;
    }
}

void gpu_sync_append_point(struct gpu_sync *sync, struct gpu_point *point)
{
    append_point(sync, point, false);
}

/* Puts a hold that is kept into the stream. */
static int put_hold(struct gpu_sync *sync, struct gpu_hold *hold)
{
    CUstreamBatchMemOpParams op = gpu_sync_wait(sync->words_at + offsetof(struct gpu_sync_words, released),
                                                hold->number, CU_STREAM_WAIT_VALUE_GEQ | sync->wait_flags);
    int error = add_late_before(sync, hold);

    if (!error)
        error = gpu_call(cuStreamBatchMemOp, (sync->driver, 1, &op, 0));
    return error;
}

/* After an error the context is broken, and so is the program's call behind the holds. */
static void let_go(struct gpu_kept *kept)
{
    struct gpu_sync *sync = BASE_CONTAINER(kept, struct gpu_sync, kept);
    CUcontext before;
    int not_entered = gpu_context_enter(sync->context, &before), error = not_entered;

    gpu_submit_begin(NULL);
    for (struct gpu_hold *hold = first_kept(sync); hold; hold = hold->next) {
        if (!error)
            error = put_hold(sync, hold);
        hold->kept = 0;
        sync->n_waiting++;
    }
    gpu_submit_end();
    sync->n_kept = 0;
    gpu_kept_remove(kept);
    if (!not_entered)
        gpu_context_leave(sync->context, before);
}

static void keep(struct gpu_sync *sync, struct gpu_hold *hold)
{
    hold->kept = gpu_kept_number();
    if (sync->n_kept++ > 0)
        return;
    sync->kept.first = hold->kept;
    sync->kept.stream = sync->stream;
    sync->kept.context = sync->context;
    sync->kept.let_go = let_go;
    gpu_kept_add(&sync->kept);
}

static void append_hold(struct gpu_sync *sync, struct gpu_hold *hold, bool is_kept)
{
    hold->kept = 0;
    hold->number = ++sync->n_holds;
    hold->next = NULL;
    hold->is_released = false;
    if (sync->holds)
        sync->holds_last->next = hold;
    else
        sync->holds = hold;
    sync->holds_last = hold;
    count_one(sync);
    if (BASE_UNLIKELY(is_kept)) {
        sync->n_waiting--; /* nothing is in the stream */
        keep(sync, hold);
    }
}

static int submit(struct gpu_sync *sync, CUstream stream, bool has_point, bool has_hold)
{
    CUstreamBatchMemOpParams ops[2];
    unsigned n_ops = 0;

    if (gpu_stream_is_captured(stream, NULL))
        return gpu_driver_record(GPU_SYNC_CAPTURED, "cuStreamBatchMemOp");
    if (has_point)
        ops[n_ops++] =
            gpu_sync_write(sync->words_at + offsetof(struct gpu_sync_words, reached), sync->n_points + 1);
    if (has_hold)
        ops[n_ops++] = gpu_sync_wait(sync->words_at + offsetof(struct gpu_sync_words, released),
                                     sync->n_holds + 1, CU_STREAM_WAIT_VALUE_GEQ | sync->wait_flags);
    return n_ops > 0 ? gpu_call(cuStreamBatchMemOp, (stream, n_ops, ops, 0)) : 0;
}

/* Behind kept holds. */
static BASE_COLD int add_kept(struct gpu_sync *sync, struct gpu_point *point, struct gpu_hold *hold)
{
    if (point)
        append_point(sync, point, true);
    if (hold)
        append_hold(sync, hold, true);
    return 0;
}

static bool is_full(const struct gpu_sync *sync)
{
    return sync->n_waiting >= LATE_FROM;
}

int gpu_sync_add(struct gpu_sync *sync, struct gpu_point *point, struct gpu_hold *hold)
{
    bool is_kept = hold && gpu_connections_are_short(sync->device);
    struct gpu_call call;
    CUcontext before;
    int error;

    if (BASE_UNLIKELY(sync->n_kept > 0 || (!hold && is_full(sync))))
        return add_kept(sync, point, hold);
    error = gpu_sync_begin(sync, &call, &before);
    if (error)
        return error;
    error = submit(sync, call.stream, point != NULL, hold && !is_kept);
    if (point && !error)
        gpu_sync_append_point(sync, point);
    if (hold && !error)
        append_hold(sync, hold, is_kept);
    gpu_sync_end(sync, &call, before);
    return error;
}

bool gpu_sync_is_full(const struct gpu_sync *sync)
{
    return is_full(sync) || sync->n_kept > 0 || gpu_connections_are_short(sync->device);
}

void gpu_sync_make_room(struct gpu_sync *sync)
{
    while (sync->n_waiting >= SYNC_MAX) {
        struct gpu_room_waiter waiter = {sync->room_waiters, ult_self()};
        sync->room_waiters = &waiter;
        ult_suspend();
    }
}

/* The operation of a point or a hold is over. */
static void drop_one(struct gpu_sync *sync)
{
    count(sync, -1);
    if (BASE_LIKELY(--sync->n_waiting > SYNC_MAX / 2))
        return;
    while (sync->room_waiters) {
        struct ult *u = sync->room_waiters->u;
        sync->room_waiters = sync->room_waiters->next;
        ult_ready(u);
    }
}

/* ---- The PE's part ---- */

static BASE_COLD void pass_kept(struct gpu_sync *sync)
{
    count(sync, -1);
    if (--sync->n_kept == 0)
        gpu_kept_remove(&sync->kept);
    else
        gpu_kept_pass_to(&sync->kept, first_kept(sync)->kept);
}

void gpu_sync_release(struct gpu_sync *sync, struct gpu_hold *hold)
{
    bool goes_on = sync->holds == hold;

    hold->is_released = true;
    while (goes_on) {
        struct gpu_hold *first = sync->holds;
        sync->holds = first->next;
        goes_on = sync->holds && sync->holds->is_released;
        if (!goes_on) {
            gpu_sync_flush(sync);
            atomic_thread_fence(memory_order_seq_cst);
            sync->words->released = first->number;
        }
        if (BASE_UNLIKELY(first->kept))
            pass_kept(sync);
        else
            drop_one(sync);
        first->left(first); /* may destroy the stream, if this was the last hold */
    }
}

int gpu_sync_error_of(CUcontext context, CUevent probe)
{
    CUstreamCaptureMode mode;
    CUcontext before;
    int error = gpu_context_enter(context, &before);

    if (error)
        return error;
    mode = gpu_capture_set_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    error = gpu_call(cuEventQuery, (probe));
    (void)gpu_capture_set_mode(mode);
    gpu_context_leave(context, before);
    return error;
}

/* A point's function may add others, and release holds. */
static int poll_one(struct gpu_pe *pe, struct gpu_sync *sync)
{
    uint32_t reached = sync->words->reached;
    struct gpu_point *point;
    int n_reached = 0, error = 0;

    atomic_thread_fence(memory_order_acquire);
    if ((int32_t)(reached - sync->points->number) < 0 && ++sync->n_looks % LOOKS_PER_QUERY == 0)
        error = gpu_sync_error_of(sync->context, sync->probe);
    while ((point = sync->points) && (error || (int32_t)(reached - point->number) >= 0)) {
        bool is_reached = (int32_t)(reached - point->number) >= 0;
        sync->points = point->next;
        sync->has_late = sync->has_late && sync->points;
        if (BASE_LIKELY(!point->is_late))
            drop_one(sync);
        pe->source.pending -= !point->is_resting;
        n_reached++;
        point->reached(point, is_reached ? 0 : error);
    }
    if (BASE_UNLIKELY(sync->has_late) && sync->n_waiting < LATE_FROM / 2)
        add_late_from_poll(sync);
    return n_reached;
}

void gpu_sync_catch_up(void)
{
    struct gpu_pe *pe = gpu_pe_here();

    if (pe && pe->syncs)
        (void)gpu_sync_poll(pe);
}

int gpu_sync_poll(struct gpu_pe *pe)
{
    struct gpu_sync *sync = pe->syncs, *next;
    int n_reached = 0;

    pe->syncs = NULL;
    for (; sync; sync = next) {
        next = sync->next;
        sync->is_polled = true;
        n_reached += poll_one(pe, sync);
        sync->is_polled = false;
        sync->is_listed = sync->points != NULL;
        if (sync->is_dead) {
            destroy(sync);
        } else if (sync->points) {
            sync->next = pe->syncs;
            pe->syncs = sync;
        }
    }
    return n_reached;
}
