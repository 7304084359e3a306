/* SPDX-License-Identifier: BSD-3-Clause
 *
 * streams.c: a rank's default streams, and their order with its other streams. See streams.h.
 *
 * CUDA's order: work on the default stream runs after all earlier work on the rank's blocking streams, and
 * before all later work on them. Programs that use only one of the two kinds pay for one comparison.
 */
#include "gpu/driver/driver_monitor.h"
#include "gpu/rank/streams.h"

#include <string.h>

#include "base/log.h"
#include "gpu/rank/graph_launches.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/linked_calls.h"
#include "gpu/rank/offload.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/repeats.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/stream_stock.h"
#include "gpu/rank/waits.h"
#include "gpu_detect.h"

bool gpu_streams_are_private;
int gpu_streams_n_ranks;
_Atomic int gpu_streams_n_on[GPU_DEVICES_MAX];
struct ult *(*gpu_rank_of_thread)(void);
bool gpu_needs_progress;

/* The choice of gpu_streams_choose. */
static bool is_private_wanted = true, is_suspending_wanted = true, are_graphs_wanted = true;

void gpu_streams_choose(bool are_private, bool is_suspending, bool are_graphs)
{
    is_private_wanted = are_private;
    is_suspending_wanted = is_suspending;
    are_graphs_wanted = are_graphs;
}

/* A runtime that has already looked up functions keeps the driver's: so either all calls are intercepted,
 * or none. */
void gpu_streams_begin(int n_ranks)
{
    bool is_late = gpu_monitor_is_late();

    if (is_late && n_ranks > 1)
        base_log_verbose(1, "CUDA was in use before the ranks began: they share its default streams");
    gpu_streams_are_private = is_private_wanted && n_ranks > 1 && !is_late;
    gpu_captures_are_relaxed = gpu_streams_are_private;
    gpu_waits_suspend = is_suspending_wanted && n_ranks > 1 && !is_late;
    gpu_repeats_are_on = are_graphs_wanted && gpu_streams_are_private;
    gpu_streams_n_ranks = n_ranks;
}

void gpu_waits_make_progress(void)
{
    bool can_suspend = is_suspending_wanted && !gpu_monitor_is_late() && gpu_guard_sees_waits();

    atomic_store(&gpu_streams_wait_for_pes, true);
    if (gpu_streams_n_ranks == 1 && atomic_load(&gpu_waits_have_threads))
        can_suspend = false;
    if (gpu_waits_suspend)
        return;
    if (can_suspend && !ult_progress_is_started()) {
        gpu_waits_suspend = gpu_waits_are_of_all_code = true;
        return;
    }
    __atomic_store_n(&gpu_needs_progress, true, __ATOMIC_RELAXED);
    if (gpu_streams_n_ranks == 1)
        gpu_linked_calls_take_over();
}

/* ---- The streams of a rank ---- */

/* The streams of a rank's context, on any of its threads. */
static struct gpu_rank_streams *streams_of(struct gpu_rank_context *rank)
{
    struct gpu_rank_streams *made = __atomic_load_n(&rank->streams, __ATOMIC_ACQUIRE), *other = NULL;

    if (BASE_LIKELY(made != NULL))
        return made;
    made = base_calloc(1, sizeof *made, "a rank's streams");
    pthread_mutex_init(&made->lock, NULL);
    made->mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (__atomic_compare_exchange_n(&rank->streams, &other, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return made;
    pthread_mutex_destroy(&made->lock);
    free(made);
    return other;
}

struct gpu_rank_streams *gpu_streams_of_self(void)
{
    struct ult *u = gpu_streams_are_private ? gpu_rank_of_self() : NULL;

    return u ? streams_of(gpu_rank_context_of(u)) : NULL;
}

struct gpu_rank_streams *gpu_streams_of_main(void)
{
    return gpu_rank_is_main() ? gpu_streams_of_self() : NULL;
}

static int device_of(CUcontext context)
{
    CUcontext before;
    CUdevice device = 0;

    if (gpu_context_enter(context, &before))
        return 0;
    (void)gpu_call(cuCtxGetDevice, (&device));
    gpu_context_leave(context, before);
    return device;
}

struct gpu_face *gpu_streams_face(struct gpu_rank_streams *rank, CUcontext context)
{
    struct gpu_face *face;

    if (!context)
        context = gpu_context_current();
    if (!context)
        return NULL;
    for (face = rank->faces; face; face = face->next)
        if (face->context == context)
            return face;
    if (!gpu_rank_is_primary(context))
        return NULL;
    face = base_calloc(1, sizeof *face, "a rank's streams of a context");
    face->context = context;
    face->rank = rank;
    face->device = device_of(context);
    face->base.face = face->thread.face = face;
    face->thread.is_blocking = true;
    face->next = rank->faces;
    rank->faces = face;
    return face;
}

static struct gpu_stream **bucket_of(struct gpu_rank_streams *rank, CUstream stream)
{
    uintptr_t bits = (uintptr_t)stream;

    return &rank->table[(bits >> 4 ^ bits >> 12) % GPU_STREAM_BUCKETS];
}

struct gpu_stream *gpu_streams_find(struct gpu_rank_streams *rank, CUstream stream)
{
    struct gpu_stream *found = *bucket_of(rank, stream);

    while (found && found->stream != stream)
        found = found->chain;
    return found;
}

/* ---- Order ---- */

CUcontext gpu_stream_context(CUstream stream)
{
    CUcontext context = NULL;

    if (stream <= CU_STREAM_PER_THREAD || !gpu_stream_real.r_cuStreamGetCtx)
        return gpu_context_current();
    return gpu_stream_real.r_cuStreamGetCtx(stream, &context) == CUDA_SUCCESS ? context : NULL;
}

bool gpu_stream_is_captured(CUstream stream, cuuint64_t *id_out)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;

    if (!gpu_stream_real.r_cuStreamGetCaptureInfo ||
        gpu_stream_real.r_cuStreamGetCaptureInfo(stream, &status, &id) != CUDA_SUCCESS)
        return false;
    if (id_out)
        *id_out = id;
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static bool is_captured(CUstream stream, bool is_refused)
{
    if (!stream || !gpu_stream_is_captured(stream, NULL))
        return false;
    if (is_refused)
        (void)gpu_driver.cuStreamQuery(stream); /* is refused, too */
    return true;
}

bool gpu_streams_are_captured(const struct gpu_face *face, bool are_all, bool is_refused)
{
    bool is_found = is_captured(face->thread.stream, is_refused);

    for (const struct gpu_stream *i = face->streams; i; i = i->next)
        is_found |= (are_all || i->is_blocking) && is_captured(i->stream, is_refused);
    return is_found;
}

CUresult gpu_streams_mark(struct gpu_stream *stream)
{
    CUresult result = CUDA_SUCCESS;
    CUcontext before = NULL;

    if (stream->green && gpu_context_enter(stream->green, &before))
        return (CUresult)gpu_driver_last();
    if (!stream->mark)
        result = gpu_driver.cuEventCreate(&stream->mark, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        result = gpu_driver.cuEventRecord(stream->mark, stream->stream);
    if (stream->green)
        gpu_context_leave(stream->green, before);
    return result;
}

/* Makes the default stream wait for the blocking stream's current work. */
static CUresult join_one(struct gpu_face *face, struct gpu_stream *stream)
{
    CUresult result = gpu_streams_mark(stream);

    if (result == CUDA_SUCCESS)
        result = gpu_driver.cuStreamWaitEvent(face->base.stream, stream->mark, 0);
    if (result == CUDA_SUCCESS)
        stream->has_work = false;
    return result;
}

/* Lock held, the face's context is current. */
static CUresult join_all(struct gpu_face *face)
{
    CUresult result = face->orphans ? gpu_orphans_join(face) : CUDA_SUCCESS;

    for (struct gpu_stream *i = face->streams; i && result == CUDA_SUCCESS; i = i->next)
        if (i->is_blocking && i->has_work)
            result = join_one(face, i);
    if (face->thread.has_work && result == CUDA_SUCCESS)
        result = join_one(face, &face->thread);
    return result;
}

static CUresult order_default(struct gpu_rank_streams *rank, struct gpu_face *face, enum gpu_call_kind kind)
{
    CUresult result = CUDA_SUCCESS;

    if (BASE_UNLIKELY(rank->n_captures > 0) && gpu_streams_are_captured(face, false, kind != GPU_CALL_STATE))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (kind >= GPU_CALL_JOIN && BASE_UNLIKELY(face->n_blocking > 0 || face->orphans))
        result = join_all(face);
    return result;
}

/* Orders work on a blocking stream. Lock held; any context may be current. */
static CUresult order_blocking(struct gpu_rank_streams *rank, struct gpu_call *call,
                               struct gpu_stream *stream)
{
    struct gpu_face *face = stream->face;
    CUresult result = CUDA_SUCCESS;
    CUcontext before;

    if (BASE_UNLIKELY(rank->n_captures > 0) && gpu_stream_is_captured(stream->stream, NULL))
        return CUDA_SUCCESS;
    call->orders = rank;
    if (stream->seen == face->n_base)
        return CUDA_SUCCESS;
    if (gpu_context_enter(face->context, &before))
        return (CUresult)gpu_driver_last();
    if (face->marked != face->n_base) {
        result = gpu_streams_mark(&face->base);
        if (result == CUDA_SUCCESS)
            face->marked = face->n_base;
    }
    if (result == CUDA_SUCCESS)
        result = gpu_driver.cuStreamWaitEvent(stream->stream, face->base.mark, 0);
    if (result == CUDA_SUCCESS)
        stream->seen = face->n_base;
    gpu_context_leave(face->context, before);
    return result;
}

/* ---- Calls ---- */

/* Creates the driver's stream of a default stream of the rank. The face's context is current. The lock is
 * held, but released in between; another thread of the rank may do the same. */
static CUresult make(struct gpu_rank_streams *rank, struct gpu_stream *stream, const void *caller)
{
    CUstream made = gpu_stock_take(stream->face->context, 0);
    CUresult result = CUDA_SUCCESS;

    pthread_mutex_unlock(&rank->lock);
    if (!made)
        result = gpu_stock_make(&made, 0, caller);
    pthread_mutex_lock(&rank->lock);
    if (result != CUDA_SUCCESS)
        return result;
    if (stream->stream) {
        gpu_driver.cuStreamDestroy(made);
        return CUDA_SUCCESS;
    }
    stream->stream = made;
    if (stream->is_blocking || stream == &stream->face->base) /* not that of find_of_thread */
        atomic_fetch_add(&gpu_streams_n_on[stream->face->device], 1);
    if (stream->is_blocking) {
        stream->face->n_blocking++;
        rank->n_blocking++;
    }
    return stream->face->gate ? gpu_driver.cuStreamWaitEvent(stream->stream, stream->face->gate, 0)
                              : CUDA_SUCCESS;
}

CUresult gpu_streams_join(struct gpu_rank_streams *rank, struct gpu_face *face)
{
    CUresult result = face->base.stream ? CUDA_SUCCESS : make(rank, &face->base, NULL);

    return result == CUDA_SUCCESS ? order_default(rank, face, GPU_CALL_SUBMIT) : result;
}

/* The per-thread stream of a thread that is not the rank's own. As above. */
static CUresult find_of_thread(struct gpu_rank_streams *rank, struct gpu_face *face, const void *caller,
                               struct gpu_stream **stream_out)
{
    struct gpu_stream made = {.face = face}, *found = gpu_thread_stream_find(rank, face);
    CUresult result = CUDA_SUCCESS;

    if (!found)
        result = make(rank, &made, caller);
    if (made.stream) {
        found = gpu_streams_add(rank, face, made.stream, true);
        gpu_thread_stream_give(rank, found);
    }
    *stream_out = found;
    return result;
}

/* NULL and the other special handles. Lock held. */
static CUresult order_special(struct gpu_rank_streams *rank, struct gpu_call *call, bool is_thread,
                              enum gpu_call_kind kind, const void *caller)
{
    struct gpu_face *face = gpu_streams_face(rank, NULL);
    struct gpu_stream *stream;
    CUresult result = CUDA_SUCCESS;

    call->is_of_thread = is_thread && !face;
    if (!face)
        return CUDA_SUCCESS; /* the rank's own context, or none: the driver handles it */
    stream = is_thread ? &face->thread : &face->base;
    if (is_thread && !gpu_rank_is_main())
        result = find_of_thread(rank, face, caller, &stream);
    else if (BASE_UNLIKELY(!stream->stream))
        result = make(rank, stream, caller);
    if (result != CUDA_SUCCESS)
        return result;
    call->stream = stream->stream;
    call->face = face;
    if (is_thread)
        return kind == GPU_CALL_SUBMIT ? order_blocking(rank, call, stream) : CUDA_SUCCESS;
    if (kind == GPU_CALL_SUBMIT)
        call->orders = rank;
    return order_default(rank, face, kind);
}

CUresult gpu_streams_order(struct gpu_call *call, bool is_per_thread, enum gpu_call_kind kind,
                           const void *caller)
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    CUresult result = CUDA_SUCCESS;
    struct gpu_stream *known;
    bool is_thread;

    if (!rank)
        return CUDA_SUCCESS;
    if (BASE_LIKELY(gpu_waits_suspend && gpu_rank_is_main()))
        call->rank = rank;
    if (call->stream != NULL && call->stream != CU_STREAM_LEGACY && call->stream != CU_STREAM_PER_THREAD) {
        if (BASE_LIKELY(kind != GPU_CALL_SUBMIT || rank->n_blocking == 0))
            return CUDA_SUCCESS;
        pthread_mutex_lock(&rank->lock);
        known = gpu_streams_find(rank, call->stream);
        if (known && known->is_blocking)
            result = order_blocking(rank, call, known);
        pthread_mutex_unlock(&rank->lock);
        return result;
    }
    is_thread = call->stream == CU_STREAM_PER_THREAD || (call->stream == NULL && is_per_thread);
    pthread_mutex_lock(&rank->lock);
    result = order_special(rank, call, is_thread, kind, caller);
    pthread_mutex_unlock(&rank->lock);
    return result;
}

void gpu_streams_note(struct gpu_rank_streams *rank, CUstream stream)
{
    struct gpu_stream *known;
    struct gpu_face *face;

    pthread_mutex_lock(&rank->lock);
    known = gpu_streams_find(rank, stream);
    for (face = rank->faces; face && !known; face = face->next) {
        if (face->base.stream == stream)
            face->n_base++;
        else if (face->thread.stream == stream)
            known = &face->thread;
    }
    if (known)
        known->has_work = true;
    pthread_mutex_unlock(&rank->lock);
}

/* ---- Streams that a rank creates ---- */

struct gpu_stream *gpu_streams_add(struct gpu_rank_streams *rank, struct gpu_face *face, CUstream stream,
                                   bool is_blocking)
{
    static _Atomic uint64_t last_id = UINT64_C(1) << 63; /* the driver's are below */
    struct gpu_stream *made = base_calloc(1, sizeof *made, "a stream of a rank");

    made->id = atomic_fetch_add(&last_id, 1);
    atomic_fetch_add(&gpu_streams_n_on[face->device], 1);
    made->face = face;
    made->stream = stream;
    made->is_blocking = is_blocking;
    made->chain = *bucket_of(rank, stream);
    *bucket_of(rank, stream) = made;
    made->next = face->streams;
    face->streams = made;
    face->n_blocking += is_blocking;
    rank->n_blocking += is_blocking;
    return made;
}

/* Creates a stream in the calling thread's context, non-blocking for the driver if that is a primary one. */
static CUresult create(CUstream *stream_out, unsigned flags, int priority, const void *caller)
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    struct gpu_face *face = NULL;
    CUresult result;

    if (rank) {
        pthread_mutex_lock(&rank->lock);
        face = gpu_streams_face(rank, NULL);
        pthread_mutex_unlock(&rank->lock);
    }
    if (!face || !stream_out || (flags != CU_STREAM_DEFAULT && flags != CU_STREAM_NON_BLOCKING))
        return gpu_stream_real.r_cuStreamCreateWithPriority(stream_out, flags, priority);
    result = gpu_stock_make(stream_out, priority, caller);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&rank->lock);
    gpu_streams_add(rank, face, *stream_out, flags == CU_STREAM_DEFAULT)->priority = priority;
    if (face->gate)
        result = gpu_driver.cuStreamWaitEvent(*stream_out, face->gate, 0);
    pthread_mutex_unlock(&rank->lock);
    return result;
}

CUresult CUDAAPI gpu_stream_create(CUstream *stream_out, unsigned flags)
{
    gpu_guard_prepare();
    return create(stream_out, flags, 0, GPU_CALLER);
}

CUresult CUDAAPI gpu_stream_create_with_priority(CUstream *stream_out, unsigned flags, int priority)
{
    gpu_guard_prepare();
    return create(stream_out, flags, priority, GPU_CALLER);
}

static void unlink_stream(struct gpu_rank_streams *rank, struct gpu_stream *stream)
{
    struct gpu_stream **link = bucket_of(rank, stream->stream);

    while (*link != stream)
        link = &(*link)->chain;
    *link = stream->chain;
    for (link = &stream->face->streams; *link != stream; link = &(*link)->next)
        ;
    *link = stream->next;
    stream->face->n_blocking -= stream->is_blocking;
    rank->n_blocking -= stream->is_blocking;
    atomic_fetch_sub(&gpu_streams_n_on[stream->face->device], 1);
}

/* The rank has no use for the stream, but other ranks may: creating a stream may wait for streams that wait for PEs. */
static bool keep(struct gpu_rank_streams *rank, const struct gpu_stream *stream)
{
    bool is_reusable = atomic_load_explicit(&gpu_streams_wait_for_pes, memory_order_relaxed) &&
                       !stream->is_changed && !stream->green;

    return gpu_orphans_keep(rank, stream, is_reusable) ||
           (is_reusable && gpu_stock_put(stream->face->context, stream->stream, stream->priority, true));
}

bool gpu_streams_remove(struct gpu_rank_streams *rank, CUstream handle)
{
    struct gpu_stream *stream;
    bool is_kept = false;

    gpu_repeats_forget_stream(rank, handle);
    pthread_mutex_lock(&rank->lock);
    stream = gpu_streams_find(rank, handle);
    if (stream) {
        bool is_captured = rank->n_captures > 0 && gpu_stream_is_captured(handle, NULL);
        /* Otherwise the driver returns the error. */
        is_kept = !is_captured && gpu_orphans_leave(stream) == CUDA_SUCCESS && keep(rank, stream);
        unlink_stream(rank, stream);
        if (stream->mark)
            gpu_driver.cuEventDestroy(stream->mark);
        free(stream);
    }
    gpu_capture_forget(rank, handle);
    pthread_mutex_unlock(&rank->lock);
    return is_kept;
}

void gpu_streams_change(CUstream stream)
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    struct gpu_stream *known;

    if (!rank)
        return;
    pthread_mutex_lock(&rank->lock);
    known = gpu_streams_find(rank, stream);
    if (known)
        known->is_changed = true;
    pthread_mutex_unlock(&rank->lock);
}

/* The driver's call may block. */
struct destruction {
    struct gpu_offload offload;
    CUstream stream;
};

static void run_destruction(struct gpu_offload *offload)
{
    offload->result =
        gpu_driver.cuStreamDestroy(BASE_CONTAINER(offload, struct destruction, offload)->stream);
}

CUresult gpu_streams_end(CUstream stream, const void *caller)
{
    struct destruction destruction = {{.label = "cuStreamDestroy", .run = run_destruction}, stream};

    return gpu_offload_call(&destruction.offload, caller && gpu_offload_is_wanted_later(caller));
}

static CUresult destroy(CUstream stream, const void *caller)
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    bool is_special = stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
    bool is_kept = false;

    gpu_guard_prepare();
    if (gpu_kept_is_any())
        gpu_kept_pass(stream, false, caller);
    if (!is_special) {
        gpu_flow_forget(stream);
        is_kept = rank && gpu_streams_remove(rank, stream);
    }
    return is_kept ? CUDA_SUCCESS : gpu_streams_end(stream, caller);
}

CUresult CUDAAPI gpu_stream_destroy(CUstream stream)
{
    return destroy(stream, GPU_CALLER);
}

void gpu_streams_forget(CUcontext context)
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();

    gpu_early_forget(context);
    gpu_graph_launches_forget(context);
    if (!rank)
        return;
    gpu_launches_forget();
    gpu_flow_forget_all();
    pthread_mutex_lock(&rank->lock);
    for (struct gpu_face **link = &rank->faces; *link;) {
        struct gpu_face *face = *link;
        if (face->context != context) {
            link = &face->next;
            continue;
        }
        while (face->streams) {
            struct gpu_stream *stream = face->streams;
            unlink_stream(rank, stream);
            free(stream);
        }
        gpu_orphans_forget(face);
        atomic_fetch_sub(&gpu_streams_n_on[face->device],
                         (face->base.stream != NULL) + (face->thread.stream != NULL));
        rank->n_blocking -= face->n_blocking; /* includes the per-thread stream */
        *link = face->next;
        free(face);
    }
    pthread_mutex_unlock(&rank->lock);
}
