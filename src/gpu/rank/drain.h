/* SPDX-License-Identifier: BSD-3-Clause
 *
 * drain.h: lets a GPU become idle before a call that waits for it inside the driver. For the files of
 * src/gpu alone.
 *
 * cuMemFree, loading of modules and other calls (guard.c) wait until all work of the GPU is done, and hold a
 * lock of the driver meanwhile. A rank that submits work then blocks its PE on that lock; if the GPU's work
 * waits for a message of another rank of this PE, there is a deadlock. So the thread that makes such a call
 * (offload.c) first waits without the lock: it closes the context, which suspends all ranks that submit work
 * there, until the work submitted before is done. Then it calls the driver, which has nothing to wait for.
 *
 * Work may wait for a rank that has to submit first. So a context that does not become idle is opened again
 * after a while, and closed again later, each time for twice as long.
 */
#ifndef GPU_DRAIN_H
#define GPU_DRAIN_H

#include <cuda.h>
#include <limits.h>
#include <stdatomic.h>

#include "base/base.h"
#include "gpu/driver/pe_state.h"

/* Number of times that a context is closed before a call that waits for the GPU, and before one that seldom does. If
 * the GPU is still busy then, the call is made anyway: it may return at once, and the GPU's work may depend on that.
 * GPU_DRAIN_NOT: for a call that submits work itself; the context is closed, but need not be idle. */
#define GPU_DRAIN_OFTEN 8   /* half a second, and as long open */
#define GPU_DRAIN_LONG 10   /* two seconds, and one second open */
#define GPU_DRAIN_BRIEFLY 3 /* 14 ms */
#define GPU_DRAIN_NOT (-1)
#define GPU_DRAIN_UNTIL_IDLE INT_MAX /* for a call that breaks kernels that others launch meanwhile */

/* A closed context; on the stack of the thread that has closed it. */
struct gpu_drain {
    struct gpu_drain *next;
    CUcontext context;
    bool is_closed;
};

/* Number of closed contexts. */
extern _Atomic int gpu_drain_n_closed;

/* Number of captures in progress. While there is one, no context is closed, because the event that shows
 * when a context is idle would invalidate the capture. */
extern _Atomic int gpu_drain_n_captures;

/* Closes the context and waits until it is idle; then it stays closed. One thread at a time closes a context. Opens the context and closes it again
 * at most n_tries - 1 times; if it is not idle then, it stays open. Does nothing before CUDA 12.5, whose
 * driver cannot tell when a context is idle, or while ranks capture. The context is the thread's current
 * one. Blocks the thread. */
void gpu_drain_begin(struct gpu_drain *drain, CUcontext context, int n_tries);

/* Opens it. */
void gpu_drain_end(struct gpu_drain *drain);

/* ---- Calls that submit work to the driver ---- */

/* Called when code of a rank (`caller`) is about to submit work: waits while the current context is closed, if the rank may be
 * suspended there. Until gpu_submit_end the rank must not switch. May switch. */
static inline void gpu_submit_begin(const void *caller);

/* The same where the stream may be of another context than the current one. */
static inline void gpu_submit_begin_to(CUstream stream, const void *caller);

/* The same for this context in a call of MPI. May switch. */
static inline void gpu_submit_begin_in_mpi(CUcontext context);

/* The work has been submitted. */
static inline void gpu_submit_end(void);

/* ---- Private ---- */

void gpu_drain_wait(CUstream stream, const void *caller) BASE_COLD;
void gpu_drain_wait_in_mpi(CUcontext context) BASE_COLD;

/* The same on a PE without a state, which gets one; on another thread of a rank, or a rank's own one outside MPI on a PE that
 * several threads use: it is blocked while the context is closed. Nothing on other threads. */
void gpu_drain_begin_elsewhere(CUstream stream, const void *caller) BASE_COLD;
void gpu_drain_end_elsewhere(void) BASE_COLD;

/* Announces that this PE submits work. Either a thread that closes a context sees the announcement, or this
 * PE sees that the context is closed. */
static inline bool gpu_drain_announce(struct gpu_pe *pe)
{
    atomic_store_explicit(&pe->is_submitting, true, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(&gpu_drain_n_closed, memory_order_relaxed) == 0;
}

static inline void gpu_submit_begin_to(CUstream stream, const void *caller)
{
    struct gpu_pe *pe = gpu_pe_here();

    if (BASE_UNLIKELY(!pe))
        gpu_drain_begin_elsewhere(stream, caller);
    else if (BASE_UNLIKELY(!gpu_drain_announce(pe)))
        gpu_drain_wait(stream, caller);
}

static inline void gpu_submit_begin(const void *caller)
{
    gpu_submit_begin_to(NULL, caller);
}

static inline void gpu_submit_begin_in_mpi(CUcontext context)
{
    struct gpu_pe *pe = gpu_pe_here();

    if (BASE_UNLIKELY(pe && !gpu_drain_announce(pe)))
        gpu_drain_wait_in_mpi(context);
}

static inline void gpu_submit_end(void)
{
    struct gpu_pe *pe = gpu_pe_here();

    if (BASE_LIKELY(pe != NULL))
        atomic_store_explicit(&pe->is_submitting, false, memory_order_release);
    else
        gpu_drain_end_elsewhere();
}

#endif
