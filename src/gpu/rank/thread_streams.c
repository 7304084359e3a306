/* SPDX-License-Identifier: BSD-3-Clause
 *
 * thread_streams.c: streams that the driver would create by itself, or for a part of a GPU. cuCtxSynchronize waits for
 * them, too.
 *
 * Per-thread streams of a rank's other threads: the driver's own are unknown to the rank's default stream, so each thread
 * gets a blocking stream of the rank. When the thread ends, its stream is left for the next new thread: a destroyed one
 * would have to be waited for as well.
 *
 * Streams of green contexts: they are never ordered with the default stream, but belong to the device's primary context.
 */
#include "gpu/driver/driver_monitor.h"
#include "gpu/rank/streams.h"

#include "base/log.h"
#include "gpu/rank/drain.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/offload.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/visible.h"
#include "gpu/rank/waits.h"

#define real gpu_stream_real

/* ---- Per-thread streams ---- */

/* In gpu_stream.thread: the thread has ended. */
#define ENDED UINT64_MAX

/* The number of the calling thread, never used again; 0: none yet. The rank that it has streams of. */
static __thread uint64_t number __attribute__((tls_model("initial-exec")));
static __thread struct gpu_rank_streams *rank_of_thread __attribute__((tls_model("initial-exec")));

static pthread_key_t end_key;
static pthread_once_t end_once = PTHREAD_ONCE_INIT;

/* The calling thread ends. */
static void leave_streams(void *unused)
{
    struct gpu_rank_streams *rank = rank_of_thread;

    (void)unused;
    pthread_mutex_lock(&rank->lock);
    for (struct gpu_face *face = rank->faces; face; face = face->next)
        for (struct gpu_stream *i = face->streams; i; i = i->next)
            if (i->thread == number)
                i->thread = ENDED;
    pthread_mutex_unlock(&rank->lock);
}

static void make_end_key(void)
{
    if (pthread_key_create(&end_key, leave_streams) != 0)
        base_fatal(1, "the process has no pthread key left for threads that use CUDA");
}

void gpu_thread_stream_give(struct gpu_rank_streams *rank, struct gpu_stream *stream)
{
    static _Atomic uint64_t last;

    if (!number)
        number = atomic_fetch_add(&last, 1) + 1;
    pthread_once(&end_once, make_end_key);
    rank_of_thread = rank;
    (void)pthread_setspecific(end_key, rank); /* without memory for it the stream stays the thread's */
    stream->thread = number;
}

struct gpu_stream *gpu_thread_stream_find(struct gpu_rank_streams *rank, struct gpu_face *face)
{
    struct gpu_stream *left = NULL;

    for (struct gpu_stream *i = face->streams; i; i = i->next) {
        if (i->thread && i->thread == number)
            return i;
        if (i->thread == ENDED)
            left = i;
    }
    if (left)
        gpu_thread_stream_give(rank, left);
    return left;
}

/* ---- Green contexts ---- */

/* The stream's primary context, and the green context as a context. */
static bool find_contexts(CUstream stream, CUcontext *primary_out, CUcontext *green_out)
{
    CUresult(CUDAAPI * get_both)(CUstream, CUcontext *, CUgreenCtx *) =
        (CUresult(CUDAAPI *)(CUstream, CUcontext *, CUgreenCtx *))gpu_driver_find("cuStreamGetCtx_v2");
    CUgreenCtx green;

    return get_both && get_both(stream, primary_out, &green) == CUDA_SUCCESS &&
           real.r_cuStreamGetCtx(stream, green_out) == CUDA_SUCCESS;
}

void gpu_green_has_stream(const CUstream *stream, CUresult result)
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    CUcontext primary, context;
    struct gpu_face *face;

    if (!rank || result != CUDA_SUCCESS || !find_contexts(*stream, &primary, &context))
        return;
    pthread_mutex_lock(&rank->lock);
    face = gpu_streams_face(rank, primary);
    if (face)
        gpu_streams_add(rank, face, *stream, false)->green = context;
    pthread_mutex_unlock(&rank->lock);
}

/* A stream of this green context that the rank still has; NULL: none. */
static CUstream stream_in(struct gpu_rank_streams *rank, CUcontext green)
{
    CUstream found = NULL;

    pthread_mutex_lock(&rank->lock);
    for (struct gpu_face *face = rank->faces; face; face = face->next)
        for (const struct gpu_stream *i = face->streams; i; i = i->next)
            if (i->green == green)
                found = i->stream;
    pthread_mutex_unlock(&rank->lock);
    return found;
}

void gpu_green_ends(CUgreenCtx green)
{
    CUresult(CUDAAPI * convert)(CUcontext *, CUgreenCtx) =
        (CUresult(CUDAAPI *)(CUcontext *, CUgreenCtx))gpu_driver_find("cuCtxFromGreenCtx");
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    CUcontext context;
    CUstream stream;

    if (!convert || convert(&context, green) != CUDA_SUCCESS)
        return;
    while (rank && (stream = stream_in(rank, context)))
        (void)gpu_streams_remove(rank, stream);
    gpu_context_ends(context); /* where it is current */
    gpu_context_begins(context, false);
}
