/* SPDX-License-Identifier: BSD-3-Clause
 *
 * settle.c: calls that CUDA calls synchronous, but that may return before their work is done (cudaMemcpy from pageable
 * memory, cudaMemset): a call of MPI on such memory waits for them first.
 *
 * That happens when the driver is first asked about a buffer, which then gets CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: later calls
 * on it wait themselves. Mapped memory refuses the attribute, and memory of pools ignores it. When MPI gets the first such
 * buffer, all synchronous calls of the process begin to wait: those of ranks with their own default streams here, those of the
 * driver by CU_CTX_SYNC_MEMOPS (since CUDA 12.1). Only then, because each call takes as long as its copy.
 */
#include "gpu/rank/streams.h"

#include "gpu/rank/rank_context.h"
#include "gpu/rank/waits.h"

#if CUDA_VERSION < 12010
#define CU_CTX_SYNC_MEMOPS 0x80
#endif

static _Atomic bool calls_wait;

bool gpu_streams_may_return_early(void)
{
    return !atomic_load_explicit(&calls_wait, memory_order_relaxed);
}

void gpu_streams_record_early(const struct gpu_call *call)
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    struct gpu_face *face = call->face;

    pthread_mutex_lock(&rank->lock);
    if ((face->early || gpu_driver.cuEventCreate(&face->early, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) &&
        gpu_driver.cuEventRecord(face->early, call->stream) == CUDA_SUCCESS)
        face->n_early++;
    pthread_mutex_unlock(&rank->lock);
}

/* Makes the driver's synchronous calls in the current context wait, and waits for earlier ones in its default stream. Not
 * for those where streams wait for this PE: the default stream may, too. */
static void make_current_wait(void)
{
    CUresult(CUDAAPI * get)(unsigned *) = (CUresult(CUDAAPI *)(unsigned *))gpu_driver_find("cuCtxGetFlags");
    CUresult(CUDAAPI * set)(unsigned) = (CUresult(CUDAAPI *)(unsigned))gpu_driver_find("cuCtxSetFlags");
    unsigned flags;

    if (get && set && get(&flags) == CUDA_SUCCESS && !(flags & CU_CTX_SYNC_MEMOPS) &&
        set(flags | CU_CTX_SYNC_MEMOPS) == CUDA_SUCCESS &&
        !atomic_load_explicit(&gpu_streams_wait_for_pes, memory_order_relaxed))
        (void)gpu_driver.cuStreamSynchronize(CU_STREAM_LEGACY);
}

/* The same in the contexts whose default streams are the driver's: the current one, and those of all devices. */
static void make_contexts_wait(void)
{
    CUcontext current = gpu_context_current(), before;
    int n_devices = gpu_device_count(), is_active;
    unsigned flags;

    if (current && !(gpu_streams_are_private && gpu_rank_is_primary(current)))
        make_current_wait();
    for (int i = 0; i < n_devices && !gpu_streams_are_private; i++)
        if (gpu_driver.cuDevicePrimaryCtxGetState(i, &flags, &is_active) == CUDA_SUCCESS && is_active &&
            gpu_context_of(i) != current && !gpu_context_enter(gpu_context_of(i), &before)) {
            make_current_wait();
            gpu_context_leave(gpu_context_of(i), before);
        }
}

void gpu_streams_settle(bool is_refused)
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();

    if (is_refused) {
        atomic_store(&calls_wait, true);
        make_contexts_wait();
    }
    if (!rank)
        return;
    pthread_mutex_lock(&rank->lock);
    for (struct gpu_face *face = rank->faces; face; face = face->next) {
        uint64_t n_early = face->n_early;
        if (n_early == face->n_settled)
            continue;
        pthread_mutex_unlock(&rank->lock); /* other threads may make more such calls meanwhile */
        gpu_driver.cuEventSynchronize(face->early);
        pthread_mutex_lock(&rank->lock);
        if (face->n_settled < n_early)
            face->n_settled = n_early;
    }
    pthread_mutex_unlock(&rank->lock);
}
