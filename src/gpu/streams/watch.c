/* SPDX-License-Identifier: BSD-3-Clause
 *
 * watch.c: polls, in the PE's progress, memory that kernels of the program write to. See gpu.h. A PE without
 * watches pays for one comparison per poll.
 */
#include "gpu/copy/pool.h"
#include "gpu/copy/queue.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/pe_state.h"
#include "gpu/rank/waits.h"
#include "gpu/streams/stream_sync.h"

/* Polls after which the driver is asked whether the context is broken. */
#define LOOKS_PER_QUERY 1024

/* Creates the streams and the pinned memory that copies will need: creating them later could wait for the
 * GPU, and so for a kernel that waits for this PE. Errors are reported when they are used. */
static void make_queues(int device)
{
    static const enum gpu_stream_role roles[] = {GPU_STREAM_OUT,   GPU_STREAM_IN,    GPU_STREAM_KERNELS,
                                                 GPU_STREAM_ASIDE, GPU_STREAM_LOCAL, GPU_STREAM_RESIDENT};
    static const size_t blocks[] = {GPU_PINNED_SMALL, GPU_PINNED_LARGE};
    int error;

    for (size_t i = 0; i < BASE_COUNT(roles); i++)
        (void)gpu_queue_of(device, roles[i], &error);
    for (size_t i = 0; i < BASE_COUNT(blocks); i++) {
        size_t size;
        void *block = gpu_pinned_get(blocks[i], &size, &error);
        if (block)
            gpu_pinned_put(block);
    }
}

int gpu_watch_create(struct gpu_watch *watch)
{
    CUcontext context = gpu_context_current();
    CUevent probe;
    CUdevice device;
    int error;

    if (!context)
        return gpu_driver_record(CUDA_ERROR_INVALID_CONTEXT, "cuCtxGetCurrent");
    error = gpu_call(cuCtxGetDevice, (&device));
    if (!error)
        error = gpu_call(cuEventCreate, (&probe, CU_EVENT_DISABLE_TIMING));
    if (error)
        return error;
    watch->context = context;
    watch->probe = probe;
    watch->device = gpu_context_of(device) == context ? device : -1;
    watch->n_looks = 0;
    gpu_sync_prepare(device);
    make_queues(device);
    gpu_waits_make_progress();
    return 0;
}

void gpu_watch_destroy(struct gpu_watch *watch)
{
    CUcontext before;

    if (gpu_context_enter(watch->context, &before))
        return; /* the context has been destroyed */
    gpu_driver.cuEventDestroy(watch->probe);
    gpu_context_leave(watch->context, before);
}

void gpu_watch_begin(struct gpu_watch *watch)
{
    struct gpu_pe *pe = gpu_pe_self();

    watch->next = pe->watches;
    pe->watches = watch;
    pe->source.pending++;
}

int gpu_watch_poll(struct gpu_pe *pe)
{
    struct gpu_watch *watch = pe->watches, *next;
    int n_over = 0;

    pe->watches = NULL; /* a watch's function may begin other watches */
    for (; watch; watch = next) {
        int error = BASE_UNLIKELY(++watch->n_looks % LOOKS_PER_QUERY == 0)
                        ? gpu_sync_error_of(watch->context, watch->probe)
                        : 0;
        next = watch->next;
        if (watch->look(watch, error)) {
            watch->next = pe->watches;
            pe->watches = watch;
        } else {
            pe->source.pending--;
            n_over++;
        }
    }
    return n_over;
}

bool gpu_watch_can_use(int device, const void *addr, size_t n_bytes)
{
    const struct gpu_range *range = gpu_resolve(addr);

    return device >= 0 && gpu_peer_access_by_kernel(device, addr, range) &&
           (range->memory != GPU_MEMORY_DEVICE || (uintptr_t)addr + n_bytes <= range->to);
}
