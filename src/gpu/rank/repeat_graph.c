/* SPDX-License-Identifier: BSD-3-Clause
 *
 * repeat_graph.c: makes the graphs of repeated sequences beside the rank; see repeats.h.
 *
 * The driver's instantiation may wait for the GPU, and thus for kernels that wait for a rank of this PE. So a thread makes the
 * graph, and only if the GPU becomes idle while its context is closed (drain.h); then no other thread records the event that
 * would invalidate the capture, either. The rank goes on call by call meanwhile. Before CUDA 12.5 nothing tells that a
 * context is idle, so there are no graphs.
 */
#include <string.h>

#include "base/log.h"
#include "gpu/rank/repeats.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/stream_stock.h"

/* Held while a graph is made: objects of the sequence stay. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t generation = 1;

uint64_t gpu_graphs_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_acquire);
}

void gpu_graphs_forget_all(void)
{
    pthread_mutex_lock(&lock);
    atomic_fetch_add_explicit(&generation, 1, memory_order_acq_rel);
    pthread_mutex_unlock(&lock);
}

void gpu_graph_job_cancel(struct gpu_graph_job *job)
{
    pthread_mutex_lock(&lock);
    job->is_cancelled = true;
    pthread_mutex_unlock(&lock);
}

/* A stream for captures, which passes its priority and attributes on to captured operations; NULL: none.
 * The context is current. */
static CUstream capture_of(struct gpu_capture_stream *capture, CUcontext context, CUstream like)
{
    int priority = 0;

    if (!gpu_stream_real.r_cuStreamGetPriority || !gpu_stream_real.r_cuStreamCopyAttributes ||
        gpu_stream_real.r_cuStreamGetPriority(like, &priority) != CUDA_SUCCESS)
        return NULL;
    if (!capture->stream || capture->context != context || capture->priority != priority) {
        if (capture->stream)
            gpu_driver.cuStreamDestroy(capture->stream);
        capture->stream = gpu_stock_take(context, priority);
        if (!capture->stream && gpu_driver.cuStreamCreateWithPriority(
                                    &capture->stream, CU_STREAM_NON_BLOCKING, priority) != CUDA_SUCCESS)
            return NULL;
        capture->context = context;
        capture->priority = priority;
    }
    return gpu_stream_real.r_cuStreamCopyAttributes(capture->stream, like) == CUDA_SUCCESS ? capture->stream
                                                                                           : NULL;
}

static void make(struct gpu_offload *offload)
{
    struct gpu_graph_job *job = BASE_CONTAINER(offload, struct gpu_graph_job, offload);
    CUstream capture;

    pthread_mutex_lock(&lock);
    if (!offload->is_deferred && offload->result == CUDA_SUCCESS && !job->is_cancelled &&
        job->generation == gpu_graphs_generation()) {
        capture = capture_of(job->capture, job->sequence->context, job->sequence->stream);
        if (capture)
            job->graph = gpu_graph_of(job->sequence, capture);
    }
    pthread_mutex_unlock(&lock);
    atomic_store_explicit(&job->is_done, true, memory_order_release);
}

struct gpu_graph_job *gpu_graph_job_begin(const struct gpu_sequence *sequence, uint64_t of_generation,
                                          struct gpu_capture_stream *capture)
{
    struct gpu_graph_job *job = base_calloc(1, sizeof *job, "a graph of launches");

    job->offload.run = make;
    job->offload.may_defer = true;
    job->offload.drain_tries = 1;
    job->sequence = base_malloc(sizeof *sequence, "a sequence of launches");
    memcpy(job->sequence, sequence, sizeof *sequence);
    job->generation = of_generation;
    job->capture = capture;
    gpu_offload_post(&job->offload, sequence->context);
    return job;
}
