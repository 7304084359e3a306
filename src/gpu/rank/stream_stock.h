/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_stock.h: streams of primary contexts that are created in advance. For the files of src/gpu alone.
 *
 * cuStreamCreate waits for the whole GPU at times, and holds a lock of the driver meanwhile (seen on H200s
 * with 8 ranks). Each rank has a default stream of its own, which it needs while other ranks' kernels may
 * run. So some streams are created together with the context, when nothing runs there.
 *
 * Once streams wait for operations of PEs, such a wait might never end. So before the first one can wait, the
 * stock is filled with streams for all that ranks and PEs create later.
 */
#ifndef GPU_STREAM_STOCK_H
#define GPU_STREAM_STOCK_H

#include <cuda.h>

/* Creates streams for n_ranks ranks in a device's primary context, which has just been created. */
void gpu_stock_fill(int device, CUcontext context, int n_ranks);

/* Called once before a stream of this primary context, which is current, can wait for operations of PEs: creates streams
 * for all ranks and PEs of the process. */
void gpu_stock_prepare(int device, CUcontext context);

/* Creates another stream of this priority, like one that the program has created: its repeated launches become a graph,
 * which is captured in a stream of the same priority. The context is current. */
void gpu_stock_add(CUcontext context, int priority);

/* A non-blocking stream of this priority in this context, which now belongs to the caller. NULL: none is left. Any thread. */
CUstream gpu_stock_take(CUcontext context, int priority);

/* Called when a primary context is reset: its streams are gone. */
void gpu_stock_forget(CUcontext context);

#endif
