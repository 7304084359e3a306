/* SPDX-License-Identifier: BSD-3-Clause
 *
 * settle.c: calls that CUDA calls synchronous, but that may return before their work is done (cudaMemcpy from pageable
 * memory, cudaMemset): MPI waits for them first.
 *
 * That happens when the driver is first asked about a buffer, which then gets CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: later calls
 * on it wait themselves. Mapped memory refuses the attribute, and memory of pools ignores it. When MPI gets the first such
 * buffer, all synchronous calls of the process begin to wait: those of ranks with their own default streams here, those of the
 * driver by CU_CTX_SYNC_MEMOPS (since CUDA 12.1). Only then, because each call takes as long as its copy.
 *
 * A collective or a window may let another rank ask first, on another PE. So each early call of a rank leaves its addresses and
 * an event in a list of the process. A call is in the list before its rank looks again whether the buffer has the attribute, and
 * a PE that asks sets the attribute before it looks into the list: one of them waits.
 */
#include "gpu/rank/streams.h"

#include "base/log.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/waits.h"

#if CUDA_VERSION < 12010
#define CU_CTX_SYNC_MEMOPS 0x80
#endif

/* A call that has returned early. */
struct early {
    struct early *next;
    CUcontext context;
    CUevent event;             /* after its work */
    CUdeviceptr written, read; /* 0: none */
};

static _Atomic bool calls_wait;
static _Atomic int n_early;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the lists */
static struct early *list, *spare;

/* ---- The list. Lock held ---- */

/* Drops the calls of a context, the current one, whose work is done. */
static void drop_done(CUcontext context)
{
    struct early **link = &list, *early;

    while ((early = *link)) {
        if (early->context != context || gpu_driver.cuEventQuery(early->event) != CUDA_SUCCESS) {
            link = &early->next;
            continue;
        }
        *link = early->next;
        early->next = spare;
        spare = early;
        atomic_fetch_sub(&n_early, 1);
    }
}

/* One with an event of the context, which is current; NULL: the driver has no event. */
static struct early *take_spare(CUcontext context)
{
    struct early **link = &spare, *found;
    CUevent event;

    while ((found = *link) && found->context != context)
        link = &found->next;
    if (found) {
        *link = found->next;
        return found;
    }
    if (gpu_driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return NULL;
    found = base_malloc(sizeof *found, "a call that has returned early");
    found->context = context;
    found->event = event;
    return found;
}

static void forget(struct early **link, CUcontext context, int count)
{
    while (*link) {
        struct early *early = *link;
        if (early->context != context) {
            link = &early->next;
            continue;
        }
        *link = early->next;
        free(early);
        atomic_fetch_sub(&n_early, count);
    }
}

void gpu_early_forget(CUcontext context)
{
    pthread_mutex_lock(&lock);
    forget(&list, context, 1);
    forget(&spare, context, 0);
    pthread_mutex_unlock(&lock);
}

/* ---- The calls ---- */

static bool may_return(CUdeviceptr written, CUdeviceptr read)
{
    return !atomic_load(&calls_wait) && gpu_memory_may_be_late(written) &&
           (!read || gpu_memory_may_be_late(read));
}

/* The driver may block in cuEventRecord. False: it refuses. */
static bool add(const struct gpu_call *call, CUdeviceptr written, CUdeviceptr read)
{
    struct early *early, **to;
    bool is_recorded;

    pthread_mutex_lock(&lock);
    drop_done(call->face->context);
    early = take_spare(call->face->context);
    pthread_mutex_unlock(&lock);
    if (!early)
        return false;
    is_recorded = gpu_driver.cuEventRecord(early->event, call->stream) == CUDA_SUCCESS;
    to = is_recorded ? &list : &spare;
    early->written = written;
    early->read = read;
    pthread_mutex_lock(&lock);
    early->next = *to;
    *to = early;
    atomic_fetch_add(&n_early, is_recorded);
    pthread_mutex_unlock(&lock);
    return is_recorded;
}

bool gpu_streams_return_early(const struct gpu_call *call, CUdeviceptr written, CUdeviceptr read)
{
    return written && may_return(written, read) && add(call, written, read) && may_return(written, read);
}

/* ---- Waiting ---- */

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

/* The latest call whose addresses are between two, [from, to), or NULL. Lock held. */
static const struct early *find(CUdeviceptr from, CUdeviceptr to)
{
    const struct early *found = list;

    while (found && (found->written < from || found->written >= to) &&
           (found->read < from || found->read >= to))
        found = found->next;
    return found;
}

/* Waits for the event of one such call; false: there is none. */
static bool settle_one(CUdeviceptr from, CUdeviceptr to)
{
    const struct early *found;
    struct early early;
    CUcontext before;

    pthread_mutex_lock(&lock);
    found = find(from, to);
    if (found)
        early = *found;
    pthread_mutex_unlock(&lock);
    if (!found || gpu_context_enter(early.context, &before))
        return false;
    if (gpu_driver.cuEventSynchronize(early.event) != CUDA_SUCCESS)
        found = NULL; /* the context is broken */
    pthread_mutex_lock(&lock);
    drop_done(early.context);
    pthread_mutex_unlock(&lock);
    gpu_context_leave(early.context, before);
    return found != NULL;
}

void gpu_streams_settle(bool is_refused, uintptr_t from, uintptr_t to)
{
    if (is_refused) {
        atomic_store(&calls_wait, true);
        make_contexts_wait();
    }
    while (atomic_load(&n_early) > 0 && settle_one(from, to))
        continue;
}
