/* SPDX-License-Identifier: BSD-3-Clause
 *
 * flow.h: keeps a rank from putting more on a stream than the driver accepts. For the files of src/gpu
 * alone.
 *
 * A stream has room for 1,021 operations, all streams of a context for 8,168. Further submissions block in
 * the driver until there is room again, and a kernel at the head of the stream that waits for another rank
 * of the same PE would never end. So the rank's submissions are counted per stream, and after every
 * GPU_FLOW_SPAN of them an event is recorded. Before the event is reused, GPU_FLOW_MARKS spans later, the
 * rank waits for it, suspended.
 */
#ifndef GPU_FLOW_H
#define GPU_FLOW_H

#include <cuda.h>

#include "base/base.h"

#define GPU_FLOW_SPAN 128
#define GPU_FLOW_MARKS 2

/* A stream. */
struct gpu_flow {
    void *key;     /* its handle, or a stand-in for a context's own default stream; NULL: a free entry */
    unsigned n;    /* submissions since the last event */
    unsigned next; /* index of the next event */
    CUevent marks[GPU_FLOW_MARKS]; /* used in turn; NULL: not created yet */
};

/* The streams of a rank, hashed by key. Initially all 0. */
struct gpu_flows {
    struct gpu_flow *places;
    unsigned n_places; /* a power of 2, or 0 */
    unsigned n_used;   /* at most half of them */
};

struct gpu_call;

/* Counts a submission that is about to be made: may wait until there is room for it. May switch. */
void gpu_flow_count(const struct gpu_call *call, const void *caller);

/* Called by the rank when the stream, or all streams of a context with their events, are destroyed. */
void gpu_flow_forget(CUstream stream);
void gpu_flow_forget_all(void);

#endif
