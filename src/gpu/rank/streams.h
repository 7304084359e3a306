/* SPDX-License-Identifier: BSD-3-Clause
 *
 * streams.h: each rank's view of CUDA's streams. For the files of src/gpu alone.
 *
 * CUDA's legacy default stream (NULL) belongs to a context, and all ranks of a process share the primary
 * contexts: without this, work of one rank on NULL would wait for the blocking streams of all ranks, and
 * they for it. So each rank has its own default stream in each primary context:
 *
 *      NULL, CU_STREAM_LEGACY                 the rank's default stream
 *      CU_STREAM_PER_THREAD, NULL of _ptsz    a stream of the rank for each of its threads, a blocking one
 *      all streams that a rank creates        are non-blocking for the driver. The order between the rank's
 *                                             default stream and its blocking streams is made here, with an
 *                                             event where one has work that the other has not waited for
 *      cuCtxSynchronize                       waits for the rank's streams
 *      captures                               are relaxed for the driver, so that other ranks may make any
 *                                             call meanwhile (capture.c)
 *
 * Contexts that a program creates itself belong to one rank, and the driver's own rules apply there. They
 * also apply in a process with one rank, and with +gpu no-streams.
 */
#ifndef GPU_STREAMS_H
#define GPU_STREAMS_H

#include <cuda.h>
#include <pthread.h>

#include "gpu/copy/batch.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/pe_state.h"
#include "gpu/rank/drain.h"
#include "gpu/rank/flow.h"
#include "gpu/rank/kept.h"
#include "gpu/rank/launches.h"

#if CUDA_VERSION < 12040
typedef struct CUgreenCtx_st *CUgreenCtx;
#endif

/* A stream that the library knows of. */
struct gpu_stream {
    struct gpu_stream *next;  /* next in its face's list */
    struct gpu_stream *chain; /* next in the rank's hash table */
    struct gpu_face *face;
    CUstream stream;  /* the driver's; NULL: not created yet */
    CUevent mark;     /* for others to wait on; NULL: not created yet */
    uint64_t seen;    /* for a blocking stream: the last work of the default stream that it has waited for */
    bool is_blocking; /* synchronises with the default stream, as the program sees it */
    uint64_t thread;  /* the per-thread stream of this thread (thread_streams.c); 0: another one */
    CUcontext green;  /* its mark is created in this green context; NULL: in the face's */
    int priority;     /* as requested */
    uint64_t id; /* of a stream that the program has created: never used again, unlike the driver's stream */
    bool is_changed; /* it has attributes or memory of its own: it cannot be used again (stream_stock.h) */
    bool has_work;   /* for a blocking stream: work that the default stream has not waited for */
};

/* An event after the remaining work of a destroyed stream. */
struct gpu_orphan {
    struct gpu_orphan *next;
    CUevent event;
    bool is_blocking;
};

/* A stream that a thread of the rank has destroyed while another one waits for it: the driver's is destroyed later. */
struct gpu_ended {
    struct gpu_ended *next;
    CUstream stream;
    CUcontext context;
    int priority;
    bool is_reusable; /* it may go to the stock */
};

/* The streams of a rank in one primary context. */
struct gpu_face {
    struct gpu_face *next; /* next face of the rank */
    struct gpu_rank_streams *rank;
    CUcontext context;
    int device;
    struct gpu_stream base;     /* replaces the legacy default stream */
    struct gpu_stream thread;   /* the per-thread stream of the rank's own ULT */
    struct gpu_stream *streams; /* created by the rank, and per-thread streams of its other threads */
    struct gpu_orphan *orphans; /* the oldest first */
    struct gpu_orphan *orphans_last;
    CUstream joined; /* runs after all streams' work, for cuCtxRecordEvent; NULL: not created yet */
    CUevent gate;    /* new streams wait for it: cuCtxWaitEvent; NULL: none */
    uint64_t n_base; /* number of operations on the default stream */
    uint64_t marked; /* the last one before base.mark */
    int n_blocking;  /* of streams, and of thread if it is created */
};

/* A capture that has begun and not ended. */
struct gpu_capture {
    struct gpu_capture *next; /* the rank's next one */
    CUstream origin;          /* where it began: it ends there, or when that stream is destroyed */
};

#define GPU_STREAM_BUCKETS 64

/* The streams of a rank, which its threads may also use. */
struct gpu_rank_streams {
    pthread_mutex_t lock;
    struct gpu_face *faces;
    struct gpu_stream *table[GPU_STREAM_BUCKETS]; /* created streams, by handle */
    int n_blocking;                               /* in all faces */
    int n_waiters;           /* calls of threads that wait for all streams: objects of the driver stay ... */
    struct gpu_ended *ended; /* ... and the streams that were destroyed meanwhile */
    struct gpu_capture *captures; /* begun and not ended ... */
    int n_captures;               /* ... and their number */
    _Atomic uint64_t devices;     /* whose primary contexts it has retained, by bit */
    CUstream captured_last;       /* where the latest capture ended; it may be destroyed */
    CUstreamCaptureMode mode;     /* set by cuThreadExchangeStreamCaptureMode */
    struct gpu_repeats *repeats;  /* repeats.h; NULL: not needed yet */
    /* Used only by the rank's ULT: */
    struct gpu_launched launched; /* launches.h */
    struct gpu_flows flows;       /* flow.h */
};

/* Without +gpu no-streams (with several ranks), and without +gpu no-waits. Set before the ranks begin. */
extern bool gpu_streams_are_private;
extern bool gpu_waits_suspend;

/* Number of ranks in this process. */
extern int gpu_streams_n_ranks;

/* Number of streams that ranks have on each device. */
extern _Atomic int gpu_streams_n_on[GPU_DEVICES_MAX];

/* A call of the program that names a stream. */
struct gpu_call {
    CUstream stream;               /* for the driver */
    struct gpu_face *face;         /* NULL: the driver's own rules apply */
    struct gpu_rank_streams *rank; /* rank whose ULT makes the call; NULL: another thread, or its waits block,
                                    * or the ranks share their streams */
    bool is_of_thread;             /* it is the driver's own per-thread stream */
    struct gpu_rank_streams *orders; /* the rank whose streams it is ordered with; NULL: none */
    struct gpu_face *peers[2]; /* a copy with memory of other devices: the rank's streams there; NULL: none */
};

enum gpu_call_kind {
    GPU_CALL_ASK,   /* queries the stream */
    GPU_CALL_STATE, /* the same about its capture: where CUDA refuses this, it does not invalidate captures */
    GPU_CALL_JOIN,  /* queries whether its work is done, or waits for it */
    GPU_CALL_SUBMIT, /* adds work */
};

CUresult gpu_streams_order(struct gpu_call *call, bool is_per_thread, enum gpu_call_kind kind,
                           const void *caller);

/* Finds the driver's stream, and makes it wait for work that comes first by CUDA's rules. caller: the code
 * that makes the call; NULL: must not switch. May switch otherwise. gpu_call_end follows a submission. */
static inline CUresult gpu_call_begin(struct gpu_call *call, CUstream stream, bool is_per_thread,
                                      enum gpu_call_kind kind, const void *caller)
{
    *call = (struct gpu_call){.stream = stream};
    gpu_batch_start_now();
    if (gpu_kept_is_any() && kind >= GPU_CALL_JOIN)
        gpu_kept_pass(stream, is_per_thread, caller);
    return gpu_streams_are_private ? gpu_streams_order(call, is_per_thread, kind, caller) : CUDA_SUCCESS;
}

/* Records work that has been submitted to a stream of the rank (by the driver's handle). Never switches. */
void gpu_streams_note(struct gpu_rank_streams *rank, CUstream stream);

/* The parts of gpu_call_reach and gpu_call_end for ranks that use several devices. Never switch. (peers.c) */
CUresult gpu_peers_begin(struct gpu_call *call, CUdeviceptr to, CUdeviceptr from) BASE_COLD;
void gpu_peers_end(const struct gpu_call *call) BASE_COLD;

/* Called when a submission has been made, by the thread that made it: streams that are ordered with this one wait for
 * it from now on. Not earlier: work of other threads of the rank between gpu_call_begin and the driver's call would
 * be taken for later work that has waited. Never switches. */
static inline void gpu_call_end(const struct gpu_call *call)
{
    if (call->orders)
        gpu_streams_note(call->orders, call->stream);
    if (BASE_UNLIKELY(call->peers[0] != NULL))
        gpu_peers_end(call);
}

/* Called between gpu_call_begin and the submission of a copy between two addresses; 0: not of a device. A copy in the
 * default stream between devices is ordered with the default streams of both. */
static inline CUresult gpu_call_reach(struct gpu_call *call, CUdeviceptr to, CUdeviceptr from)
{
    uint64_t devices = (to || from) && call->orders ? call->orders->devices : 0;

    return BASE_UNLIKELY(devices & (devices - 1)) ? gpu_peers_begin(call, to, from) : CUDA_SUCCESS;
}

/* Called before a submission: waits until the stream has room for it. May switch. */
static inline void gpu_call_make_room(const struct gpu_call *call, const void *caller)
{
    if (BASE_LIKELY(call->rank && call->rank->n_captures == 0))
        gpu_flow_count(call, caller);
}

/* The calling rank's streams, on its ULT or one of its threads, inside MPI or outside; NULL: none. */
struct gpu_rank_streams *gpu_streams_of_self(void);

/* The same on the rank's own ULT only, for state that it does not share with its other threads. */
struct gpu_rank_streams *gpu_streams_of_main(void);

/* The created stream with this handle; NULL: it is not the rank's. Lock held. */
struct gpu_stream *gpu_streams_find(struct gpu_rank_streams *rank, CUstream stream);

/* Makes the face's default stream wait for its blocking streams, creating it if necessary. Lock held, but it may be released
 * in between; the face's context is current. Never switches. */
CUresult gpu_streams_join(struct gpu_rank_streams *rank, struct gpu_face *face);

/* Work of destroyed streams (orphans.c). Lock held in all of these but end_wait. Make the default stream wait for it; there is
 * some. The stream is about to be destroyed: returns the error of its work, if there is one. The context has been reset. */
CUresult gpu_orphans_join(struct gpu_face *face);
CUresult gpu_orphans_leave(struct gpu_stream *stream);
void gpu_orphans_forget(struct gpu_face *face);

/* Between begin and end the calling thread may wait for streams and orphans of the rank: they stay. gpu_orphans_keep: the
 * stream, which is about to be destroyed, is one of those. False: nobody waits. caller: NULL: must not switch. */
void gpu_orphans_begin_wait(struct gpu_rank_streams *rank);
void gpu_orphans_end_wait(struct gpu_rank_streams *rank, const void *caller);
bool gpu_orphans_keep(struct gpu_rank_streams *rank, const struct gpu_stream *stream, bool is_reusable);

/* Adds a stream that has been created in the face's context. Lock held. */
struct gpu_stream *gpu_streams_add(struct gpu_rank_streams *rank, struct gpu_face *face, CUstream stream,
                                   bool is_blocking);

/* Removes the stream with this handle, which the rank is about to destroy; its work may continue. True: the library keeps the
 * driver's stream, which must not be destroyed. */
bool gpu_streams_remove(struct gpu_rank_streams *rank, CUstream stream);

/* Destroys the driver's stream. caller: NULL: must not switch. May switch otherwise. */
CUresult gpu_streams_end(CUstream stream, const void *caller);

/* The program gives this stream attributes or memory. */
void gpu_streams_change(CUstream stream);

/* The per-thread stream of the calling thread, which is not the rank's own: one that it has used before, or that of a
 * thread that has ended; NULL: neither. gpu_thread_stream_give makes a stream the thread's. Lock held.
 * (thread_streams.c) */
struct gpu_stream *gpu_thread_stream_find(struct gpu_rank_streams *rank, struct gpu_face *face);
void gpu_thread_stream_give(struct gpu_rank_streams *rank, struct gpu_stream *stream);

/* The rank's face in a context, NULL: the current one. NULL: this is not a primary context, or none is
 * current. Lock held. */
struct gpu_face *gpu_streams_face(struct gpu_rank_streams *rank, CUcontext context);

/* Records the stream's mark: an event after its current work. Its context is current. */
CUresult gpu_streams_mark(struct gpu_stream *stream);

/* True if one of the face's streams is being captured: of all, or of those ordered with the default stream. is_refused: the
 * program's call is refused for that, which invalidates these captures. Lock held. */
bool gpu_streams_are_captured(const struct gpu_face *face, bool are_all, bool is_refused);

/* CUDA refuses to make the default stream part of a capture, which a wait for an event would do here. The result
 * of such a wait. (capture.c) */
CUresult gpu_capture_keep_out(const struct gpu_call *call, CUresult result);

/* Forgets the capture that began in this stream, if there is one: it has ended, or the stream is destroyed.
 * Lock held. (capture.c) */
void gpu_capture_forget(struct gpu_rank_streams *rank, CUstream origin);

/* Called after cuGreenCtxStreamCreate: the stream is the rank's. Before cuGreenCtxDestroy: its streams cannot be used any more.
 * (thread_streams.c) */
void gpu_green_has_stream(const CUstream *stream, CUresult result);
void gpu_green_ends(CUgreenCtx green);

/* Called when a context is reset: drops the rank's streams in it. */
void gpu_streams_forget(CUcontext context);

/* True if a call that CUDA calls synchronous, which has been put on a default stream, returns before its work is done; MPI waits
 * for it when it is first given this memory. written: the device memory that the call writes, 0: not of a device; read: that it
 * reads, 0: none. Never switches. (settle.c) */
bool gpu_streams_return_early(const struct gpu_call *call, CUdeviceptr written, CUdeviceptr read);

/* True if the driver's own call, which is not made yet, returns before its work is done. (settle.c) */
bool gpu_driver_returns_early(CUdeviceptr written, CUdeviceptr read);

/* MPI asks for the first time about the device memory at an address, which is in [from, to): synchronous calls wait for their
 * work on it from now on, and this waits for earlier ones, of any rank of the process. If the driver refuses that, all
 * synchronous calls wait from now on. Never switches. */
void gpu_streams_make_synchronous(CUdeviceptr address, uintptr_t from, uintptr_t to);

/* The context has been reset. */
void gpu_early_forget(CUcontext context);

/* The context of a stream, of default streams the current one; NULL: none. */
CUcontext gpu_stream_context(CUstream stream);

/* True if the stream is being captured. Also outputs its capture's id if id_out is not NULL. */
bool gpu_stream_is_captured(CUstream stream, cuuint64_t *id_out);

#endif
