/* SPDX-License-Identifier: BSD-3-Clause
 *
 * offload.h: runs calls that wait inside CUDA's driver beside the PE. For the files of src/gpu alone.
 *
 * Some calls wait in the driver, and no query tells when they will be done (cuMemFree, loading of modules,
 * the first launch of a kernel). On the PE's thread they would keep all ranks of the PE from running, and a
 * kernel that waits for one of these ranks would never end. So a thread of the library makes such a call,
 * in the rank's current context, while the rank is suspended and its PE runs others.
 *
 * Each call in progress has its own thread: it may wait for an action of another rank that comes after that
 * rank's own call. Threads are created on demand, and kept.
 */
#ifndef GPU_OFFLOAD_H
#define GPU_OFFLOAD_H

#include <cuda.h>

#include "ult/ult.h"

struct gpu_pe;

/* A call, followed by its arguments; on the stack of the rank that waits for it. */
struct gpu_offload {
    void (*run)(struct gpu_offload *offload); /* calls the driver and stores the result; any thread */
    const char *label;                        /* for reports; NULL: it is not made for the program */
    bool may_defer;        /* the caller defers the call if the GPU does not become idle ... */
    bool is_deferred;      /* ... and has to: `run` is not called, or has nothing to do if is_posted */
    bool is_posted;        /* gpu_offload_post; private */
    bool is_of_no_context; /* it needs no current context: the rank's may have been destroyed */
    int drain_tries; /* how often its GPU gets the chance to become idle first (drain.h); 0: it is not closed */
    CUcontext drained; /* the context whose GPU this is; NULL: the rank's current one */
    CUresult result;
    CUcontext context;        /* the rank's; private, like all fields below */
    struct ult *u;            /* the rank; NULL: none waits */
    struct gpu_offload *next; /* of the calls of the rank's PE */
    uint64_t since_ns;        /* when it was made */
    struct ult_wakeup wakeup;
};

/* True if a call from this code must be offloaded. False if the rank may not be suspended there, if no other
 * rank could run meanwhile, or if it captures: then the driver is called directly. */
bool gpu_offload_is_wanted(const void *caller);

/* The same for a call that blocks seldom: true only if streams have waited for PEs. */
bool gpu_offload_is_wanted_later(const void *caller);

/* The same for a call of MPI that may switch. */
bool gpu_offload_is_wanted_in_mpi(void);

/* The ULT of the rank whose call the calling thread makes, on a thread of offloaded calls, too; NULL: of no rank. */
struct ult *gpu_offload_rank(void);

/* Makes the call, offloaded or directly, and returns its result. May switch if is_wanted. */
CUresult gpu_offload_call(struct gpu_offload *offload, bool is_wanted);

/* Reports a call of this PE that has been inside the driver for long while streams wait for PEs. On the PE. */
void gpu_offload_look(const struct gpu_pe *pe) BASE_COLD;

/* Offloads the call in this context, without a rank that waits for it. `run` is called whatever happens, even if result, the
 * context's, is an error; the call is not touched afterwards. On a PE; never switches. */
void gpu_offload_post(struct gpu_offload *offload, CUcontext context);

#endif
