/* SPDX-License-Identifier: BSD-3-Clause
 *
 * current.c: the current CUDA context belongs to the rank, not to the thread.
 *
 * CUDA keeps it per OS thread, and the ranks of a PE share one. So it is swapped with the ULT, like errno,
 * once CUDA is in this process (gpu/driver/driver_monitor.h), unless the ULTs have thread pointers of their own: a rank keeps
 * its current context, whether it was set by cudaSetDevice or cuCtxSetCurrent. rank_context.c has the rest of the rank's context stack.
 *
 * A rank without a context starts with the primary context of its PE's device, or with none if that is
 * device 0, the default of CUDA's runtime: at its first turn after CUDA is loaded, or when it loads CUDA
 * itself.
 */
#include "gpu/driver/driver.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/repeats.h"
#include "gpu/rank/streams.h"
#include "gpu/rank/visible.h"
#include "gpu_detect.h"
#include "ult/ult.h"

/* The device of the rank's PE. */
static int device_of_pe(const struct ult *u)
{
    int count = 0, n_pes, index = ult_pe_node_index(u->pe, &n_pes);

    if (gpu_driver.cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return -1;
    return gpu_device_of_pe(index, n_pes, count);
}

int gpu_device_of_self(void)
{
    const struct gpu_visible *seen = gpu_visible_of_self();

    return seen ? seen->devices[0] : device_of_pe(ult_self());
}

/* The context to begin with if this is the first device: none for device 0, as CUDA does it. */
static CUcontext context_to_begin(int device)
{
    return device > 0 ? gpu_context_of(device) : NULL;
}

/* The initial context of the rank. Any of its threads. */
static BASE_COLD CUcontext choose_initial(struct gpu_rank_context *rank, const struct ult *u)
{
    CUcontext initial = context_to_begin(gpu_visible_first(rank, device_of_pe(u)));

    __atomic_store_n(&rank->initial, initial, __ATOMIC_RELAXED);
    __atomic_store_n(&rank->has_initial, true, __ATOMIC_RELEASE);
    return initial;
}

static CUcontext initial_of(struct gpu_rank_context *rank, const struct ult *u)
{
    return __atomic_load_n(&rank->has_initial, __ATOMIC_ACQUIRE)
               ? __atomic_load_n(&rank->initial, __ATOMIC_RELAXED)
               : choose_initial(rank, u);
}

/* What is still current keeps its age: it may have been destroyed. */
static void set_current(struct gpu_rank_context *rank, CUcontext context)
{
    if (!rank->has_begun || rank->current != context)
        gpu_rank_note_current(rank, context);
}

/* For ULTs with thread pointers of their own, for each of which the driver itself keeps a current context: only the initial
 * one has to be set. The driver's context of `to` is now. */
static void begin_own(struct ult *u, CUcontext now)
{
    struct gpu_rank_context *to = gpu_rank_context_of(u);

    if (BASE_LIKELY(to->has_begun))
        return;
    set_current(to, now ? now : initial_of(to, u));
    if (to->current != now)
        gpu_driver.cuCtxSetCurrent(to->current);
}

void gpu_current_swap(struct ult *from, struct ult *to)
{
    struct gpu_rank_context *last, *next;
    CUcontext now = NULL, wanted;

    if (!gpu_is_used() || gpu_driver.cuCtxGetCurrent(&now) != CUDA_SUCCESS)
        return; /* CUDA is absent or not initialized: nothing to save yet */
    gpu_repeats_break();
    if (to->thread_pointer) {
        begin_own(to, now);
        return;
    }
    last = gpu_rank_context_of(from);
    if (BASE_LIKELY(now ||
                    last->has_begun)) /* otherwise it begins at its next turn: a thread has loaded CUDA */
        set_current(last, now);
    next = gpu_rank_context_of(to);
    if (BASE_UNLIKELY(!next->has_begun))
        set_current(next, initial_of(next, to));
    wanted = gpu_context_is_lost(next->current, next->since) ? NULL : next->current;
    if ((wanted != now || gpu_context_is_lost(now, last->since)) &&
        gpu_driver.cuCtxSetCurrent(wanted) != CUDA_SUCCESS)
        gpu_driver.cuCtxSetCurrent(NULL); /* never the context of `from` */
}

void gpu_current_prepare(void)
{
    gpu_call(cuInit, (0));
}

void gpu_current_begin(void)
{
    struct gpu_rank_context *rank;
    CUcontext now = NULL;

    if (!gpu_rank_is_main() || !gpu_is_used() || gpu_call(cuInit, (0)) || gpu_call(cuCtxGetCurrent, (&now)))
        return;
    rank = gpu_rank_context_of(ult_self());
    if (rank->has_begun)
        return;
    set_current(rank, now ? now : initial_of(rank, ult_self()));
    if (!now && rank->current)
        gpu_driver.cuCtxSetCurrent(rank->current);
}

/* The context with which another thread of a rank begins; on that thread. */
static BASE_COLD CUcontext first_of_thread(void)
{
    struct ult *u = gpu_rank_of_self();
    const struct gpu_visible *seen;

    if (!u || !gpu_is_used())
        return NULL;
    seen = gpu_visible_of_self(); /* reads the variable; the rank may have begun before that */
    return seen ? context_to_begin(seen->devices[0]) : initial_of(gpu_rank_context_of(u), u);
}

/* The calling thread, not a rank's own, has had a current context, or has asked for it. */
static __thread bool thread_has_begun __attribute__((tls_model("initial-exec")));

void gpu_current_note_thread(void)
{
    thread_has_begun = true;
}

CUresult CUDAAPI gpu_rank_get_current(CUcontext *context)
{
    CUcontext first;
    CUresult result;

    gpu_guard_prepare();
    result = gpu_contexts_real.get_current(context);
    if (BASE_LIKELY(result != CUDA_SUCCESS || !context || *context || thread_has_begun))
        return result;
    if (gpu_rank_is_main()) { /* it has not begun if a thread has loaded CUDA */
        gpu_current_begin();
        return gpu_contexts_real.get_current(context);
    }
    thread_has_begun = true;
    first = first_of_thread();
    if (first && gpu_driver.cuCtxSetCurrent && gpu_driver.cuCtxSetCurrent(first) == CUDA_SUCCESS)
        *context = first;
    return CUDA_SUCCESS;
}

void gpu_current_restart(struct gpu_rank_context *rank)
{
    CUcontext now = NULL;

    if (gpu_call(cuCtxGetCurrent, (&now)) || now != rank->initial)
        return;
    set_current(rank, choose_initial(rank, ult_self()));
    if (rank->current != now)
        gpu_driver.cuCtxSetCurrent(rank->current);
}
