/* SPDX-License-Identifier: BSD-3-Clause
 *
 * graph_launches.h: whether launches of CUDA graphs are pending that may wait for a PE. gpu_streams_n_waiting does not count
 * them: only the driver knows when a launch reaches its operations of MPI.
 *
 * Nor does it count streams that wait for an event behind another GPU's operation.
 *
 * An event after the latest launch or wait in each stream tells. Programs that capture no operation of MPI pay one load per launch.
 * Others pay a look into a table, and an event if the graph may have operations of MPI. A program must not copy the nodes of
 * such operations into other graphs by their parameters.
 */
#ifndef GPU_GRAPH_LAUNCHES_H
#define GPU_GRAPH_LAUNCHES_H

#include <cuda.h>
#include <stdatomic.h>

#include "base/base.h"

/* True once an operation of MPI has been captured. */
extern _Atomic bool gpu_graphs_wait;

/* Notes that an executable graph may have operations of MPI, or has none; it may if it was never noted. Whoever changes or
 * destroys one notes that it may. Any thread; never switches. */
void gpu_graph_exec_note(CUgraphExec exec, bool may_wait);

/* True if launches of the executable graph are to be noted. Any thread; never switches. */
bool gpu_graph_exec_may_wait(CUgraphExec exec);

/* A launch that is being made; on the caller's stack. */
struct gpu_graph_launch {
    CUcontext context; /* of its stream; NULL: it will be captured */
    int device;
};

/* Before a launch. In a process with one rank, lets the PE make progress until the driver has room for it, and enters the gate
 * of the stream's device (free_gate.h). May switch. */
void gpu_graph_launch_begin(struct gpu_graph_launch *launch, CUstream stream, const void *caller);

/* The same before a stream waits for an event, which may be behind a stream of another GPU that waits for the PE. Does nothing if
 * none waits, and in processes with several ranks. May switch. */
void gpu_graph_wait_begin(struct gpu_graph_launch *launch, CUstream stream, const void *caller);

/* Notes the launch, if it is one, and leaves the gate. Only if there is a context. Never switches. */
void gpu_graph_launch_end(const struct gpu_graph_launch *launch, CUstream stream, bool is_launched);

/* True if a launch on this device is not over. Any context may be current. Never switches. */
#define GPU_DEVICES_ALL (-1)
bool gpu_graph_launches_are_pending(int device);

/* Forgets those in a context that is lost. */
void gpu_graph_launches_forget(CUcontext context);

#endif
