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
 *
 * Behind a stream that waits for a message, such a call may never end while this PE waits. CUDA itself does not wait for
 * cudaMemset, and copies from pageable memory do not return early there. So MPI waits for those calls for a short time only. Most
 * launches of graphs and host functions do not wait for messages: behind those the time is longer. A correct program sees no old
 * bytes: CUDA lets it synchronize behind cudaMemset and copies within device memory, before it calls MPI. The driver waits for
 * earlier calls when it sets the attribute: where they may be behind such waits, another thread sets it.
 */
#include "gpu/rank/streams.h"

#include <sched.h>

#include "base/log.h"
#include "gpu/gpu.h"
#include "gpu/rank/graph_launches.h"
#include "gpu/rank/offload.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/waits.h"

#if CUDA_VERSION < 12010
#define CU_CTX_SYNC_MEMOPS 0x80
#endif

/* For so long MPI waits for calls that may be behind waits for messages in streams, and in graphs and host functions. */
#define DEPENDENT_NS 2000000
#define DEPENDENT_ON_OTHERS_NS 200000000

/* The list is searched for calls that are done when it has become twice as long, and from this length on. */
#define LENGTH_MIN 16

/* A call that has returned early. */
struct early {
    struct early *next;
    CUcontext context;
    CUevent event;             /* after its work */
    CUdeviceptr written, read; /* 0: none */
    uint64_t limit_ns;         /* others waited for messages at the time: its stream may, too; 0: none did */
};

static _Atomic bool calls_wait;
static _Atomic int n_early;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the lists */
static struct early *list, *spare;
static int n_searched =
    LENGTH_MIN; /* the length of the list at which it is searched for calls that are done */

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
    n_searched = 2 * atomic_load(&n_early) + LENGTH_MIN;
}

/* Takes a call off the list that is not waited for. */
static void drop_one(const struct early *call)
{
    for (struct early **link = &list; *link; link = &(*link)->next) {
        struct early *early = *link;
        if (early->event != call->event || early->written != call->written || early->read != call->read)
            continue;
        *link = early->next;
        early->next = spare;
        spare = early;
        atomic_fetch_sub(&n_early, 1);
        return;
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

static uint64_t limit_now(void)
{
    if (atomic_load_explicit(&gpu_streams_n_waiting, memory_order_relaxed) > 0)
        return DEPENDENT_NS;
    return atomic_load_explicit(&gpu_n_callbacks, memory_order_relaxed) > 0 ||
                   gpu_graph_launches_are_pending(GPU_DEVICES_ALL)
               ? DEPENDENT_ON_OTHERS_NS
               : 0;
}

/* The driver may block in cuEventRecord. False: it refuses. */
static bool add(const struct gpu_call *call, CUdeviceptr written, CUdeviceptr read)
{
    struct early *early, **to;
    bool is_recorded;

    pthread_mutex_lock(&lock);
    if (atomic_load(&n_early) >= n_searched)
        drop_done(call->face->context);
    early = take_spare(call->face->context);
    pthread_mutex_unlock(&lock);
    if (!early)
        return false;
    is_recorded = gpu_driver.cuEventRecord(early->event, call->stream) == CUDA_SUCCESS;
    to = is_recorded ? &list : &spare;
    early->written = written;
    early->read = read;
    early->limit_ns = limit_now();
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

bool gpu_driver_returns_early(CUdeviceptr written, CUdeviceptr read)
{
    return written && may_return(written, read) && gpu_memory_type(written) != GPU_MEMORY_MANAGED &&
           (!read || gpu_memory_type(read) != GPU_MEMORY_MANAGED);
}

/* ---- Waiting ---- */

/* Waits for earlier calls in the default stream of the current context: for as long as nothing waits for messages, for which
 * the default stream may wait, too. Not during a capture that this would end. */
static void wait_for_default_stream(void)
{
    uint64_t since_ns = ult_now_ns(), limit_ns;
    CUstreamCaptureStatus status;
    cuuint64_t id;

    if (!gpu_stream_real.r_cuStreamGetCaptureInfo ||
        gpu_stream_real.r_cuStreamGetCaptureInfo(CU_STREAM_LEGACY, &status, &id) != CUDA_SUCCESS)
        return;
    if (!atomic_load_explicit(&gpu_streams_wait_for_pes, memory_order_relaxed)) {
        (void)gpu_driver.cuStreamSynchronize(CU_STREAM_LEGACY);
        return;
    }
    while (gpu_driver.cuStreamQuery(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_READY) {
        limit_ns = limit_now();
        if (limit_ns > 0 && ult_now_ns() - since_ns > limit_ns)
            return;
    }
}

/* Makes the driver's synchronous calls in the current context wait, and waits for earlier ones. */
static void make_current_wait(void)
{
    CUresult(CUDAAPI * get)(unsigned *) = (CUresult(CUDAAPI *)(unsigned *))gpu_driver_find("cuCtxGetFlags");
    CUresult(CUDAAPI * set)(unsigned) = (CUresult(CUDAAPI *)(unsigned))gpu_driver_find("cuCtxSetFlags");
    unsigned flags;

    if (get && set && get(&flags) == CUDA_SUCCESS && !(flags & CU_CTX_SYNC_MEMOPS) &&
        set(flags | CU_CTX_SYNC_MEMOPS) == CUDA_SUCCESS)
        wait_for_default_stream();
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

/* Its context is current. False: the context is broken, or a dependent call is not done at this time. */
static bool wait_for(const struct early *early, uint64_t since_ns)
{
    CUresult result;

    if (early->limit_ns == 0)
        return gpu_driver.cuEventSynchronize(early->event) == CUDA_SUCCESS;
    while ((result = gpu_driver.cuEventQuery(early->event)) == CUDA_ERROR_NOT_READY &&
           ult_now_ns() - since_ns < early->limit_ns)
        continue;
    return result == CUDA_SUCCESS;
}

/* Waits for the event of one such call, and takes it off the list. False: there is none. */
static bool settle_one(CUdeviceptr from, CUdeviceptr to, uint64_t since_ns)
{
    const struct early *found;
    struct early early;
    CUcontext before;
    bool is_done;

    pthread_mutex_lock(&lock);
    found = find(from, to);
    if (found)
        early = *found;
    pthread_mutex_unlock(&lock);
    if (!found)
        return false;
    if (gpu_context_enter(early.context, &before)) {
        gpu_early_forget(early.context);
        return true;
    }
    is_done = wait_for(&early, since_ns);
    pthread_mutex_lock(&lock);
    if (is_done)
        drop_done(early.context);
    else
        drop_one(&early);
    pthread_mutex_unlock(&lock);
    gpu_context_leave(early.context, before);
    return true;
}

static void settle(bool is_refused, uintptr_t from, uintptr_t to)
{
    uint64_t since_ns;

    if (is_refused) {
        atomic_store(&calls_wait, true);
        make_contexts_wait();
        from = 0; /* a call on mapped memory may begin in another part of it */
        to = UINTPTR_MAX;
    }
    if (atomic_load(&n_early) == 0)
        return;
    since_ns = ult_now_ns();
    while (atomic_load(&n_early) > 0 && settle_one(from, to, since_ns))
        continue;
}

/* ---- The attribute ---- */

/* A call that another thread makes; the last of the two that use it frees it. */
struct setting {
    struct gpu_offload offload;
    CUdeviceptr address;
    _Atomic bool is_set;
    _Atomic int n_users;
};

static void unref(struct setting *setting)
{
    if (atomic_fetch_sub(&setting->n_users, 1) == 1)
        free(setting);
}

static void set(CUdeviceptr address)
{
    (void)gpu_driver.cuPointerSetAttribute(&(unsigned){1}, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
}

static void run_setting(struct gpu_offload *offload)
{
    struct setting *setting = BASE_CONTAINER(offload, struct setting, offload);

    set(setting->address);
    atomic_store(&setting->is_set, true);
    unref(setting);
}

/* Sets the attribute on another thread. False: not yet. */
static bool set_elsewhere(CUdeviceptr address, CUcontext context, uint64_t limit_ns)
{
    struct setting *setting = base_calloc(1, sizeof *setting, "memory that MPI is given");
    uint64_t since_ns = ult_now_ns();
    bool is_set;

    setting->offload.run = run_setting;
    setting->address = address;
    setting->n_users = 2;
    gpu_offload_post(&setting->offload, context);
    while (!(is_set = atomic_load(&setting->is_set)) && ult_now_ns() - since_ns < limit_ns)
        sched_yield();
    unref(setting);
    return is_set;
}

/* The context of the memory, or the current one, is current meanwhile: a progress thread has none. False: not yet. */
static bool set_attribute(CUdeviceptr address)
{
    CUpointer_attribute wanted = CU_POINTER_ATTRIBUTE_CONTEXT;
    CUcontext current = gpu_context_current(), context = NULL, before;
    void *answer = &context;
    uint64_t limit_ns = gpu_streams_are_private ? 0 : limit_now();

    if (gpu_driver.cuPointerGetAttributes(1, &wanted, &answer, address) != CUDA_SUCCESS || !context)
        context = current;
    if (limit_ns > 0)
        return set_elsewhere(address, context, limit_ns);
    if (gpu_context_enter(context, &before))
        return true;
    set(address);
    gpu_context_leave(context, before);
    return true;
}

/* On memory of pools the attribute has no effect (driver 580, CUDA 13.0: 2 of 3,000 messages had old bytes). */
void gpu_streams_make_synchronous(CUdeviceptr address, uintptr_t from, uintptr_t to)
{
    bool may_be_late = gpu_memory_may_be_late(address);

    if (may_be_late)
        may_be_late = set_attribute(address) && gpu_memory_may_be_late(address);
    settle(may_be_late, from, to);
}
