/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank_context.h: each rank's view of CUDA's contexts. For the files of src/gpu alone.
 *
 * CUDA keeps a stack of contexts per OS thread and counts per process how often a device's primary context
 * is retained. Ranks share both, but each behaves as if it were alone, and ends like a process: it resets
 * devices, and the exit handlers of its copy of CUDA's runtime release what it retained.
 *
 *      the stack      belongs to the rank: the driver sees only its top, by cuCtxSetCurrent (current.c swaps
 *                     it with the rank); the rest is kept here. A context that another rank destroys is
 *                     skipped; while it is current, the rank has none
 *      retaining      is counted per rank; the driver is never asked to release, because the last release
 *                     destroys the context, which other ranks and the library still use
 *      resetting      waits for the device's work, like the driver's function, and destroys nothing
 *      peer access    between primary contexts is enabled by the first rank that requests it; each rank
 *                     sees its own request succeed, and none can disable it for others
 *      flags          of primary contexts set the way of waiting, and are ignored
 *
 * If only one rank of the process has used CUDA, and the library has not used the device, all but the stack
 * is passed on to the driver.
 */
#ifndef GPU_RANK_CONTEXT_H
#define GPU_RANK_CONTEXT_H

#include <cuda.h>

#include "gpu/driver/pe_state.h"
#include "gpu/gpu.h"

/* State of a rank, in ult.hook_state; created when CUDA is present and the rank runs, or uses it. Never
 * freed. */
struct gpu_rank_streams;
struct gpu_visible;
struct gpu_context_below;
struct gpu_rank_context {
    struct gpu_rank_streams *streams; /* streams.h; NULL: not needed yet */
    CUcontext current;                /* while the rank does not run: the top of its stack; NULL: none */
    uint64_t since;    /* the contexts destroyed before it became current (gpu_context_is_lost) */
    CUcontext initial; /* what it and its threads begin with (current.c) */
    bool has_initial;  /* `initial` is known */
    const struct gpu_visible *visible; /* the devices that it sees (visible.h); NULL: not known yet */
    bool is_restarted;                 /* its current context follows from them */
    bool has_begun;                    /* `current` is valid: the rank has run since CUDA was loaded */
    struct gpu_context_below *below;   /* the rest of the stack, the lowest first */
    int n_below;
    int room;                             /* capacity of below */
    unsigned n_retained[GPU_DEVICES_MAX]; /* primary contexts, by device */
    uint64_t peers[GPU_DEVICES_MAX]; /* by device: a bit for each device whose memory the rank has enabled
                                      * access to */
};

/* True on a rank's own ULT. The other threads of a rank have ULTs inside MPI, and none outside; their contexts are the
 * driver's in both. */
static inline bool gpu_rank_is_main(void)
{
    const struct ult *self = ult_self();

    return self && !self->main;
}

/* The ULT of the calling rank, on any of its threads; NULL: the thread is of no rank. */
static inline struct ult *gpu_rank_of_self(void)
{
    struct ult *u = ult_self();

    if (!u)
        u = gpu_rank_of_thread ? gpu_rank_of_thread() : NULL;
    else if (u->main)
        u = u->main;
    return u && u->world_rank >= 0 ? u : NULL;
}

/* The state of the rank with this ULT of its own, created at the first call. */
struct gpu_rank_context *gpu_rank_context_of(struct ult *u);

/* Records the context that becomes current. */
void gpu_rank_note_current(struct gpu_rank_context *rank, CUcontext context);

/* The rank's view of these functions; on any thread. Calls on threads of no rank go to the driver, except
 * releases and resets. X(member of gpu_contexts_real, its type's parameters, name in libcuda, the first version of CUDA whose
 * cuGetProcAddress has it, replacement, why). CUDA's runtime 13 still uses the first versions of release
 * and reset, which have separate addresses in the driver. */
#define GPU_RANK_CONTEXT_FUNCTIONS(X)                                                                     \
    X(set_current, (CUcontext), "cuCtxSetCurrent", 4000, gpu_rank_set_current, "the stack is the rank's") \
    X(get_current, (CUcontext *), "cuCtxGetCurrent", 4000, gpu_rank_get_current,                          \
      "threads begin as the rank does")                                                                   \
    X(push, (CUcontext), "cuCtxPushCurrent_v2", 4000, gpu_rank_push, "the stack is the rank's")           \
    X(pop, (CUcontext *), "cuCtxPopCurrent_v2", 4000, gpu_rank_pop, "the stack is the rank's")            \
    X(create_v2, (CUcontext *, unsigned, CUdevice), "cuCtxCreate_v2", 3020, gpu_rank_create_v2,           \
      "pushes the context")                                                                               \
    X(create_v3, (CUcontext *, CUexecAffinityParam *, int, unsigned, CUdevice), "cuCtxCreate_v3", 11040,  \
      gpu_rank_create_v3, "pushes the context")                                                           \
    X(create_v4, (CUcontext *, void *, unsigned, CUdevice), "cuCtxCreate_v4", 12050, gpu_rank_create_v4,  \
      "pushes the context")                                                                               \
    X(destroy, (CUcontext), "cuCtxDestroy_v2", 4000, gpu_rank_destroy, "pops the context")                \
    X(detach, (CUcontext), "cuCtxDetach", 2000, gpu_rank_detach, "may destroy and pop the context")       \
    X(retain, (CUcontext *, CUdevice), "cuDevicePrimaryCtxRetain", 7000, gpu_rank_retain,                 \
      "is counted per rank")                                                                              \
    X(release, (CUdevice), "cuDevicePrimaryCtxRelease_v2", 11000, gpu_rank_release, "is the rank's only") \
    X(reset, (CUdevice), "cuDevicePrimaryCtxReset_v2", 11000, gpu_rank_reset, "is the rank's only")       \
    X(release_v1, (CUdevice), "cuDevicePrimaryCtxRelease", 7000, gpu_rank_release, "is the rank's only")  \
    X(reset_v1, (CUdevice), "cuDevicePrimaryCtxReset", 7000, gpu_rank_reset, "is the rank's only")        \
    X(set_device_flags, (CUdevice, unsigned), "cuDevicePrimaryCtxSetFlags_v2", 11000,                     \
      gpu_rank_set_device_flags, "are all ranks' flags")                                                  \
    X(set_flags, (unsigned), "cuCtxSetFlags", 12010, gpu_rank_set_flags, "are all ranks' flags")          \
    X(enable_peer, (CUcontext, unsigned), "cuCtxEnablePeerAccess", 4000, gpu_rank_enable_peer,            \
      "is the rank's only")                                                                               \
    X(disable_peer, (CUcontext), "cuCtxDisablePeerAccess", 4000, gpu_rank_disable_peer, "is the rank's only")

#define GPU_RANK_PROTOTYPE(member, parameters, name, version, ours, why) CUresult CUDAAPI ours parameters;
GPU_RANK_CONTEXT_FUNCTIONS(GPU_RANK_PROTOTYPE)
#undef GPU_RANK_PROTOTYPE

/* The driver's functions; NULL: missing. Set by gpu_guard_prepare. */
extern struct gpu_contexts_real {
#define GPU_CONTEXTS_MEMBER(member, parameters, name, version, ours, why) \
    CUresult(CUDAAPI *member) parameters;
    GPU_RANK_CONTEXT_FUNCTIONS(GPU_CONTEXTS_MEMBER)
#undef GPU_CONTEXTS_MEMBER
} gpu_contexts_real;

/* ---- The current context (current.c) ---- */

/* Called at each switch between ULTs while gpu_hint requests it. */
void gpu_current_swap(struct ult *from, struct ult *to);

/* The calling rank's code has loaded the driver: the rank starts with the device of its PE. */
void gpu_current_begin(void) BASE_COLD;

/* The calling thread sets its current context itself: it no longer begins with that of its rank. */
void gpu_current_note_thread(void);

/* Initializes the driver, which is present: ranks that begin later start with the device of their PE. */
void gpu_current_prepare(void) BASE_COLD;

/* The running rank sees other devices than those of the process, on its own ULT: unless its code has chosen a
 * context, its current device becomes the first of them. */
void gpu_current_restart(struct gpu_rank_context *rank) BASE_COLD;

/* Waits for the work of a context that the program created, also in captures and on threads of the rank, where calls are not
 * offloaded, and stores the result. False: it has not waited: no stream has waited for a PE so far, the rank is alone in its
 * process, or CUDA refuses calls here. May switch. */
bool gpu_rank_finish(CUcontext context, const void *caller, CUresult *result_out) BASE_MUST_CHECK;

/* True if this is a device's primary context that has been retained. Any thread. */
bool gpu_rank_is_primary(CUcontext context);

#endif
