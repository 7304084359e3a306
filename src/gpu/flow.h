/* SPDX-License-Identifier: BSD-3-Clause
 *
 * flow.h: a rank does not put more on a stream than the driver takes. For the files of src/gpu alone.
 *
 * A stream has room for 1,021 operations, all streams of a context for 8,168. Whoever submits more waits in the
 * driver until there is room again, and a kernel at the head of the stream that waits for another rank of the
 * same PE would never end. So the rank's submissions are counted by stream, and behind every GPU_FLOW_SPAN of
 * them an event is recorded. Before the event is used again, GPU_FLOW_MARKS such spans later, the rank waits for
 * it, suspended.
 */
#ifndef GPU_FLOW_H
#define GPU_FLOW_H

#include <cuda.h>

#include "base/base.h"

#define GPU_FLOW_SPAN 128
#define GPU_FLOW_MARKS 2

/* A stream. */
struct gpu_flow {
    void *key;     /* its handle, or what stands for a context's own default stream; NULL: a free place */
    unsigned n;    /* submissions since the last event */
    unsigned next; /* event */
    CUevent marks[GPU_FLOW_MARKS]; /* in turn; NULL: not made yet */
};

/* The streams of a rank, hashed by key. All 0 at first. */
struct gpu_flows {
    struct gpu_flow *places;
    unsigned n_places; /* a power of 2, or 0 */
    unsigned n_used;   /* at most half of them */
};

struct gpu_call;

/* Counts a submission that is about to be made: may wait until there is room for it. May switch. */
void gpu_flow_count(const struct gpu_call *call, const void *caller);

/* Of the calling rank: the stream is gone; all streams of a context are gone, and their events with them. */
void gpu_flow_forget(CUstream stream);
void gpu_flow_forget_all(void);

#endif
