/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_sync.h: the inside of a gpu_sync (gpu.h); for stream_sync.c and stream_graph.c.
 */
#ifndef GPU_STREAM_SYNC_H
#define GPU_STREAM_SYNC_H

#include "gpu/rank/kept.h"
#include "gpu/rank/streams.h"

/* Pinned memory, the stream's or that of one end in a graph. */
struct gpu_sync_words {
    volatile uint32_t reached;  /* written by the GPU */
    volatile uint32_t released; /* written by the PE */
};

/* A ULT that waits for room; on its stack. */
struct gpu_room_waiter {
    struct gpu_room_waiter *next;
    struct ult *u;
};

struct gpu_sync {
    struct gpu_sync *next; /* link of the PE's list; see is_listed */
    CUstream stream;       /* the program's */
    CUstream driver;       /* the driver's, where the library has last added work */
    CUcontext context;
    int device;
    struct gpu_sync_words *words; /* pinned memory of the context */
    CUdeviceptr words_at;
    CUevent probe; /* never recorded: a query of it returns the context's error */
    uint32_t n_points;
    uint32_t n_holds;
    struct gpu_point *points; /* that have not been reached, in order */
    struct gpu_point *points_last;
    struct gpu_hold *holds; /* from the first one that is not released, in order */
    struct gpu_hold *holds_last;
    int n_waiting;        /* points and holds in the lists that have operations in the stream */
    int n_kept;           /* the last holds in the list that have none, and get none */
    bool has_late;        /* the last points in the list have none yet */
    struct gpu_kept kept; /* on the list of rank/kept.h while n_kept > 0 */
    struct gpu_room_waiter *room_waiters;
    unsigned n_looks;
    bool is_listed;
    bool is_polled;                   /* a point's function may be running ... */
    bool is_dead;                     /* ... and has destroyed it */
    struct gpu_graph_block *captured; /* memory of its ends in graphs, the newest first (stream_graph.c) */
    struct gpu_slots *slots;          /* memory for small messages; NULL: none (stream_slots.c) */
    unsigned wait_flags;              /* for waits of the stream: a flush of remote writes, or 0 */
    bool must_flush;                  /* the PE flushes them before a release */
};

/* An operation of cuStreamBatchMemOp: writes this value, or waits until the word compares so (flags of enum
 * CUstreamWaitValue_flags, with those of gpu_sync.wait_flags). */
CUstreamBatchMemOpParams gpu_sync_write(CUdeviceptr word, uint32_t value);
CUstreamBatchMemOpParams gpu_sync_wait(CUdeviceptr word, uint32_t value, unsigned compare);

/* Between begin and end the caller submits work to call->stream, in the stream's context. After an error of
 * begin nothing has begun. begin may switch. */
int gpu_sync_begin(struct gpu_sync *sync, struct gpu_call *call, CUcontext *before_out) BASE_MUST_CHECK;
void gpu_sync_end(struct gpu_sync *sync, const struct gpu_call *call, CUcontext before);

/* Launches a kernel of the library between begin and end, with one struct as its argument. */
int gpu_sync_launch(int device, CUstream stream, int kernel, unsigned n_blocks, unsigned n_threads,
                    void *args, size_t args_bytes) BASE_MUST_CHECK;

/* Adds the point that belongs to work submitted between begin and end: the work writes the number of the
 * next point (n_points + 1) into `reached`. */
void gpu_sync_append_point(struct gpu_sync *sync, struct gpu_point *point);

/* The context's error; 0: none. probe: an event of the context that is never recorded. */
int gpu_sync_error_of(CUcontext context, CUevent probe);

/* Makes sure that there is memory for another end in a graph. The first is allocated with the stream,
 * because none should be allocated during a capture. May switch. (stream_graph.c) */
int gpu_graph_make_room(struct gpu_sync *sync) BASE_MUST_CHECK;

/* Free the memory of the stream's ends in graphs, whose context is current; or keep it for new ends, if the
 * gpu_sync is used again. (stream_graph.c) */
void gpu_graph_free_blocks(struct gpu_sync *sync);
void gpu_graph_keep_blocks(struct gpu_sync *sync);

/* Allocates memory for the stream's small messages, whose context is current. There is none if memory is
 * short, or if kernels cannot exchange messages here. May switch. (stream_slots.c) */
void gpu_slots_make(struct gpu_sync *sync);
void gpu_slots_free(struct gpu_sync *sync);

/* Decides how data that a network card writes becomes visible to work in the stream; makes it visible, before a release.
 * Never switch. (remote_writes.c) */
void gpu_sync_choose_flush(struct gpu_sync *sync);
void gpu_sync_flush(const struct gpu_sync *sync);

/* A stream of MPI on this device is there (1), or is gone (-1). The second: true if a stream that
 * waits may hold up others, because there are many. (connections.c) */
void gpu_connections_count(int device, int by);
bool gpu_connections_are_short(int device);

/* Calls the points that streams of this PE have reached; returns their number. (stream_sync.c) */
int gpu_sync_poll(struct gpu_pe *pe);

/* Serves the ends of messages that graphs have reached; returns their number. (stream_graph.c) */
int gpu_graph_poll(struct gpu_pe *pe);

/* Looks at what kernels of the program write; returns the number of watches that are over. (watch.c) */
int gpu_watch_poll(struct gpu_pe *pe);

/* Called before streams or kernels can wait for PEs on a device: creates what the library may need there later, once. May
 * switch. (stream_sync.c) */
void gpu_sync_prepare(int device);

#endif
