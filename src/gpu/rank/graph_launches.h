/* SPDX-License-Identifier: BSD-3-Clause
 *
 * graph_launches.h: whether launches of CUDA graphs are pending that may wait for a PE. gpu_streams_n_waiting does not count
 * them: only the driver knows when a launch reaches its operations of MPI.
 *
 * An event after the latest launch in each stream tells. Programs that capture no operation of MPI pay one load per launch,
 * others an event.
 */
#ifndef GPU_GRAPH_LAUNCHES_H
#define GPU_GRAPH_LAUNCHES_H

#include <cuda.h>
#include <stdatomic.h>

#include "base/base.h"

/* True once an operation of MPI has been captured. */
extern _Atomic bool gpu_graphs_wait;

/* Notes a launch in a stream of the current context. Never switches. */
void gpu_graph_launch_note(CUstream stream);

/* True if one of them is not over. Any context may be current. Never switches. */
bool gpu_graph_launches_are_pending(void);

/* Forgets those in a context that has been lost. */
void gpu_graph_launches_forget(CUcontext context);

#endif
